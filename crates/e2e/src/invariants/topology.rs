//! Slots and members: every slot has one owner, every shard one primary, and all servers say so.

use std::collections::{BTreeMap, BTreeSet};

use valkey::cluster::{Flag, Node};
use valkey::slots::{SLOT_COUNT, count};

use super::Violation;
use super::observation::{Observation, View, Wanted};
use crate::access::Address;
use crate::witness::slot_map::as_ranges;

/// In every view, every slot has an owner.
pub fn slots_covered(observation: &Observation) -> Vec<Violation> {
    let uncovered = |(server, view): (&Address, &View)| {
        let owned: BTreeSet<u16> = owners(view).map(|(slot, _)| slot).collect();
        let missing: Vec<u16> = (0..SLOT_COUNT).filter(|slot| !owned.contains(slot)).collect();
        let slots = as_ranges(&missing);
        (!missing.is_empty()).then(|| Violation::Uncovered { server: server.to_string(), slots })
    };
    observation.answers().filter_map(uncovered).collect()
}

/// No slot is owned twice, in any view or between the views.
pub fn views_agree(observation: &Observation) -> Vec<Violation> {
    let mut claims = vec![BTreeMap::<&str, &Address>::new(); usize::from(SLOT_COUNT)];
    for (server, view) in observation.answers() {
        for (slot, owner) in owners(view) {
            claims[usize::from(slot)].entry(&owner.id).or_insert(server);
        }
    }
    let mut contested = BTreeMap::<Vec<String>, Vec<u16>>::new();
    for (slot, claims) in (0_u16..).zip(&claims).filter(|(_, claims)| claims.len() > 1) {
        let owners = claims.iter().map(|(id, server)| format!("{id} (says {server})")).collect();
        contested.entry(owners).or_default().push(slot);
    }
    contested
        .into_iter()
        .map(|(owners, slots)| Violation::Contested { slots: as_ranges(&slots), owners })
        .collect()
}

fn owners(view: &View) -> impl Iterator<Item = (u16, &Node)> {
    view.table.nodes.iter().flat_map(|node| {
        node.slots.iter().flat_map(move |range| (range.start()..=range.end()).map(move |slot| (slot, node)))
    })
}

/// Every shard has one primary that owns slots; all servers know it, and the rest of the shard follows it.
pub fn one_primary_per_shard(observation: &Observation, wanted: &Wanted) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (shard, members) in wanted.shards.iter().enumerate() {
        let Some(primary) = primary(observation, members) else {
            violations
                .push(Violation::Primaries { shard, primaries: names(&primaries(observation, members)) });
            continue;
        };
        let Some(node) = observation.view(primary).and_then(View::myself) else { continue };
        for (server, view) in observation.answers() {
            let known =
                view.table.get(&node.id).is_some_and(|node| node.is_primary() && !node.slots.is_empty());
            if !known {
                let (server, primary) = (server.to_string(), primary.to_string());
                violations.push(Violation::PrimaryUnknown { server, primary, shard });
            }
        }
        for replica in members.iter().filter(|member| *member != primary) {
            let Some(myself) = observation.view(replica).and_then(View::myself) else { continue };
            if myself.primary_id.as_ref() != Some(&node.id) {
                violations.push(Violation::Astray {
                    replica: replica.to_string(),
                    follows: myself.primary_id.clone().unwrap_or_else(|| "nobody".to_owned()),
                    shard,
                    primary: primary.to_string(),
                });
            }
        }
    }
    violations
}

/// The one primary of a shard, if there is one.
pub(super) fn primary<'a>(observation: &Observation, members: &'a [Address]) -> Option<&'a Address> {
    match primaries(observation, members).as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

/// Those who call themselves primary and own slots. A primary without slots is a stranger to its shard, and is found
/// astray.
fn primaries<'a>(observation: &Observation, members: &'a [Address]) -> Vec<&'a Address> {
    let rules = |server: &&Address| {
        let myself = observation.view(server).and_then(View::myself);
        myself.is_some_and(|node| node.is_primary() && !node.slots.is_empty())
    };
    members.iter().filter(rules).collect()
}

fn names(addresses: &[&Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// Every server knows all members and nobody else, least of all an owner of slots.
pub fn only_members(observation: &Observation) -> Vec<Violation> {
    let members: BTreeMap<&str, &Address> = observation
        .answers()
        .filter_map(|(server, view)| Some((view.myself()?.id.as_str(), server)))
        .collect();
    // Who did not answer has no id to compare with: that is told elsewhere, and nobody is called a stranger for it.
    let complete = members.len() == observation.views.len();
    let mut violations = Vec::new();
    for (server, view) in observation.answers() {
        for node in view.table.nodes.iter().filter(|node| complete && !members.contains_key(node.id.as_str()))
        {
            let stranger = format!("{} at {}:{}", node.id, node.address.ip, node.address.port);
            let slots = count(&node.slots);
            violations.push(Violation::Stranger { server: server.to_string(), stranger, slots });
        }
        for (id, member) in &members {
            if view.table.get(id).is_none() {
                violations
                    .push(Violation::Missing { server: server.to_string(), member: member.to_string() });
            }
        }
    }
    violations
}

/// Nobody is seen as failed, unknown or out of reach.
pub fn no_troubled_members(observation: &Observation) -> Vec<Violation> {
    const TROUBLE: [Flag; 4] = [Flag::PossiblyFailed, Flag::Failed, Flag::Handshake, Flag::NoAddress];
    let mut violations = Vec::new();
    for (server, view) in observation.answers() {
        for node in &view.table.nodes {
            let flags = node.flags.iter().filter(|flag| TROUBLE.contains(flag)).map(ToString::to_string);
            let link = (!node.connected).then(|| "disconnected".to_owned());
            let member = format!("{} at {}:{}", node.id, node.address.ip, node.address.port);
            violations.extend(flags.chain(link).map(|trouble| Violation::Troubled {
                server: server.to_string(),
                member: member.clone(),
                trouble,
            }));
        }
    }
    violations
}

/// No slot is half way from one node to another.
pub fn no_open_slots(observation: &Observation) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (server, view) in observation.answers() {
        let Some(myself) = view.myself() else { continue };
        for (direction, slots) in [("migrating to", &myself.migrating), ("importing from", &myself.importing)]
        {
            violations.extend(slots.iter().map(|moving| Violation::OpenSlot {
                server: server.to_string(),
                slot: moving.slot,
                direction,
                other: moving.node_id.clone(),
            }));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use valkey::cluster::ClusterNodes;

    use super::*;

    /// Three servers, two shards: `a` with its replica `c`, and `b`.
    const WHOLE: [&str; 3] = [
        "a 10.0.0.1:6379@16379 master - 0 0 1 connected 0-8191",
        "b 10.0.0.2:6379@16379 master - 0 0 2 connected 8192-16383",
        "c 10.0.0.3:6379@16379 slave a 0 0 1 connected",
    ];

    fn address(number: usize) -> Address {
        Address::new(format!("10.0.0.{}", number + 1), 6379)
    }

    fn wanted() -> Wanted {
        Wanted { shards: vec![vec![address(0), address(2)], vec![address(1)]] }
    }

    /// All three agree, but one of them says other words for some of its own.
    fn observe(server: usize, words: &[(&str, &str)]) -> Observation {
        let table = |number: usize| {
            let mine = WHOLE[number].replacen("16379 ", "16379 myself,", 1);
            let text = WHOLE.join("\n").replace(WHOLE[number], &mine);
            let others = if number == server { words } else { &[] };
            others.iter().fold(text, |text, (from, to)| {
                assert!(text.contains(from), "{from} is not in {text}");
                text.replace(from, to)
            })
        };
        let view = |number| View {
            table: ClusterNodes::parse(&table(number)),
            replication: None,
            state: "ok".to_owned(),
        };
        Observation { views: (0..3).map(|number| (address(number), Ok(view(number)))).collect() }
    }

    fn texts(violations: &[Violation]) -> Vec<String> {
        violations.iter().map(ToString::to_string).collect()
    }

    fn topology(observation: &Observation) -> Vec<String> {
        texts(
            &[
                observation.silent(),
                slots_covered(observation),
                views_agree(observation),
                one_primary_per_shard(observation, &wanted()),
                only_members(observation),
                no_troubled_members(observation),
                no_open_slots(observation),
            ]
            .concat(),
        )
    }

    #[test]
    fn nothing_is_wrong_with_a_whole_cluster() {
        assert_eq!(topology(&observe(0, &[])), Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_told_in_words() {
        type Case = (usize, &'static [(&'static str, &'static str)], &'static [&'static str]);
        let cases: [Case; 8] = [
            (1, &[("0-8191", "0-99 200-8191")], &["10.0.0.2:6379 knows no owner of slots 100-199"]),
            (
                1,
                &[("0-8191", "0-8190"), ("8192-", "8191-")],
                &["slots 8191 are owned by a (says 10.0.0.1:6379) and b (says 10.0.0.2:6379)"],
            ),
            (
                2,
                &[
                    ("connected 0-8191", "connected"),
                    ("slave a 0 0 1 connected", "master - 0 0 3 connected 0-8191"),
                ],
                &[
                    "slots 0-8191 are owned by a (says 10.0.0.1:6379) and c (says 10.0.0.3:6379)",
                    "shard 0 has 2 primaries: 10.0.0.1:6379, 10.0.0.3:6379",
                ],
            ),
            (
                2,
                &[("slave a", "slave b")],
                &["10.0.0.3:6379 follows b instead of the primary of shard 0, 10.0.0.1:6379"],
            ),
            (1, &[(WHOLE[2], "")], &["10.0.0.2:6379 does not know the member 10.0.0.3:6379"]),
            (
                0,
                &[("16379 master", "16379 master,fail?")],
                &["10.0.0.1:6379 sees b at 10.0.0.2:6379 as fail?"],
            ),
            (
                0,
                &[("8192-16383", "8192-16383\nd 10.0.0.9:6379@16379 handshake - 0 0 0 disconnected")],
                &[
                    "10.0.0.1:6379 knows d at 10.0.0.9:6379, which is no wanted member and owns 0 slots",
                    "10.0.0.1:6379 sees d at 10.0.0.9:6379 as handshake",
                    "10.0.0.1:6379 sees d at 10.0.0.9:6379 as disconnected",
                ],
            ),
            (0, &[("0-8191", "0-8191 [7->-b]")], &["10.0.0.1:6379 has slot 7 open: migrating to b"]),
        ];
        for (server, words, expected) in cases {
            assert_eq!(topology(&observe(server, words)), expected);
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_told_once() {
        let mut observation = observe(0, &[]);
        observation.views[2].1 = Err("it is away".to_owned());
        assert_eq!(topology(&observation), ["10.0.0.3:6379 does not answer: it is away"]);
    }
}
