//! Whether primaries keep the word of most of those who have a say about them. An agent that was just started gives nobody its word, so
//! that a primary whose replicas are restarted too fast one after the other takes no writes for a while.

use valkey::cluster::voters::Voters;

use super::super::topology::Place;
use super::shard_health::Health;

/// No primary loses the word of most because this node is away. Where it has too few anyway, waiting would not help.
pub(super) fn is_kept_without(health: &Health<'_>, place: Place) -> bool {
    let members = &health.topology.members;
    members.values().filter_map(|member| Voters::of(&member.facts.nodes, member.id())).all(|voters| {
        let stays =
            |node_id: &str| members.values().find(|member| member.id() == node_id && member.place != place);
        let is_heard = |node_id: &str| {
            stays(node_id).is_some_and(|member| health.pod(member.place).is_some_and(|pod| !pod.agent_is_new))
        };
        is_enough(&voters, is_heard) || !is_enough(&voters, |node_id| stays(node_id).is_some())
    })
}

/// Besides its own agent, and the operator where it has a say, so many are enough.
fn is_enough(voters: &Voters, gives_its_word: impl Fn(&str) -> bool) -> bool {
    let others = voters.others.iter().filter(|voter| gives_its_word(&voter.node_id)).count();
    1 + others + usize::from(voters.operator) >= voters.majority()
}

#[cfg(test)]
mod tests {
    use valkey::testing::table;

    use super::*;

    #[test]
    fn so_many_may_be_new_at_the_same_time() {
        for (shards, replicas, new, enough) in [
            (1, 1, &["p0r0"][..], true),
            (1, 2, &["p0r0"], true),
            (1, 2, &["p0r0", "p0r1"], false),
            (2, 1, &["p0r0", "p1r0"], true),
            (2, 1, &["p0r0", "p1r0", "p1"], false),
            (3, 1, &["p0r0", "p1r0", "p1"], true),
            (3, 1, &["p0r0", "p1r0", "p1", "p2"], false),
            (3, 2, &["p1", "p1r0", "p1r1", "p2r0", "p0r1"], true),
            (3, 2, &["p0r0", "p0r1"], false),
        ] {
            let voters = Voters::of(&table(shards, replicas), "p0").expect("should have voters");
            assert_eq!(is_enough(&voters, |id| !new.contains(&id)), enough, "{shards}×{replicas}: {new:?}");
        }
    }
}
