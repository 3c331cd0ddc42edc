//! The side of the replica: says what its server is, and has it take over where that is right.

use std::sync::Arc;
use std::time::Duration;

use proto::agent::{LookReply, Outcome, Reason, TakeOverReply, TakeOverRequest};
use snafu::Snafu;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use valkey::client::{FailoverMode, Section};
use valkey::{Connection, Deadlines};

use super::acceptance::{Caller, Means, Order, Verdict, Warrant, judge};
use super::standing::Standing;
use crate::secrets::PasswordError;
use crate::sidecar::health::Figures;
use crate::sidecar::look::Place;
use crate::{chain, say};

/// For each step.
const PATIENCE: Deadlines =
    Deadlines { connect: Duration::from_millis(250), command: Duration::from_millis(500) };
/// Before the server is told anything. A primary that was told to stop may have handed over in its last moment, and a second order
/// throws the election back that is under way: it costs seconds.
const SETTLE: Duration = Duration::from_millis(100);
/// For the link to the dead primary to be seen to be down.
const LINK: Duration = Duration::from_millis(300);
/// For an election.
const ELECTION: Duration = Duration::from_secs(1);
/// For a server that asks nobody.
const TAKING: Duration = Duration::from_millis(400);
/// Between two looks at the server.
const EVERY: Duration = Duration::from_millis(20);
/// For all of it: whoever gave the order asks another one then.
const ALL: Duration = Duration::from_millis(1800);
/// The sections that tell what a server is, and whether it is still reading its data.
const SECTIONS: [Section; 2] = [Section::Replication, Section::Persistence];

/// Why the server could not be asked.
#[derive(Debug, Snafu)]
enum Error {
    #[snafu(transparent)]
    Password { source: PasswordError },
    #[snafu(transparent)]
    Server { source: valkey::Error },
}

/// What became of an order.
enum Ended {
    /// The server leads.
    Leads(Outcome),
    Refused(Reason),
    Failed(String),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(chain(&error))
    }
}

/// Our server, as the successor of its primary.
pub(in crate::sidecar) struct Successor {
    place: Place,
    is_on: bool,
    /// One order at a time: two would hinder each other.
    turn: Semaphore,
    figures: Arc<Figures>,
}

impl Successor {
    pub(in crate::sidecar) fn new(place: Place, is_on: bool, figures: Arc<Figures>) -> Self {
        Self { place, is_on, turn: Semaphore::new(1), figures }
    }

    /// What our server is just now.
    pub(in crate::sidecar) async fn look(&self) -> LookReply {
        let Ok(connection) = self.connect().await else { return LookReply::default() };
        let standing = standing(&connection).await;
        standing.ok().flatten().map(|standing| standing.told()).unwrap_or_default()
    }

    /// Have our server take over, if that is right.
    pub(in crate::sidecar) async fn take_over(
        &self,
        caller: &Caller,
        request: TakeOverRequest,
    ) -> TakeOverReply {
        let order = Order { dead: &request.dead_node_id, config_epoch: request.config_epoch };
        let (answer, words) = self.carry_out(order, Warrant::Caller(caller)).await;
        let TakeOverRequest { dead_node_id, config_epoch, run_id } = &request;
        // What somebody else wrote, cut: it stands in our log.
        let [dead, run] = [dead_node_id, run_id].map(|text| text.chars().take(40).collect::<String>());
        say(&format!(
            "told by {} to take over from {dead:?} of epoch {config_epoch}, whose run {run:?} ended: {words}, in {} ms",
            caller.identity, answer.took_milliseconds,
        ));
        answer
    }

    /// Have our server replace a primary that most of those who have a say miss. How it went, for people.
    pub(in crate::sidecar) async fn replace(&self, primary: &str, config_epoch: u64) -> String {
        let order = Order { dead: primary, config_epoch };
        self.carry_out(order, Warrant::Majority).await.1
    }

    /// How it ended, and the same for people.
    async fn carry_out(&self, order: Order<'_>, warrant: Warrant<'_>) -> (TakeOverReply, String) {
        let begun = Instant::now();
        let followed = tokio::time::timeout(ALL, self.follow(order, warrant, begun));
        let ended = followed.await.unwrap_or_else(|_| Ended::Failed(format!("not done within {ALL:?}")));
        let (outcome, reason) = match &ended {
            Ended::Leads(outcome) => (*outcome, Reason::Unspecified),
            Ended::Refused(reason) => (Outcome::Refused, *reason),
            Ended::Failed(_) => (Outcome::Failed, Reason::Unspecified),
        };
        self.figures.took_over(label(outcome));
        let took = begun.elapsed().as_millis();
        let answer = TakeOverReply {
            outcome: outcome.into(),
            reason: reason.into(),
            took_milliseconds: u32::try_from(took).unwrap_or(u32::MAX),
        };
        let why = if let Ended::Failed(why) = &ended { format!(" ({why})") } else { String::new() };
        (answer, format!("{}{why}", outcome_in_words(answer)))
    }

    async fn follow(&self, order: Order<'_>, warrant: Warrant<'_>, begun: Instant) -> Ended {
        if !self.is_on {
            return Ended::Refused(Reason::SwitchedOff);
        }
        // It is given back when this ends, also if whoever gave the order hangs up.
        let Ok(_turn) = self.turn.try_acquire() else { return Ended::Refused(Reason::UnderWay) };
        let Ok(connection) = self.connect().await else { return Ended::Refused(Reason::NoServer) };
        let task = Task { connection: &connection, order, warrant };
        let means = match task.settled(begun).await {
            Ok(means) => means,
            Err(ended) => return ended,
        };
        for mode in [Some(means.first), means.then].into_iter().flatten() {
            // What was right for one way may not be for the next: another one may have been elected meanwhile.
            match task.is_still_right().await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
            match task.run(mode).await {
                Ok(true) => return Ended::Leads(outcome_of(mode)),
                Ok(false) => {}
                Err(ended) => return ended,
            }
        }
        Ended::Failed("the server was told to lead, and does not".to_owned())
    }

    async fn connect(&self) -> Result<Connection, Error> {
        Ok(Connection::open(&self.place.server(PATIENCE)?).await?)
    }
}

/// An order on its way.
struct Task<'a> {
    connection: &'a Connection,
    order: Order<'a>,
    warrant: Warrant<'a>,
}

impl Task<'_> {
    /// What the order comes to just now; nothing, if the server is changing.
    async fn judged(&self) -> Result<Option<(Verdict, Standing)>, Ended> {
        let Some(standing) = standing(self.connection).await? else { return Ok(None) };
        let verdict = judge(self.order, self.warrant, &standing).map_err(Ended::Refused)?;
        Ok(Some((verdict, standing)))
    }

    /// Whether our server would know better: a line that was cut stays open for a minute, so that it says nothing about one whom
    /// most cannot reach.
    fn lives(&self, standing: &Standing) -> bool {
        matches!(self.warrant, Warrant::Caller(_)) && standing.link_up()
    }

    /// How to take over, once it is clear that the server does not do it by itself and has lost its primary.
    async fn settled(&self, begun: Instant) -> Result<Means, Ended> {
        let mut reason = Reason::NoServer;
        while begun.elapsed() < LINK {
            match self.judged().await? {
                Some((Verdict::Done, _)) => return Err(Ended::Leads(Outcome::Already)),
                Some((Verdict::Go(means), standing)) => {
                    if !self.lives(&standing) && begun.elapsed() >= SETTLE {
                        return Ok(means);
                    }
                    reason = Reason::PrimaryLives;
                }
                None => reason = Reason::NoServer,
            }
            tokio::time::sleep(EVERY).await;
        }
        Err(Ended::Refused(reason))
    }

    /// The server follows the dead one just now, and has lost it.
    async fn is_still_right(&self) -> Result<(), Ended> {
        match self.judged().await? {
            Some((Verdict::Go(_), standing)) if !self.lives(&standing) => Ok(()),
            Some((Verdict::Go(_), _)) => Err(Ended::Refused(Reason::PrimaryLives)),
            Some((Verdict::Done, _)) => Err(Ended::Leads(Outcome::Already)),
            None => Err(Ended::Refused(Reason::NoServer)),
        }
    }

    /// Whether the server leads after this.
    async fn run(&self, mode: FailoverMode) -> Result<bool, Ended> {
        let failover = self.connection.cluster_failover(mode).await;
        let end = Instant::now() + if mode == FailoverMode::Takeover { TAKING } else { ELECTION };
        // One that leads by now takes no such order, and that is well.
        let refused = failover.err().map(Error::from);
        while Instant::now() < end {
            if let Some((Verdict::Done, _)) = self.judged().await? {
                return Ok(true);
            }
            if let Some(error) = refused {
                return Err(error.into());
            }
            tokio::time::sleep(EVERY).await;
        }
        Ok(false)
    }
}

async fn standing(connection: &Connection) -> Result<Option<Standing>, Error> {
    let (info, nodes) = tokio::try_join!(connection.info_text(&SECTIONS), connection.cluster_nodes_text())?;
    Ok(Standing::read(&info, &nodes))
}

fn outcome_of(mode: FailoverMode) -> Outcome {
    match mode {
        FailoverMode::Takeover => Outcome::Taken,
        FailoverMode::Planned | FailoverMode::Force => Outcome::Elected,
    }
}

fn label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "unknown",
        Outcome::Elected => "elected",
        Outcome::Taken => "taken",
        Outcome::Already => "already",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
    }
}

/// An answer, for people.
pub(super) fn outcome_in_words(answer: TakeOverReply) -> &'static str {
    match (answer.outcome(), answer.reason()) {
        (Outcome::Elected, _) => "it leads, the other primaries voted for it",
        (Outcome::Taken, _) => "it leads, without votes",
        (Outcome::Already, _) => "it leads, by itself",
        (Outcome::Failed, _) => "it failed",
        (Outcome::Unspecified, _) => "it did something that is not known here",
        (Outcome::Refused, Reason::Unspecified) => "refused",
        (Outcome::Refused, Reason::NotItsReplica) => "refused, it is no replica of that one",
        (Outcome::Refused, Reason::OtherEpoch) => "refused, that one's claim is another one by now",
        (Outcome::Refused, Reason::UnderWay) => "refused, another order is under way",
        (Outcome::Refused, Reason::PrimaryLives) => "refused, it is still connected to that one",
        (Outcome::Refused, Reason::CopyNotWhole) => "refused, it holds no whole copy",
        (Outcome::Refused, Reason::NotItsAgent) => "refused, this is not the agent beside that one",
        (Outcome::Refused, Reason::NoMajority) => "refused, too few are left to vote",
        (Outcome::Refused, Reason::NoServer) => "refused, its server does not answer",
        (Outcome::Refused, Reason::SwitchedOff) => "refused, it is switched off",
    }
}
