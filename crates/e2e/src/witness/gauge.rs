//! The longest time without a success.

use std::time::Duration;

use tokio::time::Instant;

/// A stretch of time without a success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// How long it was.
    pub length: Duration,
    /// When it began, counted from the first write.
    pub began: Duration,
}

/// Measures while it goes on.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    start: Instant,
    last: Instant,
    longest: Gap,
}

impl Gauge {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, last: start, longest: Gap::default() }
    }

    /// A success. Several tasks tell of theirs, so one may come late.
    pub(super) fn success(&mut self, at: Instant) {
        self.longest = self.longest.max(self.open_gap(at));
        self.last = self.last.max(at);
    }

    /// The time without a success up to now.
    pub(super) fn open_gap(&self, now: Instant) -> Gap {
        Gap { length: now.saturating_duration_since(self.last), began: self.last - self.start }
    }

    /// The longest of all, the one that is still open included.
    pub(super) fn longest(&self, now: Instant) -> Gap {
        self.longest.max(self.open_gap(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_gap_counts_wherever_it_is() {
        let start = Instant::now();
        let at = |milli| start + Duration::from_millis(milli);
        let gap = |length, began| Gap {
            length: Duration::from_millis(length),
            began: Duration::from_millis(began),
        };
        let mut gauge = Gauge::new(start);
        assert_eq!(gauge.longest(at(7)), gap(7, 0), "from the start to the first success");
        for milli in [10, 20, 500, 490, 510] {
            gauge.success(at(milli));
        }
        assert_eq!(gauge.longest(at(520)), gap(480, 20));
        assert_eq!(gauge.longest(at(2000)), gap(1490, 510), "from the last success to the end");
    }
}
