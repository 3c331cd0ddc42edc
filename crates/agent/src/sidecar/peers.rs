//! Asking the agents beside other servers of our cluster.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use channel::{AskError, Called, Line, Whom};
use proto::agent::agent_client::AgentClient;
use proto::agent::{
    AgreeReply, AgreeRequest, LONGEST, LookReply, LookRequest, RenewReply, RenewRequest, TakeOverReply,
    TakeOverRequest,
};
use snafu::Snafu;
use tokio::task::JoinSet;
use tonic::Status;
use valkey::cluster::voters::Voter;

use super::papers::{self, Papers, SharedWallet};
use crate::args::SidecarArgs;

/// Where every agent answers.
pub(super) const PORT: u16 = 17369;

/// Why a peer did not answer.
#[derive(Debug, Snafu)]
pub(super) enum Error {
    /// We have nothing to show.
    #[snafu(transparent)]
    Papers {
        /// Why.
        source: papers::Error,
    },
    /// Nobody of our cluster was reached, or it cannot answer.
    #[snafu(transparent)]
    Ask {
        /// Why.
        source: AskError,
    },
}

/// How to reach them.
#[derive(Clone)]
pub(super) struct Peers {
    wallet: SharedWallet,
    /// Those that are not where all are.
    elsewhere: HashMap<SocketAddr, SocketAddr>,
    /// Those whose names nobody knows.
    called: HashMap<String, SocketAddr>,
}

impl Peers {
    pub(super) fn of(args: &SidecarArgs, wallet: SharedWallet) -> Self {
        Self {
            wallet,
            elsewhere: args.peer.iter().copied().collect(),
            called: args.host.iter().cloned().collect(),
        }
    }

    /// Whether a server or the agent beside it can be reached at all.
    pub(super) async fn finds(&self, voter: &Voter) -> bool {
        channel::is_there(SocketAddr::new(voter.ip, voter.port), self.beside(voter.ip, voter.port)).await
    }

    /// Where the agent beside the server of this name is, if nobody has to be asked for it.
    pub(super) fn called(&self, host: &str) -> Option<SocketAddr> {
        self.called.get(host).copied()
    }

    /// Where the agent beside a server is: on the same address, on the port of all agents.
    pub(super) fn beside(&self, ip: IpAddr, port: u16) -> SocketAddr {
        let elsewhere = self.elsewhere.get(&SocketAddr::new(ip, port));
        elsewhere.copied().unwrap_or(SocketAddr::new(ip, PORT))
    }

    /// What the server there is.
    pub(super) async fn look(&self, address: SocketAddr, within: Duration) -> Result<LookReply, Error> {
        let ask = async |mut agent: AgentClient<Line>| agent.look(LookRequest {}).await;
        self.ask(address, within, ask).await
    }

    /// Tell the server there to take over.
    pub(super) async fn take_over(
        &self,
        address: SocketAddr,
        order: TakeOverRequest,
        within: Duration,
    ) -> Result<TakeOverReply, Error> {
        let ask = async |mut agent: AgentClient<Line>| agent.take_over(order).await;
        self.ask(address, within, ask).await
    }

    /// Ask for somebody's word.
    pub(super) async fn agree(
        &self,
        address: SocketAddr,
        request: AgreeRequest,
        within: Duration,
    ) -> Result<AgreeReply, Error> {
        let ask = async |mut agent: AgentClient<Line>| agent.agree(request).await;
        self.ask(address, within, ask).await
    }

    /// A channel that stays open.
    pub(super) async fn open(&self, address: SocketAddr, within: Duration) -> Result<Talk, Error> {
        let papers = self.wallet.papers()?;
        let (line, connection) =
            channel::dial(&of_our_cluster(&papers, address), &papers.credentials, within).await?;
        let mut kept = JoinSet::new();
        // How it ended, the next question tells.
        kept.spawn(async move { connection.await.ok() });
        Ok(Talk { address, agent: client(line), _line: kept })
    }

    async fn ask<T>(
        &self,
        address: SocketAddr,
        within: Duration,
        ask: impl AsyncFnOnce(AgentClient<Line>) -> Result<tonic::Response<T>, Status>,
    ) -> Result<T, Error> {
        let papers = self.wallet.papers()?;
        let put = async |line: Line| ask(client(line)).await;
        Ok(channel::ask(&of_our_cluster(&papers, address), &papers.credentials, within, put).await?)
    }
}

fn of_our_cluster(papers: &Papers, address: SocketAddr) -> Called {
    Called { address, whom: Whom::SidecarOf(papers.own.home()) }
}

fn client(line: Line) -> AgentClient<Line> {
    let origin = line.origin();
    AgentClient::with_origin(line, origin).max_decoding_message_size(LONGEST)
}

/// A channel to somebody who is asked again and again. It is closed when this is dropped.
pub(super) struct Talk {
    address: SocketAddr,
    agent: AgentClient<Line>,
    _line: JoinSet<Option<()>>,
}

impl Talk {
    /// Ask to go on.
    pub(super) async fn renew(&mut self, request: &RenewRequest) -> Result<RenewReply, Error> {
        let address = self.address;
        let answer = self.agent.renew(request.clone()).await;
        let answer = answer.map_err(|status| AskError::Answer { address, source: Box::new(status) });
        Ok(answer?.into_inner())
    }
}
