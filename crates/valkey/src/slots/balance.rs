//! Which slots go where, so that everybody who stays owns as much as the others.

use super::SlotRange;

/// A node that owns slots, or should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub id: String,
    /// What it owns.
    pub ranges: Vec<SlotRange>,
    /// Whether it stays; otherwise it ends with nothing.
    pub keep: bool,
}

/// Slots that go from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The node that gives.
    pub from: String,
    /// The node that takes.
    pub to: String,
    /// What goes, in order.
    pub ranges: Vec<SlotRange>,
}

/// The moves after which every node that stays is within one slot of even and every other one is empty. As few slots as
/// possible move, in few moves of few ranges. The same owners in the same order give the same moves; owners that are
/// even already give none, as do owners of whom nobody stays.
pub fn balance(owned: &[Owner]) -> Vec<Move> {
    let mut holdings: Vec<Holding> = owned.iter().map(|owner| Holding::new(&owner.ranges)).collect();
    let Some(shares) = shares(owned, &holdings) else { return Vec::new() };
    let side = |difference: fn(u32, u32) -> u32| -> Vec<(usize, u32)> {
        let both = holdings.iter().zip(&shares).map(|(holding, share)| difference(holding.count(), *share));
        both.enumerate().filter(|(_, amount)| *amount > 0).collect()
    };
    let (givers, takers) = (side(u32::saturating_sub), side(|count, share| share.saturating_sub(count)));
    pair(givers, takers)
        .into_iter()
        .map(|(giver, taker, amount)| Move {
            from: owned[giver].id.clone(),
            to: owned[taker].id.clone(),
            ranges: holdings[giver].give(amount),
        })
        .collect()
}

/// What each should own. The slots that are left over after dividing evenly go to those who own most, because whoever
/// has more than an even share keeps one slot more that way.
fn shares(owned: &[Owner], holdings: &[Holding]) -> Option<Vec<u32>> {
    let mut keepers: Vec<usize> = (0..owned.len()).filter(|index| owned[*index].keep).collect();
    let total: u32 = holdings.iter().map(Holding::count).sum();
    let number = u32::try_from(keepers.len()).ok()?;
    let (even, left_over) = (total.checked_div(number)?, total.checked_rem(number)?);
    keepers.sort_by_key(|index| std::cmp::Reverse(holdings[*index].count()));
    let mut shares = vec![0; owned.len()];
    for (place, keeper) in (0..).zip(keepers) {
        shares[keeper] = even + u32::from(place < left_over);
    }
    Some(shares)
}

/// Who gives how much to whom: the largest giver first, to somebody who needs exactly that much if there is one, else
/// to whoever needs most.
fn pair(mut givers: Vec<(usize, u32)>, mut takers: Vec<(usize, u32)>) -> Vec<(usize, usize, u32)> {
    let mut pairs = Vec::new();
    while let Some(giver) = largest(&givers) {
        let surplus = givers[giver].1;
        let exact = takers.iter().position(|(_, need)| *need == surplus);
        let Some(taker) = exact.or_else(|| largest(&takers)) else { break };
        let amount = surplus.min(takers[taker].1);
        pairs.push((givers[giver].0, takers[taker].0, amount));
        for (side, index) in [(&mut givers, giver), (&mut takers, taker)] {
            side[index].1 -= amount;
            side.retain(|(_, amount)| *amount > 0);
        }
    }
    pairs
}

/// Where the largest amount is, the first of several.
fn largest(amounts: &[(usize, u32)]) -> Option<usize> {
    (0..amounts.len()).rev().max_by_key(|index| amounts[*index].1)
}

/// What a node owns, as ranges that neither touch nor overlap.
struct Holding(Vec<SlotRange>);

impl Holding {
    fn new(ranges: &[SlotRange]) -> Self {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        let mut holding = Self(Vec::new());
        for range in sorted {
            match holding.0.last_mut() {
                Some(last) if range.start <= last.end + 1 => last.end = last.end.max(range.end),
                _ => holding.0.push(range),
            }
        }
        holding
    }

    fn count(&self) -> u32 {
        super::count(&self.0)
    }

    /// Takes so many slots out, in as few ranges as possible: whole ones from the largest on, and the rest from the end
    /// of the smallest that holds it.
    fn give(&mut self, mut amount: u32) -> Vec<SlotRange> {
        let mut given = Vec::new();
        while amount > 0 {
            let size = |index: &usize| u32::from(self.0[*index].count());
            let fitting = (0..self.0.len()).filter(|index| size(index) >= amount).min_by_key(size);
            let Some(index) = fitting.or_else(|| (0..self.0.len()).max_by_key(size)) else { break };
            let range = self.0[index];
            let part = u16::try_from(amount).map_or(range.count(), |amount| amount.min(range.count()));
            given.push(SlotRange { start: range.end - (part - 1), end: range.end });
            if part == range.count() {
                self.0.remove(index);
            } else {
                self.0[index].end -= part;
            }
            amount -= u32::from(part);
        }
        given.sort_unstable();
        given
    }
}

#[cfg(test)]
mod tests;
