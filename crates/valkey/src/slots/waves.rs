//! Which moves can run side by side.

use std::collections::BTreeSet;

use super::{Move, count};

/// The moves in groups to be run one after the other: within a group no node takes part twice, so that nobody gives or
/// takes more at once than one move needs. Large moves come first and meet in the same groups.
pub fn waves(mut moves: Vec<Move>) -> Vec<Vec<Move>> {
    moves.sort_by_key(|planned| std::cmp::Reverse(count(&planned.ranges)));
    let mut waves: Vec<(BTreeSet<String>, Vec<Move>)> = Vec::new();
    for planned in moves {
        let ends = [planned.from.clone(), planned.to.clone()];
        let free = waves.iter().position(|(busy, _)| ends.iter().all(|end| !busy.contains(end)));
        let wave = free.unwrap_or_else(|| {
            waves.push(Default::default());
            waves.len() - 1
        });
        waves[wave].0.extend(ends);
        waves[wave].1.push(planned);
    }
    waves.into_iter().map(|(_, moves)| moves).collect()
}
