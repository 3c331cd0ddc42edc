//! Tells on stderr what takes how long.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long step says that it is still at work.
const REMINDER: Duration = Duration::from_secs(10);

/// A step that is under way. Its end is announced when [`Step::done`] is called; a step that fails stays silent, as
/// its error speaks for it.
#[derive(Debug)]
pub struct Step {
    what: String,
    started: Instant,
    // Dropping it wakes and ends the thread that reminds.
    _reminder: Sender<()>,
}

impl Step {
    /// Announces nothing yet: most steps are over before anybody wonders.
    pub fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        let started = Instant::now();
        let (sender, receiver) = channel::<()>();
        let reminded = what.clone();
        thread::spawn(move || {
            while receiver.recv_timeout(REMINDER) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("  ... {reminded}, {}", elapsed(started.elapsed()));
            }
        });
        Self { what, started, _reminder: sender }
    }

    /// Says how long it took.
    pub fn done(self) {
        report(self.started, &self.what);
    }
}

/// Says how long something took that began at `begun`.
pub(crate) fn report(begun: Instant, what: &str) {
    eprintln!("{:>8}  {what}", elapsed(begun.elapsed()));
}

/// A duration as people read it.
pub(crate) fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds >= 60 {
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    } else {
        format!("{:.1}s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        assert_eq!(elapsed(Duration::from_millis(1240)), "1.2s");
        assert_eq!(elapsed(Duration::from_secs(61)), "1m01s");
    }
}
