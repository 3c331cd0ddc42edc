//! A cluster client that hides nothing: every redirection and every retry is told to whoever asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use valkey::Deadlines;
use valkey::client::Value;
use valkey::slots::SLOT_COUNT;

use super::WitnessError;
use super::links::Links;
use super::slot_map::SlotMap;
use super::trouble::{Refusal, Trouble};
use crate::access::{Access, Address};

/// Pause before a refused command is sent again.
const PAUSE: Duration = Duration::from_millis(25);
/// After so many redirections in a row the servers disagree, and time is needed more than haste.
const HOPS: u32 = 5;
/// How long an answer may still come from a server that does not own the slot any more: a primary that hands over
/// answers everybody it kept waiting, and it would be wrong to call that silence.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How often the slots are learned without any reason.
const LEARN_EVERY: Duration = Duration::from_secs(10);
/// How often they are learned after something went wrong, and for how long: a failover is news for everybody, also for
/// those who wait in vain for an answer and so meet nothing new.
const LEARN_IN_TROUBLE: Duration = Duration::from_millis(100);
const TROUBLE_LASTS: Duration = Duration::from_secs(3);

/// Something on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Detour {
    /// MOVED.
    Moved,
    /// ASK.
    Asked,
    /// The command is sent again.
    Retried(Trouble),
}

/// A command went through.
pub(super) struct Done {
    /// What the server answered.
    pub(super) value: Value,
    /// An earlier attempt may have gone through too.
    pub(super) ambiguous: bool,
}

/// A command did not go through in time.
#[derive(Debug)]
pub(super) struct Undone {
    /// What stood in the way last.
    pub(super) trouble: Trouble,
    /// An attempt may have gone through unseen.
    pub(super) ambiguous: bool,
}

/// Knows who owns which slot, and brings commands there.
pub(super) struct Router {
    links: Arc<Links>,
    map: Arc<watch::Sender<SlotMap>>,
    stale: Arc<Notify>,
    _learner: AbortOnDropHandle<()>,
}

enum Route {
    Owner,
    Ask(Address),
}

impl Router {
    /// Learns the slots from any seed and opens a connection to every node.
    pub(super) async fn open(access: Access, attempt: Duration) -> Result<Self, WitnessError> {
        let deadlines = Deadlines { connect: attempt, command: attempt };
        let links = Arc::new(Links::new(access, deadlines));
        let map = learn(&links, &links.seeds()).await.ok_or_else(|| WitnessError::Seeds {
            seeds: links.seeds().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        })?;
        let covered = map.covered();
        if covered < usize::from(SLOT_COUNT) {
            return Err(WitnessError::Uncovered { covered });
        }
        links.keep(map.nodes()).await;
        let map = Arc::new(watch::channel(map).0);
        let stale = Arc::new(Notify::new());
        let learner = tokio::spawn(keep_learning(links.clone(), map.clone(), stale.clone()));
        Ok(Self { links, map, stale, _learner: AbortOnDropHandle::new(learner) })
    }

    /// The cluster can be found at these addresses from now on, as a name that is resolved again tells.
    pub(super) fn found_at(&self, seeds: impl IntoIterator<Item = Address>) {
        self.links.found_at(seeds.into_iter().collect());
    }

    /// What is known of the slots now.
    pub(super) fn map(&self) -> SlotMap {
        self.map.borrow().clone()
    }

    /// Sends a command to the primary of a slot until it goes through, is refused for good, or the time is over.
    pub(super) async fn call(
        &self,
        slot: u16,
        command: &[&str],
        until: Instant,
        mut note: impl FnMut(&Detour),
    ) -> Result<Done, Undone> {
        if Instant::now() >= until {
            return Err(Undone { trouble: Trouble::NeverSent, ambiguous: false });
        }
        let (mut route, mut ambiguous, mut hops) = (Route::Owner, false, 0);
        loop {
            let attempt = timeout_at(until, self.attempt(slot, &route, command)).await;
            let refusal = match attempt.unwrap_or_else(|_| Err(Trouble::Timeout.into())) {
                Ok(value) => return Ok(Done { value, ambiguous }),
                Err(refusal) => refusal,
            };
            let (detour, again) = match refusal {
                Refusal::Moved(to) => {
                    self.map.send_modify(|map| map.moved(slot, &to));
                    (Detour::Moved, Route::Owner)
                }
                Refusal::Ask(to) => (Detour::Asked, Route::Ask(to)),
                Refusal::Trouble(trouble) => {
                    ambiguous |= trouble.is_ambiguous();
                    if !trouble.is_worth_retrying() || Instant::now() + PAUSE >= until {
                        return Err(Undone { trouble, ambiguous });
                    }
                    (Detour::Retried(trouble), Route::Owner)
                }
            };
            note(&detour);
            route = again;
            hops += 1;
            if detour != Detour::Asked {
                self.stale.notify_one();
            }
            if matches!(detour, Detour::Retried(_)) || hops % HOPS == 0 {
                sleep(PAUSE).await;
            }
        }
    }

    async fn attempt(&self, slot: u16, route: &Route, command: &[&str]) -> Result<Value, Refusal> {
        if let Route::Ask(address) = route {
            return self.links.to(address).ask(command).await;
        }
        let mut map = self.map.subscribe();
        let owner = map.borrow_and_update().owner(slot).cloned().ok_or(Trouble::NoOwner)?;
        let superseded = async {
            // Fails only if nobody learns any more; then nothing is superseded either.
            if map.wait_for(|map| map.owner(slot) != Some(&owner)).await.is_err() {
                std::future::pending::<()>().await;
            }
            sleep(LAST_WORDS).await;
        };
        let link = self.links.to(&owner);
        tokio::select! {
            answer = link.send(command) => answer,
            () = superseded => Err(Trouble::Superseded.into()),
        }
    }
}

/// Learns the slots again when somebody met a refusal and some time after, and now and then without a reason.
async fn keep_learning(links: Arc<Links>, map: Arc<watch::Sender<SlotMap>>, stale: Arc<Notify>) {
    let mut trouble_until = Instant::now();
    loop {
        let pause = if Instant::now() < trouble_until { LEARN_IN_TROUBLE } else { LEARN_EVERY };
        if timeout(pause, stale.notified()).await.is_ok() {
            trouble_until = Instant::now() + TROUBLE_LASTS;
        }
        let begun = Instant::now();
        // All at once: where every node is gone, a seed answers before the first of them is given up.
        let mut nodes = map.borrow().nodes().clone();
        nodes.extend(links.seeds());
        if let Some(learned) = learn(&links, &nodes).await {
            let changed = map.send_if_modified(|map| {
                let changed = *map != learned;
                *map = learned.clone();
                changed
            });
            if changed {
                let links = links.clone();
                // Beside the learning: a node that is away must not hold up news of the others.
                tokio::spawn(async move { links.keep(learned.nodes()).await });
            }
        }
        // However many complain.
        sleep_until(begun + LEARN_IN_TROUBLE).await;
    }
}

/// Asks all nodes at once. The first view that two of them share counts, or else the one with most slots: a node that
/// lost the others must not be believed alone.
async fn learn(links: &Links, nodes: &BTreeSet<Address>) -> Option<SlotMap> {
    let mut answers: FuturesUnordered<_> = nodes.iter().map(|node| view(links, node)).collect();
    let mut views = Vec::new();
    while let Some(answer) = answers.next().await {
        let Some(view) = answer else { continue };
        if views.contains(&view) {
            return Some(view);
        }
        views.push(view);
    }
    views.into_iter().max_by_key(SlotMap::covered)
}

async fn view(links: &Links, node: &Address) -> Option<SlotMap> {
    let map = match links.to(node).send(&["CLUSTER", "SLOTS"]).await {
        Ok(reply) => SlotMap::read(&reply, node)?,
        // `ERR This instance has cluster support disabled`.
        Err(Refusal::Trouble(Trouble::Refused(code))) if code == "ERR" => SlotMap::single(node),
        Err(_) => return None,
    };
    (map.covered() > 0).then_some(map)
}
