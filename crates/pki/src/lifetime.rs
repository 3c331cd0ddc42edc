//! When certificates are due.

use jiff::{SignedDuration, Timestamp};

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The moment at which so many percent of a certificate's life are over. One with no life at all is due at once.
pub fn due(begins: Timestamp, ends: Timestamp, percent: u8) -> Timestamp {
    let life = ends.duration_since(begins).max(SignedDuration::ZERO);
    let used = life.as_millis() * i128::from(percent.min(100)) / 100;
    let used = i64::try_from(used).unwrap_or(i64::MAX);
    begins.saturating_add(SignedDuration::from_millis(used)).unwrap_or(ends)
}

/// Days that are left; none, once it is over.
pub fn days_left(ends: Timestamp, now: Timestamp) -> f64 {
    ends.duration_since(now).as_secs_f64().max(0.0) / DAY
}
