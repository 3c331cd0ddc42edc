//! What was heard last of each pod.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proto::heartbeat::{Event, Report, ServerState, Stamp};

/// An agent that was not heard for so long is one of which nothing is known. Heartbeats are 12 s apart at most, and one that is
/// lost is repeated half a second later; a lost machine must not be overlooked for longer.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(15);
/// An agent may say so much in [`WINDOW`]: each word of it may wake somebody.
const MESSAGES: u32 = 40;
const WINDOW: Duration = Duration::from_secs(10);
/// A pod of which nothing was heard for so long is forgotten.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// How often those are looked for.
const SWEPT_EVERY: Duration = Duration::from_mins(1);
/// Sessions that are over and still known to be.
const SESSIONS: usize = 16;

/// A message, whichever it is.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) stamp: Stamp,
    pub(super) revision: u64,
    pub(super) report: Option<Report>,
    /// What happened, if it tells of that.
    pub(super) event: Option<Event>,
}

/// What comes of a message that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// What the agent sees is not known here.
    pub(super) wants_report: bool,
    /// Whoever looks after the pod should hear of it.
    pub(super) is_news: bool,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untaken {
    /// It was heard before, or comes too late.
    Replayed,
    /// There are too many of them.
    TooMany,
}

/// What an agent sees, and for how long that counts if nothing more is heard.
pub(crate) struct Fresh {
    pub(crate) report: Arc<Report>,
    pub(crate) for_another: Duration,
}

/// That the server of a pod ended, as its agent told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Death {
    /// How long ago it was told.
    pub(crate) ago: Duration,
    /// No other was seen since.
    pub(crate) lasts: bool,
}

/// By uid of the pod.
#[derive(Default)]
pub(crate) struct Reports(Mutex<Known>);

#[derive(Default)]
struct Known {
    pods: HashMap<String, Heard>,
    swept: Option<Instant>,
}

struct Heard {
    at: Instant,
    session: u32,
    sequence: u64,
    /// Since when messages are counted, and how many there were.
    window: (Instant, u32),
    /// Those before it: what they say is over.
    over: VecDeque<u32>,
    /// What the agent saw last, if it told.
    told: Option<(u64, Arc<Report>)>,
    revision: u64,
    /// When the server was last told to have ended.
    died: Option<Instant>,
}

impl Heard {
    fn begin(session: u32, over: VecDeque<u32>, now: Instant) -> Self {
        Self { at: now, session, sequence: 0, window: (now, 0), over, told: None, revision: 0, died: None }
    }

    /// Whether there is room for another message.
    fn counts(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.window.0) >= WINDOW {
            self.window = (now, 0);
        }
        self.window.1 += 1;
        self.window.1 <= MESSAGES
    }
}

impl Reports {
    /// Take a message of a pod.
    pub(super) fn hear(&self, message: Message, now: Instant) -> Result<Taken, Untaken> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep(now);
        let Stamp { pod_uid, session, sequence } = message.stamp;
        let before = known.pods.remove(&pod_uid);
        let (mut heard, replayed) = match before {
            None => (Heard::begin(session, VecDeque::new(), now), false),
            Some(heard) if heard.session == session => {
                let replayed = sequence <= heard.sequence;
                (heard, replayed)
            }
            Some(heard) if heard.over.contains(&session) => (heard, true),
            Some(mut heard) => {
                heard.over.push_back(heard.session);
                while heard.over.len() > SESSIONS {
                    heard.over.pop_front();
                }
                let window = heard.window;
                (Heard { window, ..Heard::begin(session, heard.over, now) }, false)
            }
        };
        let counts = heard.counts(now);
        if replayed || !counts {
            known.pods.insert(pod_uid, heard);
            return Err(if replayed { Untaken::Replayed } else { Untaken::TooMany });
        }
        let was_told = heard.told.as_ref().map(|(revision, _)| *revision);
        let was_silent = now.saturating_duration_since(heard.at) > FRESH_FOR;
        heard.at = now;
        heard.sequence = sequence;
        heard.revision = message.revision;
        if let Some(Event::ServerDied { .. }) = message.event {
            heard.died = Some(now);
        }
        if let Some(report) = message.report {
            let is_down = |report: &Report| report.server == ServerState::Down;
            // An agent that has much to tell may leave out the event.
            let was_down = heard.told.as_ref().is_some_and(|(_, before)| is_down(before));
            if is_down(&report) && !was_down {
                heard.died = Some(now);
            }
            heard.told = Some((message.revision, Arc::new(report)));
        }
        let is_told = heard.told.as_ref().is_some_and(|(revision, _)| *revision == heard.revision);
        known.pods.insert(pod_uid, heard);
        let is_new = is_told && (was_silent || was_told != Some(message.revision));
        Ok(Taken { wants_report: !is_told, is_news: message.event.is_some() || is_new })
    }

    /// That the server of a pod ended, if that was ever told. An agent that fell silent since may have missed that it is back.
    pub(crate) fn death(&self, pod_uid: &str, now: Instant) -> Option<Death> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = known.pods.get(pod_uid)?;
        let is_fresh = now.saturating_duration_since(heard.at) <= FRESH_FOR;
        let is_down = heard.told.as_ref().is_some_and(|(_, report)| report.server == ServerState::Down);
        let ago = now.saturating_duration_since(heard.died?);
        Some(Death { ago, lasts: is_fresh && is_down })
    }

    /// Whether an agent was heard of late.
    pub(crate) fn is_heard(&self, pod_uid: &str, now: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.pods.get(pod_uid).is_some_and(|heard| now.saturating_duration_since(heard.at) <= FRESH_FOR)
    }

    /// Whether an agent sets directives when it is told to, if it has told. A pod keeps the agent that it was made with, so that it
    /// does not matter when that was.
    pub(super) fn sets_directives(&self, pod_uid: &str) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.pods.get(pod_uid)?.told.as_ref().map(|(_, report)| report.sets_directives)
    }

    /// What an agent sees, if it was heard of late and has told.
    pub(crate) fn fresh(&self, pod_uid: &str, now: Instant) -> Option<Fresh> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = known.pods.get(pod_uid)?;
        let for_another = FRESH_FOR.checked_sub(now.saturating_duration_since(heard.at))?;
        let (revision, report) = heard.told.as_ref()?;
        (*revision == heard.revision).then(|| Fresh { report: report.clone(), for_another })
    }
}

impl Known {
    /// Forget pods that are gone.
    fn sweep(&mut self, now: Instant) {
        let is_due = self.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEPT_EVERY);
        if is_due {
            self.swept = Some(now);
            self.pods.retain(|_, heard| now.saturating_duration_since(heard.at) < KEPT_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::heartbeat::UsersFile;

    use super::*;

    fn report() -> Report {
        Report {
            agent: "1".to_owned(),
            sets_directives: true,
            server: ServerState::Starting,
            users: UsersFile::default(),
        }
    }

    fn message(session: u32, sequence: u64, revision: u64, told: bool) -> Message {
        Message {
            stamp: Stamp { pod_uid: "a".to_owned(), session, sequence },
            revision,
            report: told.then(report),
            event: None,
        }
    }

    const QUIET: Result<Taken, Untaken> = Ok(Taken { wants_report: false, is_news: false });
    const NEWS: Result<Taken, Untaken> = Ok(Taken { wants_report: false, is_news: true });
    const MORE: Result<Taken, Untaken> = Ok(Taken { wants_report: true, is_news: false });

    #[test]
    fn what_is_seen_is_told_once() {
        let (reports, now) = (Reports::default(), Instant::now());
        assert_eq!(reports.hear(message(1, 1, 1, false), now), MORE);
        assert!(reports.fresh("a", now).is_none());
        assert_eq!(reports.hear(message(1, 2, 1, true), now), NEWS);
        assert!(reports.fresh("a", now).is_some());
        assert_eq!(reports.hear(message(1, 3, 1, false), now), QUIET);
        // Something else is seen, and until it is told, what was told before is not so any more.
        assert_eq!(reports.hear(message(1, 4, 2, false), now), MORE);
        assert!(reports.fresh("a", now).is_none());
        assert_eq!(reports.hear(message(1, 5, 2, true), now), NEWS);
        assert_eq!(reports.hear(message(1, 6, 2, true), now), QUIET);
    }

    #[test]
    fn whether_an_agent_sets_directives_is_what_it_said() {
        let (reports, now) = (Reports::default(), Instant::now());
        assert_eq!(reports.sets_directives("a"), None);
        reports.hear(message(1, 1, 1, false), now).unwrap();
        assert_eq!(reports.sets_directives("a"), None);
        reports.hear(message(1, 2, 1, true), now).unwrap();
        assert_eq!(reports.sets_directives("a"), Some(true));
        let older = Report { sets_directives: false, ..report() };
        reports.hear(Message { report: Some(older), ..message(1, 3, 2, true) }, now).unwrap();
        assert_eq!(reports.sets_directives("a"), Some(false));
    }

    #[test]
    fn an_event_is_always_news() {
        let (reports, now) = (Reports::default(), Instant::now());
        reports.hear(message(1, 1, 1, true), now).unwrap();
        let event = Message { event: Some(Event::Unknown), ..message(1, 2, 1, false) };
        assert_eq!(reports.hear(event, now), NEWS);
    }

    #[test]
    fn a_death_lasts_until_another_server_is_seen() {
        let (reports, now) = (Reports::default(), Instant::now());
        let at = |milliseconds| now + Duration::from_millis(milliseconds);
        reports.hear(message(1, 1, 1, true), now).unwrap();
        assert_eq!(reports.death("a", now), None);
        let down = Report { server: ServerState::Down, ..report() };
        let event = Some(Event::ServerDied { run_id: "r".to_owned() });
        let died = Message { event, report: Some(down), ..message(1, 2, 2, true) };
        reports.hear(died, at(100)).unwrap();
        let death = |milliseconds, lasts| Some(Death { ago: Duration::from_millis(milliseconds), lasts });
        assert_eq!(reports.death("a", at(400)), death(300, true));
        // Of an agent that fell silent nobody knows what it sees now.
        assert_eq!(reports.death("a", at(15_200)), death(15_100, false));
        reports.hear(message(1, 3, 3, true), at(500)).unwrap();
        assert_eq!(reports.death("a", at(600)), death(500, false));
    }

    #[test]
    fn nothing_is_heard_twice() {
        let (reports, now) = (Reports::default(), Instant::now());
        reports.hear(message(1, 5, 1, true), now).unwrap();
        for old in [5, 4, 0] {
            assert_eq!(reports.hear(message(1, old, 9, true), now), Err(Untaken::Replayed), "{old}");
        }
        // An agent that was started anew begins to count anew; what the one before said is over.
        assert_eq!(reports.hear(message(2, 1, 1, true), now), NEWS);
        assert_eq!(reports.hear(message(1, 6, 9, true), now), Err(Untaken::Replayed));
        assert_eq!(reports.hear(message(2, 2, 1, false), now), QUIET);
    }

    #[test]
    fn whoever_says_too_much_is_heard_again_later() {
        let (reports, now) = (Reports::default(), Instant::now());
        for sequence in 1..=u64::from(MESSAGES) {
            reports.hear(message(1, sequence, 1, true), now).unwrap();
        }
        assert_eq!(reports.hear(message(1, 100, 1, true), now), Err(Untaken::TooMany));
        // Another session is the same pod.
        assert_eq!(reports.hear(message(2, 1, 1, true), now), Err(Untaken::TooMany));
        assert_eq!(reports.hear(message(2, 2, 1, true), now + WINDOW), NEWS);
    }

    #[test]
    fn somebody_who_was_silent_is_news_again() {
        let (reports, now) = (Reports::default(), Instant::now());
        assert!(!reports.is_heard("a", now));
        reports.hear(message(1, 1, 1, true), now).unwrap();
        assert!(reports.is_heard("a", now + FRESH_FOR));
        let later = now + FRESH_FOR + Duration::from_millis(1);
        assert!(!reports.is_heard("a", later));
        assert_eq!(reports.hear(message(1, 2, 1, false), later), NEWS);
        assert_eq!(reports.hear(message(1, 3, 1, false), later), QUIET);
    }

    #[test]
    fn what_was_heard_long_ago_is_not_known() {
        let (reports, now) = (Reports::default(), Instant::now());
        reports.hear(message(1, 1, 1, true), now).unwrap();
        assert!(reports.fresh("a", now + FRESH_FOR).is_some());
        assert!(reports.fresh("a", now + FRESH_FOR + Duration::from_millis(1)).is_none());
        let other = |sequence| Message {
            stamp: Stamp { pod_uid: "b".to_owned(), session: 1, sequence },
            ..message(1, 1, 1, true)
        };
        reports.hear(other(1), now + KEPT_FOR).unwrap();
        assert_eq!(reports.0.lock().unwrap().pods.keys().collect::<Vec<_>>(), ["b"]);
    }
}
