//! Who owns what in a new cluster.

use super::{SLOT_COUNT, SlotRange};

/// The slots of each shard of a new cluster: one range each, even to within one slot, where everybody expects them
/// (0-5460, 5461-10922, 10923-16383 for three). A shard beyond the number of slots gets none.
pub fn initial(shards: usize) -> Vec<Vec<SlotRange>> {
    let Ok(count) = u64::try_from(shards) else { return Vec::new() };
    // The end of a shard is its share of the whole, rounded to the nearest slot.
    let boundary = |shard: u64| (2 * shard * u64::from(SLOT_COUNT) + count) / (2 * count);
    let range = |shard| {
        let (start, end) = (boundary(shard), boundary(shard + 1).checked_sub(1)?);
        SlotRange::new(u16::try_from(start).ok()?, u16::try_from(end).ok()?)
    };
    (0..count).map(|shard| range(shard).into_iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_usual_numbers_give_the_usual_ranges() {
        let shown =
            |shards| initial(shards).concat().iter().map(SlotRange::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(0), "");
        assert_eq!(shown(1), "0-16383");
        assert_eq!(shown(2), "0-8191 8192-16383");
        assert_eq!(shown(3), "0-5460 5461-10922 10923-16383");
        assert_eq!(shown(5), "0-3276 3277-6553 6554-9829 9830-13106 13107-16383");
        assert_eq!(initial(20_000).len(), 20_000);
    }

    proptest! {
        #[test]
        fn every_slot_has_one_owner_and_shares_are_even(shards in prop_oneof![1..100_usize, 1..=20_000_usize]) {
            let owned = initial(shards);
            let mut next = 0;
            for range in owned.concat() {
                prop_assert_eq!(range.start(), next);
                next = range.end() + 1;
            }
            prop_assert_eq!(next, SLOT_COUNT);
            let share = usize::from(SLOT_COUNT) / shards;
            for ranges in owned {
                let count = usize::try_from(super::super::count(&ranges)).expect("should fit");
                prop_assert!(ranges.len() <= 1 && (count == share || count == share + 1));
            }
        }
    }
}
