//! Somebody who calls agents by gRPC, with whatever certificate it has.

use std::net::SocketAddr;
use std::time::Duration;

use channel::{AskError, Called, Credentials, Line, Whom};
use pki::{Authority, Identity, Role};
use proto::agent::agent_client::AgentClient;
use proto::agent::{
    Directive, LoadUsersReply, LoadUsersRequest, LookReply, LookRequest, SetDirectivesReply,
    SetDirectivesRequest, TakeOverReply, TakeOverRequest,
};
use tonic::{Response, Status};

use super::operator::{identity, papers};

const SOON: Duration = Duration::from_secs(5);

pub(crate) struct Caller {
    credentials: Credentials,
}

impl Caller {
    /// Somebody whom this authority signed for.
    pub(crate) fn new(authority: &Authority, identity: Identity) -> Self {
        Self::trusting(authority, identity, authority)
    }

    /// Somebody who believes another one than signed for it.
    pub(crate) fn trusting(authority: &Authority, identity: Identity, trusted: &Authority) -> Self {
        let [(_, chain), (_, key), _] = papers(authority, identity);
        Self { credentials: Credentials::read(&chain, &key.into(), trusted.anchor()).unwrap() }
    }

    pub(crate) async fn look(&self, at: SocketAddr) -> Result<LookReply, AskError> {
        self.ask(at, async |mut agent| agent.look(LookRequest {}).await).await
    }

    pub(crate) async fn take_over(
        &self,
        at: SocketAddr,
        order: TakeOverRequest,
    ) -> Result<TakeOverReply, AskError> {
        self.ask(at, async |mut agent| agent.take_over(order).await).await
    }

    pub(crate) async fn set(
        &self,
        at: SocketAddr,
        directives: &[(&str, &str)],
    ) -> Result<SetDirectivesReply, AskError> {
        let directives = directives
            .iter()
            .map(|(name, value)| Directive { name: (*name).to_owned(), value: (*value).to_owned() })
            .collect();
        let order = SetDirectivesRequest { directives };
        self.ask(at, async |mut agent| agent.set_directives(order).await).await
    }

    pub(crate) async fn load_users(&self, at: SocketAddr) -> Result<LoadUsersReply, AskError> {
        self.ask(at, async |mut agent| agent.load_users(LoadUsersRequest {}).await).await
    }

    async fn ask<T>(
        &self,
        address: SocketAddr,
        ask: impl AsyncFnOnce(AgentClient<Line>) -> Result<Response<T>, Status>,
    ) -> Result<T, AskError> {
        let called = Called { address, whom: Whom::SidecarOf(identity(Role::Operator, None).home()) };
        let put = async |line: Line| {
            let origin = line.origin();
            ask(AgentClient::with_origin(line, origin)).await
        };
        channel::ask(&called, &self.credentials, SOON, put).await
    }
}
