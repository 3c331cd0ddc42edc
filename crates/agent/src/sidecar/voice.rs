//! When to speak to the operator, and what to say.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto::heartbeat::{EVENTS, Event, HEARTBEAT, Happened, Heartbeat, Reply, Report, Stamp};
use snafu::{ResultExt as _, Snafu};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::health::Figures;
use super::papers::{self, Papers, Wallet};
use super::post::{self, post};
use super::sight::Sight;
use crate::args::SidecarArgs;
use crate::{chain, say};

/// Changes that come one after the other are told together.
const GAP: Duration = Duration::from_millis(250);
/// After the first failure; then twice as long each time.
const RETRY: Duration = Duration::from_millis(500);
/// For asking for the operator's name: whoever waits for its word cannot wait for longer.
const NAME: Duration = Duration::from_secs(2);

/// Why nothing was said.
#[derive(Debug, Snafu)]
enum Error {
    #[snafu(transparent)]
    Papers { source: papers::Error },
    #[snafu(display("failed to find {name}"))]
    Find { name: String, source: std::io::Error },
    #[snafu(display("failed to find {name} within {NAME:?}"))]
    FindInTime { name: String },
    #[snafu(display("failed to find {name}: it has no address"))]
    FindNone { name: String },
    #[snafu(transparent)]
    Post { source: post::Error },
}

/// To whom to speak, and as whom.
pub(super) struct Listener {
    operator: String,
    mtls: PathBuf,
    pod_uid: String,
    every: Duration,
}

impl Listener {
    pub(super) fn of(args: &SidecarArgs) -> Self {
        Self {
            operator: args.operator.clone(),
            mtls: args.mtls.clone(),
            pod_uid: args.pod_uid.clone(),
            every: args.heartbeat,
        }
    }
}

/// Something the operator is asked, and where the answer goes.
type Question = (Event, oneshot::Sender<Reply>);

/// How others of us get through to the operator: one voice speaks to it, so that what it hears has an order.
#[derive(Clone)]
pub(super) struct Rapport {
    heard: watch::Receiver<Option<Instant>>,
    wanted: Arc<Notify>,
    questions: mpsc::Sender<Question>,
}

impl Rapport {
    /// When we last began to say something that the operator took, and had nothing against.
    pub(super) fn heard(&self) -> Option<std::time::Instant> {
        self.heard.borrow().map(Instant::into_std)
    }

    /// Do not wait for the next heartbeat.
    pub(super) fn speak_now(&self) {
        self.wanted.notify_one();
    }

    /// What the operator says to that, if it says anything in time.
    pub(super) async fn ask(&self, event: Event, within: Duration) -> Option<Reply> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send((event, answer)).ok()?;
        tokio::time::timeout(within, answered).await.ok()?.ok()
    }
}

/// The other end of it.
pub(super) struct Ear {
    heard: watch::Sender<Option<Instant>>,
    wanted: Arc<Notify>,
    questions: mpsc::Receiver<Question>,
}

/// Both ends.
pub(super) fn rapport() -> (Rapport, Ear) {
    let (heard, seen) = watch::channel(None);
    let wanted = Arc::new(Notify::new());
    let (ask, questions) = mpsc::channel(1);
    let rapport = Rapport { heard: seen, wanted: wanted.clone(), questions: ask };
    (rapport, Ear { heard, wanted, questions })
}

/// Speak again and again.
pub(super) async fn speak(
    listener: Listener,
    mut sight: watch::Receiver<Sight>,
    mut events: mpsc::Receiver<Event>,
    mut ear: Ear,
    figures: Arc<Figures>,
) {
    let every = listener.every;
    let mut voice = Voice::new(listener);
    let mut untold = None;
    let mut asked: Option<Question> = None;
    let mut failures = 0;
    let mut turn = Instant::now();
    loop {
        tokio::select! {
            biased;
            // At once, also while nobody hears us: whoever is back must not wait for it.
            Some(event) = events.recv(), if untold.is_none() => {
                untold = Some(event);
                turn = Instant::now();
                continue;
            }
            Some(question) = ear.questions.recv(), if asked.is_none() => {
                asked = Some(question);
                turn = Instant::now();
                continue;
            }
            () = ear.wanted.notified() => {}
            changed = sight.changed() => {
                if changed.is_err() {
                    return;
                }
                if failures == 0 {
                    turn = turn.min(Instant::now() + GAP);
                }
                continue;
            }
            () = sleep_until(turn) => {}
        }
        let seen = sight.borrow_and_update().clone();
        if seen.revision == 0 {
            turn = Instant::now() + GAP;
            continue;
        }
        let begun = Instant::now();
        // What happened to us comes before what we ask.
        let event = untold.as_ref().or(asked.as_ref().map(|(event, _)| event));
        let is_question = untold.is_none() && asked.is_some();
        let said = voice.say(&seen, event).await;
        figures.spoke(said.is_ok());
        // A question is asked once: whoever asked thinks again.
        let question = asked.take_if(|_| is_question);
        let pause = match said {
            Ok((said, reply)) => {
                ear.heard.send_replace((!reply.objects).then_some(begun));
                if let Some((_, answer)) = question {
                    // Whoever asked may have given up.
                    let _ = answer.send(reply);
                }
                match said {
                    Said::Enough => jittered(every, rand::random()),
                    Said::AskedForMore => Duration::ZERO,
                }
            }
            Err(error) => {
                voice.complain(&chain(&error));
                failures += 1;
                turn = Instant::now() + jittered(back_off(failures, every), rand::random());
                continue;
            }
        };
        failures = 0;
        if !is_question && untold.take().is_some() {
            figures.told();
        }
        turn = if asked.is_some() { Instant::now() } else { Instant::now() + pause };
    }
}

/// What the operator makes of a message.
enum Said {
    Enough,
    /// It does not know what we see, and we did not say.
    AskedForMore,
}

/// Longer after each failure, and never longer than between two heartbeats.
fn back_off(failures: u32, longest: Duration) -> Duration {
    RETRY.saturating_mul(1 << failures.clamp(1, 10).saturating_sub(1)).min(longest)
}

/// Between four fifths and six fifths: pods that were started together must not speak together for ever.
fn jittered(pause: Duration, random: u8) -> Duration {
    pause.mul_f64(0.8 + 0.4 * f64::from(random) / f64::from(u8::MAX))
}

struct Voice {
    listener: Listener,
    wallet: Wallet,
    session: u32,
    sequence: u64,
    /// Where the operator was found.
    address: Option<SocketAddr>,
    /// The last thing the operator was told, or could not be: it asks the server itself then.
    told: Option<u64>,
    complained: Option<String>,
}

impl Voice {
    fn new(listener: Listener) -> Self {
        let wallet = Wallet::new(listener.mtls.clone());
        let session = rand::random();
        Self { listener, wallet, session, sequence: 0, address: None, told: None, complained: None }
    }

    /// One message. What is seen goes with it, unless the operator has it.
    async fn say(&mut self, sight: &Sight, event: Option<&Event>) -> Result<(Said, Reply), Error> {
        let papers = self.wallet.papers()?;
        let address = self.address().await?;
        let report = (self.told != Some(sight.revision)).then(|| Report::clone(&sight.report));
        let with_report = report.is_some();
        let mut said = self.post(address, &papers, sight.revision, report, event).await;
        let is_too_long = matches!(said, Err(post::Error::TooLong { .. }));
        if is_too_long {
            said = self.post(address, &papers, sight.revision, None, event).await;
        }
        if said.as_ref().is_err_and(post::Error::is_unreached) {
            self.address = None;
        }
        let reply = said?;
        if self.complained.take().is_some() {
            say("the operator hears us");
        }
        let is_asked_for = reply.wants_report && !with_report;
        self.told = (!is_asked_for).then_some(sight.revision);
        Ok((if is_asked_for { Said::AskedForMore } else { Said::Enough }, reply))
    }

    async fn post(
        &mut self,
        address: SocketAddr,
        papers: &Papers,
        revision: u64,
        report: Option<Report>,
        event: Option<&Event>,
    ) -> Result<Reply, post::Error> {
        self.sequence += 1;
        let (pod_uid, session, sequence) = (self.listener.pod_uid.clone(), self.session, self.sequence);
        let stamp = Stamp { pod_uid, session, sequence };
        match event.cloned() {
            Some(event) => post(address, papers, EVENTS, &Happened { stamp, event, revision, report }).await,
            None => post(address, papers, HEARTBEAT, &Heartbeat { stamp, revision, report }).await,
        }
    }

    /// The operator's address. It stays for as long as somebody answers there: to ask for a name takes several questions.
    async fn address(&mut self) -> Result<SocketAddr, Error> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let name = &self.listener.operator;
        let Ok(found) = tokio::time::timeout(NAME, tokio::net::lookup_host(name)).await else {
            return FindInTimeSnafu { name }.fail();
        };
        let Some(address) = found.context(FindSnafu { name })?.next() else {
            return FindNoneSnafu { name }.fail();
        };
        self.address = Some(address);
        Ok(address)
    }

    /// Once for each reason: an operator that is away for a day is one line.
    fn complain(&mut self, words: &str) {
        if self.complained.as_deref() != Some(words) {
            say(&format!("the operator does not hear us: {words}"));
            self.complained = Some(words.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let longest = Duration::from_secs(15);
        let pauses: Vec<u128> = (1..9).map(|failures| back_off(failures, longest).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
        assert_eq!(back_off(u32::MAX, longest), longest);
    }

    #[test]
    fn pods_that_were_started_together_drift_apart() {
        let pause = Duration::from_secs(10);
        assert_eq!(jittered(pause, 0), Duration::from_secs(8));
        assert_eq!(jittered(pause, u8::MAX), Duration::from_secs(12));
    }
}
