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

impl Gap {
    /// What is left of it without those of these stretches that lie at its beginning or its end. One in the middle did not
    /// make it longer.
    pub(super) fn without(self, stretches: &[Self]) -> Duration {
        let end = |gap: &Self| gap.began + gap.length;
        let at_its_edge = |other: &&Self| {
            let begins = other.began <= self.began + EDGE && end(other) > self.began;
            let ends = end(other) + EDGE >= end(&self) && other.began < end(&self);
            begins || ends
        };
        let shared = |other: &Self| {
            let (from, to) = (self.began.max(other.began), end(&self).min(end(other)));
            to.saturating_sub(from)
        };
        self.length.saturating_sub(stretches.iter().filter(at_its_edge).map(shared).sum())
    }
}

/// How far from the edge of a gap something still lies at it: as often as somebody looks at the clock.
const EDGE: Duration = Duration::from_millis(10);

/// Shorter gaps are not remembered one by one: at any rate worth its name there are too many.
const LONG: Duration = Duration::from_millis(50);

/// Quicker writes are not remembered one by one.
const SLOW: Duration = Duration::from_millis(250);

/// Measures while it goes on.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    start: Instant,
    last: Instant,
    longest: Gap,
    long: Vec<Gap>,
    slow: Vec<Gap>,
}

impl Gauge {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, last: start, longest: Gap::default(), long: Vec::new(), slow: Vec::new() }
    }

    /// A success of something that was due. Several tasks tell of theirs, so one may come late.
    pub(super) fn success(&mut self, due: Instant, at: Instant) {
        let waited = Gap {
            length: at.saturating_duration_since(due),
            began: due.saturating_duration_since(self.start),
        };
        self.slow.extend((waited.length >= SLOW).then_some(waited));
        let gap = self.open_gap(at);
        self.longest = self.longest.max(gap);
        self.long.extend((gap.length >= LONG).then_some(gap));
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

    /// Successes that came late, each from the moment it was due.
    pub(super) fn slow(&self) -> &[Gap] {
        &self.slow
    }

    /// Every long one, the one that is still open included.
    pub(super) fn long(&self, now: Instant) -> Vec<Gap> {
        let open = self.open_gap(now);
        self.long.iter().copied().chain((open.length >= LONG).then_some(open)).collect()
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
            gauge.success(at(milli), at(milli));
        }
        assert_eq!(gauge.slow(), []);
        assert_eq!(gauge.longest(at(520)), gap(480, 20));
        assert_eq!(gauge.longest(at(2000)), gap(1490, 510), "from the last success to the end");
        assert_eq!(gauge.long(at(520)), [gap(480, 20)]);
        assert_eq!(gauge.long(at(2000)), [gap(480, 20), gap(1490, 510)]);
        gauge.success(at(300), at(550));
        assert_eq!(gauge.slow(), [gap(250, 300)]);
    }

    #[test]
    fn only_what_lies_at_the_edges_of_a_gap_is_taken_off() {
        let gap = |length, began| Gap {
            length: Duration::from_millis(length),
            began: Duration::from_millis(began),
        };
        for (stretches, left) in [
            (vec![], 100),
            (vec![gap(500, 300)], 100),
            (vec![gap(50, 150)], 100),
            (vec![gap(30, 220), gap(30, 255)], 100),
            (vec![gap(30, 205)], 70),
            (vec![gap(30, 265)], 70),
            (vec![gap(30, 190), gap(30, 290)], 70),
            (vec![gap(300, 100)], 0),
        ] {
            assert_eq!(gap(100, 200).without(&stretches), Duration::from_millis(left), "{stretches:?}");
        }
    }
}
