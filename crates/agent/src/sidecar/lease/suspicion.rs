//! Missing our server's primary. Whoever has a say is asked whether it misses it too; where most do, our server leads in its place.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::agent::{AgreeRequest, LookReply, Objection, Role};
use proto::heartbeat::Event;
use proto::promises::AGREED_FOR;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use valkey::cluster::Node;

use super::super::takeover::Successor;
use super::super::voice::Rapport;
use super::Lease;
use crate::say;
use valkey::cluster::voters::Voters;

/// Between two thoughts.
const EVERY: Duration = Duration::from_millis(250);
/// For somebody's word: it has to look for the primary itself.
const WORD: Duration = Duration::from_millis(700);
/// For what other replicas say of themselves.
const LOOK: Duration = Duration::from_millis(300);
/// After a try: our own look at the server has to see what became of it.
const SEEN: Duration = Duration::from_secs(1);
/// The same where there are other replicas: whoever agreed to us has forgotten it then, and they have their turn if ours could not.
const FORGOTTEN: Duration = AGREED_FOR.saturating_add(Duration::from_secs(1));
/// A replica that is further comes first, for so many rounds.
const YIELDS: u32 = 12;

/// A primary that keeps silent.
struct Silence {
    myself: String,
    voters: Voters,
    /// For long enough to be replaced.
    is_long: bool,
}

/// How one round of questions ended.
enum Round {
    /// It was heard of late.
    Early,
    /// Another replica comes first.
    Behind,
    /// Too few agree.
    Objected(String),
    /// Most agreed.
    Tried(String),
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Early => formatter.write_str("it is not missed for long enough"),
            Self::Behind => formatter.write_str("another replica is further"),
            Self::Objected(words) | Self::Tried(words) => formatter.write_str(words),
        }
    }
}

pub(super) async fn go_on(lease: Arc<Lease>, successor: Arc<Successor>, rapport: Rapport) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut said, mut yielded) = (String::new(), 0);
    loop {
        ticks.tick().await;
        let Some(Silence { myself, voters, is_long }) = missed(&lease) else {
            said.clear();
            yielded = 0;
            continue;
        };
        let ended = lease.replace(&myself, &voters, &successor, &rapport, is_long && yielded < YIELDS).await;
        let words = ended.to_string();
        // Once for each: a primary may be away for a day.
        if words != said && !matches!(ended, Round::Early) {
            say(&format!("the primary {} is missed: {words}", voters.primary.node_id));
            said = words;
        }
        match ended {
            Round::Behind => yielded += 1,
            Round::Early | Round::Objected(_) => {}
            Round::Tried(_) if voters.followers > 1 => tokio::time::sleep(FORGOTTEN).await,
            Round::Tried(_) => tokio::time::sleep(SEEN).await,
        }
    }
}

/// Our own server, and those who have a say about its primary, if that one has kept silent for a third of what is too long: others have
/// to look for it for a while, too. Of one that we never heard from we know nothing: it may have no agent.
fn missed(lease: &Lease) -> Option<Silence> {
    let table = lease.table();
    let myself: &Node = table.myself().filter(|node| node.is_replica() && lease.has_server())?;
    let voters = Voters::of(&table, myself.primary_id.as_deref()?)?;
    let contact = lease.promises().contact(&voters.primary.node_id)?;
    let silent_for = contact.elapsed();
    let is_long = silent_for >= lease.terms.suspicion;
    (silent_for >= lease.terms.suspicion / 3).then(|| Silence { myself: myself.id.clone(), voters, is_long })
}

impl Lease {
    /// Have our server replace its primary, if most agree.
    async fn replace(
        &self,
        myself: &str,
        voters: &Voters,
        successor: &Successor,
        rapport: &Rapport,
        yields: bool,
    ) -> Round {
        let begun = Instant::now();
        // Before we give our own word: it is given to one, and that one would need it.
        if yields && self.is_behind(myself, voters, successor).await {
            return Round::Behind;
        }
        let (own, (agreed, objections)) =
            tokio::join!(self.agreed(voters, myself), self.ask_all(myself, voters, rapport));
        match own {
            Ok(()) => {}
            Err(Objection::TooEarly) => return Round::Early,
            Err(objection) => {
                return Round::Objected(format!("we do not agree ourselves: {}", in_words(objection)));
            }
        }
        let agreed = agreed + 1;
        if agreed < voters.majority() {
            // Two replicas that gave themselves their own word would have to wait for each other, again and again. One alone keeps it:
            // what it tried a moment ago may still come true.
            if voters.followers > 1 {
                self.promises().withdraw(&voters.primary.node_id, myself);
            }
            let needed = voters.majority();
            return Round::Objected(format!("{agreed} agree, and {needed} are needed{objections}"));
        }
        let ended = successor.replace(&voters.primary.node_id, voters.config_epoch).await;
        Round::Tried(format!("{agreed} agree, {ended}, {} ms later", begun.elapsed().as_millis()))
    }

    /// Those who agree, and why others do not.
    async fn ask_all(&self, myself: &str, voters: &Voters, rapport: &Rapport) -> (usize, String) {
        let mut asking = JoinSet::new();
        for voter in voters.others.iter().filter(|voter| voter.node_id != myself) {
            let (peers, address) = (self.peers.clone(), self.peers.beside(voter.ip, voter.port));
            let request =
                AgreeRequest { primary_id: voters.primary.node_id.clone(), node_id: myself.to_owned() };
            asking.spawn(async move {
                let answer = peers.agree(address, request, WORD).await.ok()?;
                Some(answer.objection())
            });
        }
        let primary = &voters.primary;
        let missed =
            Event::PrimaryMissed { node_id: primary.node_id.clone(), ip: primary.ip, port: primary.port };
        if voters.operator {
            let rapport = rapport.clone();
            asking.spawn(async move {
                let agrees = rapport.ask(missed, WORD).await?.agrees;
                Some(if agrees { Objection::Unspecified } else { Objection::Present })
            });
        }
        let (mut agreed, mut objections) = (0, BTreeSet::new());
        // Those who are gone with the primary need not be waited for.
        while agreed + 1 < voters.majority()
            && let Some(answer) = asking.join_next().await
        {
            match answer.ok().flatten() {
                Some(Objection::Unspecified) => agreed += 1,
                Some(objection) => {
                    objections.insert(in_words(objection));
                }
                None => {}
            }
        }
        (agreed, objections.into_iter().map(|words| format!("; {words}")).collect())
    }

    /// Another replica that can be reached has more, or as much and the smaller identity.
    async fn is_behind(&self, myself: &str, voters: &Voters, successor: &Successor) -> bool {
        let mut asking = JoinSet::new();
        let followers = voters.others.iter().take(voters.followers);
        for voter in followers.filter(|voter| voter.node_id != myself) {
            let (peers, address) = (self.peers.clone(), self.peers.beside(voter.ip, voter.port));
            asking.spawn(async move { peers.look(address, LOOK).await.ok() });
        }
        if asking.is_empty() {
            return false;
        }
        let (ours, answers) = tokio::join!(successor.look(), asking.join_all());
        let primary = voters.primary.node_id.as_str();
        answers.into_iter().flatten().any(|other| is_ahead(&other, &ours, primary))
    }
}

fn is_ahead(other: &LookReply, ours: &LookReply, primary: &str) -> bool {
    let able = other.role() == Role::Replica && other.copy_whole && other.primary_id == primary;
    able && (other.offset, Reverse(&other.node_id)) > (ours.offset, Reverse(&ours.node_id))
}

fn in_words(objection: Objection) -> &'static str {
    match objection {
        Objection::Unspecified => "nothing speaks against it",
        Objection::Unknown => "somebody does not know us as its replica",
        Objection::Agreed => "somebody agreed to another one",
        Objection::Present => "somebody reaches it",
        Objection::TooEarly => "somebody heard from it of late",
        Objection::Replaced => "another one leads",
        Objection::SwitchedOff => "somebody leaves it to others",
    }
}
