//! The side of the dead: finds the best replica and orders it to take over, for as long as our own server stays away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto::agent::{LookReply, TakeOverReply, TakeOverRequest};
use proto::heartbeat::ServerState;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::choice::{Choice, Next, after, choose, lacks};
use super::death::{Death, Replica};
use super::successor::outcome_in_words;
use crate::sidecar::health::Figures;
use crate::sidecar::peers::Peers;
use crate::sidecar::sight::Sight;
use crate::{chain, say};

/// For what a replica says of itself: one that takes longer is not asked to lead.
const LOOK: Duration = Duration::from_millis(300);
/// For one order: a little more than whoever gets it takes at most.
const ORDER: Duration = Duration::from_millis(1900);
/// For all of it. Then it is the operator's turn, who waits for a little longer than this: two who give orders hinder each other.
const ALL: Duration = Duration::from_millis(2200);
/// Between two rounds: whoever was not able may be soon.
const PAUSE: Duration = Duration::from_millis(200);

/// How it ended.
enum Ended {
    /// Somebody leads at our word.
    TakenOver(String, TakeOverReply),
    /// Somebody led already.
    Led(String),
    /// Our own server is back, and until then nobody could.
    Back(String),
    /// Nobody else is to be asked.
    Stopped(String),
    /// Nobody could.
    GaveUp(String),
}

impl Ended {
    fn label(&self) -> &'static str {
        match self {
            Self::TakenOver(..) => "takenOver",
            Self::Led(_) => "ledAlready",
            Self::Back(_) => "serverBack",
            Self::Stopped(_) => "stopped",
            Self::GaveUp(_) => "gaveUp",
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakenOver(who, answer) => {
                write!(formatter, "{who} took over ({})", outcome_in_words(*answer))
            }
            Self::Led(who) => write!(formatter, "{who} had taken over"),
            Self::Back(why) if why.is_empty() => {
                formatter.write_str("nobody is to take over: the server is back")
            }
            Self::Back(why) => write!(formatter, "the server is back before anybody took over: {why}"),
            Self::Stopped(why) => write!(formatter, "nobody else is asked to take over: {why}"),
            Self::GaveUp(why) => write!(formatter, "nobody took over, others have to see to it: {why}"),
        }
    }
}

/// See to each death.
pub(in crate::sidecar) async fn go_on(
    mut deaths: mpsc::Receiver<Death>,
    mut sight: watch::Receiver<Sight>,
    peers: Peers,
    figures: Arc<Figures>,
) {
    while let Some(death) = deaths.recv().await {
        let begun = Instant::now();
        let mut why = String::new();
        let ended = tokio::select! {
            biased;
            // Two of us must never be there because one was called too late.
            _ = sight.wait_for(|seen| !matches!(seen.report.server, ServerState::Down)) => None,
            ended = settle(&death, &peers, begun + ALL, &mut why) => Some(ended),
        };
        let ended = ended.unwrap_or(Ended::Back(why));
        figures.succession_ended(ended.label());
        let Death { node_id, config_epoch, .. } = &death;
        say(&format!(
            "the server died as the primary {node_id} of epoch {config_epoch}: {ended}, {} ms later",
            begun.elapsed().as_millis()
        ));
    }
}

/// Why nobody could so far is told on the way: our server may be back before this ends.
async fn settle(death: &Death, peers: &Peers, end: Instant, why: &mut String) -> Ended {
    loop {
        let answers = ask_all(death, peers, why).await;
        let able = match choose(death, &answers) {
            Choice::Led(replica) => return Ended::Led(replica.node_id.clone()),
            Choice::Ask(able) => able,
        };
        if able.is_empty() && why.is_empty() {
            let words = answers.iter().filter_map(|(replica, said)| {
                Some(format!("{}: {}", replica.node_id, lacks(death, replica, said)?))
            });
            *why = words.collect::<Vec<_>>().join("; ");
        }
        for replica in able {
            let left = end.saturating_duration_since(Instant::now());
            if left < PAUSE {
                return Ended::GaveUp(std::mem::take(why));
            }
            let address = peers.beside(replica.ip, replica.port);
            let order = TakeOverRequest {
                dead_node_id: death.node_id.clone(),
                config_epoch: death.config_epoch,
                run_id: death.run_id.clone(),
            };
            match peers.take_over(address, order, left.min(ORDER)).await {
                Ok(answer) => {
                    let words = || format!("{}: {}", replica.node_id, outcome_in_words(answer));
                    match after(answer) {
                        Next::Done => return Ended::TakenOver(replica.node_id.clone(), answer),
                        Next::Stop => return Ended::Stopped(words()),
                        Next::Another => *why = words(),
                    }
                }
                Err(error) => *why = chain(&error),
            }
        }
        if Instant::now() + PAUSE + LOOK >= end {
            return Ended::GaveUp(std::mem::take(why));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What all of them say of themselves, asked at the same time.
async fn ask_all<'a>(death: &'a Death, peers: &Peers, why: &mut String) -> Vec<(&'a Replica, LookReply)> {
    let mut asking = JoinSet::new();
    for (index, replica) in death.replicas.iter().enumerate() {
        let (peers, address) = (peers.clone(), peers.beside(replica.ip, replica.port));
        asking.spawn(async move { (index, peers.look(address, LOOK).await) });
    }
    let mut answers = Vec::new();
    while let Some(asked) = asking.join_next().await {
        match asked {
            Ok((index, Ok(answer))) => {
                answers.extend(death.replicas.get(index).map(|replica| (replica, answer)));
            }
            Ok((_, Err(error))) => *why = chain(&error),
            Err(error) => *why = error.to_string(),
        }
    }
    answers
}
