//! When certificates are due.

use jiff::{SignedDuration, Timestamp};

/// Clocks differ: whoever is behind by less than this accepts a certificate that was just made.
pub(crate) const HEAD_START: SignedDuration = SignedDuration::from_mins(5);

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// The moment at which so many percent of a certificate's life are over. One with no life at all is due at once.
pub fn due(begins: Timestamp, ends: Timestamp, percent: u8) -> Timestamp {
    let life = ends.duration_since(begins).max(SignedDuration::ZERO);
    let used = life.as_millis() * i128::from(percent.min(100)) / 100;
    let used = i64::try_from(used).unwrap_or(i64::MAX);
    begins.saturating_add(SignedDuration::from_millis(used)).unwrap_or(ends)
}

/// The same for a certificate that was signed here: its life counts from when it was signed, not from the head start it got for
/// clocks that are behind. Otherwise one with a short life would be due before it is there.
pub fn due_since_signed(begins: Timestamp, ends: Timestamp, percent: u8) -> Timestamp {
    let signed = begins.saturating_add(HEAD_START).unwrap_or(begins).min(ends);
    due(signed, ends, percent)
}

/// Days that are left; none, once it is over.
pub fn days_left(ends: Timestamp, now: Timestamp) -> f64 {
    ends.duration_since(now).as_secs_f64().max(0.0) / DAY
}
