//! When certificates are due.

use jiff::{SignedDuration, Timestamp};
use pki::lifetime::{days_left, due};

#[test]
fn a_certificate_is_due_when_its_share_of_life_is_over() {
    let begins: Timestamp = "2026-11-16T00:00:00Z".parse().expect("should be a time");
    let hours = SignedDuration::from_hours;
    for (life, percent, after) in [
        (hours(100), 66, hours(66)),
        (hours(100), 0, hours(0)),
        (hours(100), 100, hours(100)),
        (hours(100), 255, hours(100)),
        (hours(0), 66, hours(0)),
        (hours(-5), 66, hours(0)),
        (hours(24 * 365 * 1000), 50, hours(24 * 365 * 500)),
    ] {
        assert_eq!(due(begins, begins + life, percent), begins + after, "{life:?} {percent}");
    }
}

#[test]
fn days_are_counted_down_to_none() {
    let now: Timestamp = "2026-11-16T00:00:00Z".parse().expect("should be a time");
    let in_hours = |hours: i64| days_left(now + SignedDuration::from_hours(hours), now);
    assert!((in_hours(36) - 1.5).abs() < 1e-9 && in_hours(0) == 0.0 && in_hours(-36) == 0.0);
}
