//! How long operations took: a count for each length of time, exact to three in a hundred, in little memory.

use std::time::Duration;

/// Each power of two of microseconds is divided into so many steps.
const STEPS: u64 = 32;

/// Lengths of time, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, length: Duration) {
        let index = index(u64::try_from(length.as_micros()).unwrap_or(u64::MAX));
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.total += 1;
        self.longest = self.longest.max(length);
    }

    /// Counts all of another one.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// So many of a thousand took at most this long; nothing took no time.
    pub fn per_mille(&self, share: u64) -> Duration {
        let wanted = (self.total * share).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(upper(index)).min(self.longest);
            }
        }
        self.longest
    }

    /// The longest of all, exactly.
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

fn index(micros: u64) -> usize {
    let index = match micros.checked_ilog2().map(u64::from) {
        Some(power @ 5..) => (power - 4) * STEPS + ((micros >> (power - 5)) % STEPS),
        _ => micros,
    };
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The longest time that is counted at this index.
fn upper(index: usize) -> u64 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    match index / STEPS {
        0 => index,
        row => ((STEPS + index % STEPS + 1) << (row - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_told_in_order() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.per_mille(500), histogram.longest()), (Duration::ZERO, Duration::ZERO));
        (1..=1000).for_each(|milli| histogram.add(Duration::from_millis(milli)));
        let near = |share, milli: u64| {
            let told = histogram.per_mille(share).as_micros();
            let exact = u128::from(milli) * 1000;
            assert!(told >= exact && told <= exact * 103 / 100, "{share}: {told}");
        };
        near(500, 500);
        near(990, 990);
        assert_eq!(histogram.per_mille(1000), Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn every_length_is_told_to_three_in_a_hundred(micros in 0_u64..1 << 40) {
            let told = upper(index(micros));
            prop_assert!(told >= micros && told - micros <= micros / 32, "{} for {}", told, micros);
        }

        #[test]
        fn merging_is_counting_together(left: Vec<u32>, right: Vec<u32>) {
            let count = |lengths: &[u32]| {
                let mut histogram = Histogram::default();
                for micros in lengths {
                    histogram.add(Duration::from_micros(u64::from(*micros)));
                }
                histogram
            };
            let mut merged = count(&left);
            merged.merge(&count(&right));
            prop_assert_eq!(merged, count(&[left, right].concat()));
        }
    }
}
