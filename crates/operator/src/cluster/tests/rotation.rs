//! New passwords for the system users: the rule as a table, then whole rotations with crashes of the controller, late
//! kubelets and servers that start again. At no moment is anybody locked out.

use std::collections::BTreeMap;

use api::{keys, names};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use secrecy::{ExposeSecret as _, SecretString};
use valkey::acl::SystemUser;

use super::super::topology::Place;
use super::super::users::passwords::{Password, Passwords};
use super::super::users::rotation::{Turn, advance};
use super::convergence::{assert_rests, spec};
use super::world::{CLUSTER, World};
use crate::objects::Kind;

/// Passes that must be enough for a rotation: offer, arrive, switch, renew, rest.
const PASSES: usize = 12;

fn held(current: &str, next: Option<&str>, previous: Option<&str>, rotation: Option<&str>) -> Passwords {
    let secret = |text: &str| SecretString::from(text);
    let password =
        Password { current: secret(current), next: next.map(secret), previous: previous.map(secret) };
    Passwords {
        users: BTreeMap::from([(SystemUser::Operator, password)]),
        rotation: rotation.map(str::to_owned),
    }
}

/// What the Secret would hold, for people.
fn shown(passwords: &Passwords) -> String {
    let all = passwords.by_key().into_iter().map(|(key, value)| format!("{key}={}", value.expose_secret()));
    all.chain(passwords.rotation.clone().map(|order| format!("for {order}"))).collect::<Vec<_>>().join(" ")
}

#[test]
fn passwords_change_one_state_at_a_time_and_once_per_order() {
    let cases = [
        // Nothing is asked for.
        (held("a", None, None, None), None, None, true, None, "_operator=a"),
        // An order is obeyed when nobody could miss it.
        (held("a", None, None, None), Some("1"), None, false, None, "_operator=a"),
        (
            held("a", None, None, None),
            Some("1"),
            None,
            true,
            Some(Turn::Offered),
            "_operator=a _operator.next=new for 1",
        ),
        // Servers are still learning.
        (
            held("a", Some("b"), None, Some("1")),
            Some("1"),
            None,
            false,
            None,
            "_operator=a _operator.next=b for 1",
        ),
        // All of them know it.
        (
            held("a", Some("b"), None, Some("1")),
            Some("1"),
            None,
            true,
            Some(Turn::Switched),
            "_operator=b _operator.previous=a for 1",
        ),
        // What was begun is ended, whatever was asked for meanwhile.
        (
            held("a", Some("b"), Some("z"), Some("1")),
            Some("2"),
            None,
            true,
            Some(Turn::Switched),
            "_operator=b _operator.previous=a for 1",
        ),
        (
            held("a", Some("b"), None, Some("1")),
            None,
            None,
            true,
            Some(Turn::Switched),
            "_operator=b _operator.previous=a for 1",
        ),
        // The order is noted in the Secret, before the status tells of it.
        (
            held("b", None, Some("a"), Some("1")),
            Some("1"),
            None,
            true,
            None,
            "_operator=b _operator.previous=a for 1",
        ),
        // The status tells of it, after the Secret was lost.
        (held("b", None, None, None), Some("1"), Some("1"), true, None, "_operator=b"),
        // Another order is another rotation. What is retired by it is retired when it ends.
        (
            held("b", None, Some("a"), Some("1")),
            Some("2"),
            Some("1"),
            true,
            Some(Turn::Offered),
            "_operator=b _operator.next=new _operator.previous=a for 2",
        ),
    ];
    for (held, order, obeyed, settled, turn, becomes) in cases {
        let from = shown(&held);
        let (after, decided) = advance(held, order, obeyed, settled, || SecretString::from("new"));
        assert_eq!(
            (shown(&after).as_str(), decided),
            (becomes, turn),
            "{from}, {order:?}, settled: {settled}"
        );
    }
}

#[test]
fn without_randomness_nobody_is_let_in_without_a_password() {
    let (after, _) = advance(held("a", None, None, None), Some("1"), None, true, SecretString::default);
    assert_eq!(shown(&after), "_operator=a for 1");
    let none = held("", None, None, None);
    assert!(none.accepted(SystemUser::Operator).is_empty());
}

fn order(world: &mut World, value: &str) {
    let order = (keys::ROTATE_SYSTEM_PASSWORDS.to_owned(), value.to_owned());
    world.cluster.metadata.annotations.get_or_insert_default().extend([order]);
}

fn secret(world: &World) -> BTreeMap<String, String> {
    world.kubernetes.secret(&names::system_passwords_secret(CLUSTER)).unwrap_or_default()
}

/// The password of each user under a name with this ending.
fn ending(world: &World, ending: &str) -> Vec<String> {
    let all = secret(world);
    SystemUser::ALL.iter().filter_map(|user| all.get(&format!("{}{ending}", user.name())).cloned()).collect()
}

/// The operator gets into every server, every server into every other one, and so does every agent.
fn assert_nobody_is_locked_out(world: &World) {
    let all = secret(world);
    let operator = |ending: &str| all.get(&format!("_operator{ending}")).cloned();
    let keys: Vec<String> = ["", ".previous", ".next"].into_iter().filter_map(operator).collect();
    for (place, server) in &world.servers {
        let lets_in = |key: &String| server.lets_in(SystemUser::Operator, key);
        assert!(keys.is_empty() || keys.iter().any(lets_in), "the operator is locked out of {place:?}");
        for (other_place, other) in &world.servers {
            let follows = server.lets_in(SystemUser::Replication, &other.primaryauth);
            assert!(follows, "{other_place:?} is locked out of {place:?}");
        }
        for (other_place, pod) in &world.kubernetes.pods {
            let looks = pod.mounted.as_ref().is_none_or(|m| server.lets_in(SystemUser::Agent, &m.agent));
            assert!(looks, "the agent of {other_place:?} is locked out of {place:?}");
        }
    }
}

/// A pass and what happens by itself. Connections between servers do not outlive it: each must be made anew.
fn step(world: &mut World, deeds: usize) -> bool {
    let crashed = world.pass_until(deeds).crashed;
    assert_nobody_is_locked_out(world);
    world.tick();
    assert_nobody_is_locked_out(world);
    crashed
}

/// Every server takes the new and the previous password and no other, shows the new one, and nothing is left to do.
fn assert_rotated(world: &mut World, story: &str) {
    let rest = (0..PASSES).find(|_| {
        step(world, usize::MAX);
        world.is_at_rest()
    });
    assert!(rest.is_some(), "{story}: {:#?}", world.status());
    assert_rests(world);
    let all = secret(world);
    for (place, server) in &mut world.servers {
        assert_eq!(server.primaryauth, all["_replication"], "{story}: {place:?}");
        let accepted = server.users.get("_agent").expect("should be there").passwords.len();
        let both = [&all["_agent"], &all["_agent.previous"]];
        assert!(both.iter().all(|password| server.lets_in(SystemUser::Agent, password)), "{story}");
        assert_eq!(accepted, 2, "{story}: nothing else is taken by {place:?}");
        server.lose_link();
    }
    world.tick();
    world.tick();
    assert!(world.servers.values().all(super::servers::Server::is_linked), "{story}: links come back");
}

#[test]
fn a_rotation_teaches_every_server_before_anybody_uses_the_new_password() {
    let mut world = World::settled(&spec(2, 1));
    let first = ending(&world, "");
    order(&mut world, "monday");
    let mut told = Vec::new();
    let mut offered = false;
    for _ in 0..PASSES {
        told.extend(world.pass().told);
        assert_nobody_is_locked_out(&world);
        offered |= ending(&world, ".next").len() == 4 && ending(&world, "") == first;
        world.tick();
    }
    assert!(offered, "the new passwords were there before they were used");
    assert_eq!(told, ["SystemPasswordsRotated"]);
    assert_eq!(world.status().acl.unwrap_or_default().password_rotation.as_deref(), Some("monday"));
    assert_eq!(ending(&world, ".previous"), first);
    assert_eq!(ending(&world, ".next"), Vec::<String>::new());
    let second = ending(&world, "");
    assert!(second.iter().all(|password| !first.contains(password)));
    assert_rotated(&mut world, "once");

    // Asking for the same again asks for nothing.
    order(&mut world, "monday");
    assert_rests(&mut world);

    order(&mut world, "tuesday");
    assert_rotated(&mut world, "twice");
    assert_eq!(ending(&world, ".previous"), second);
    for server in world.servers.values() {
        for (user, password) in SystemUser::ALL.into_iter().zip(&first) {
            assert!(!server.lets_in(user, password), "{user:?} is retired");
        }
    }
}

#[test]
fn a_new_cluster_has_new_passwords_whatever_was_asked_for() {
    let mut world = World::empty(&spec(1, 1));
    order(&mut world, "monday");
    assert!(world.come_to_rest(PASSES).is_some(), "{:#?}", world.status());
    assert_rests(&mut world);
    assert_eq!(ending(&world, ".previous"), Vec::<String>::new());
    assert_eq!(world.status().acl.unwrap_or_default().password_rotation.as_deref(), Some("monday"));
}

#[test]
fn nobody_uses_a_password_that_a_server_may_not_know_after_its_next_start() {
    let mut world = World::settled(&spec(2, 1));
    let first = ending(&world, "");
    world.late_mounts.insert((1, 1));
    order(&mut world, "monday");
    for _ in 0..PASSES {
        step(&mut world, usize::MAX);
        assert_eq!(ending(&world, ""), first);
    }
    assert!(world.server((1, 1)).lets_in(SystemUser::Agent, &secret(&world)["_agent.next"]));
    world.restart((1, 1));
    assert_nobody_is_locked_out(&world);
    world.late_mounts.clear();
    assert_rotated(&mut world, "the file has arrived");
    assert_eq!(ending(&world, ".previous"), first);
}

#[test]
fn a_password_that_a_server_still_shows_is_not_retired() {
    let mut world = World::settled(&spec(1, 1));
    world.servers.get_mut(&(0, 1)).expect("should be there").is_stubborn = true;
    let first = ending(&world, "");
    for value in ["monday", "tuesday"] {
        order(&mut world, value);
        for _ in 0..PASSES {
            step(&mut world, usize::MAX);
        }
        assert_eq!(ending(&world, ".previous"), first, "{value}");
    }
    world.servers.get_mut(&(0, 1)).expect("should be there").is_stubborn = false;
    let second = ending(&world, "");
    assert_rotated(&mut world, "it gave in");
    assert_eq!(ending(&world, ".previous"), second);
}

#[test]
fn a_secret_that_is_deleted_in_the_middle_comes_back_as_it_was() {
    for passes in 1..6 {
        let mut world = World::settled(&spec(1, 1));
        let first = ending(&world, "");
        order(&mut world, "monday");
        for _ in 0..passes {
            step(&mut world, usize::MAX);
        }
        let before = secret(&world);
        world.kubernetes.delete(Kind::Secret, &names::system_passwords_secret(CLUSTER));
        world.pass();
        let after = secret(&world);
        // It may have gone on at once, but never back to something that servers do not know.
        assert!(after == before || after["_agent"] == before["_agent.next"], "after {passes} passes");
        assert_rotated(&mut world, &format!("deleted after {passes} passes"));
        assert_eq!(ending(&world, ".previous"), first, "after {passes} passes");
    }
}

#[test]
fn a_rotation_may_be_cut_off_after_any_deed_and_happens_once() {
    let mut clean = World::settled(&spec(1, 1));
    let first = ending(&clean, "");
    order(&mut clean, "monday");
    let mut crashes = 0;
    for pass in 0..PASSES {
        for deeds in 0.. {
            let mut world = clean.clone();
            if !step(&mut world, deeds) {
                break;
            }
            crashes += 1;
            let story = format!("pass {pass} cut off after {deeds} deeds");
            assert_rotated(&mut world, &story);
            assert_eq!(ending(&world, ".previous"), first, "{story}");
        }
        step(&mut clean, usize::MAX);
        if clean.is_at_rest() {
            break;
        }
    }
    assert!(crashes > 10, "{crashes}");
}

/// Something that happens during rotations.
#[derive(Clone, Debug)]
enum Happens {
    /// The controller dies after so many deeds of its next pass.
    Crash(usize),
    /// A server starts again in its pod.
    Restart(Place),
    /// A pod is made anew.
    Replace(Place),
    /// A kubelet is late from now on, or not any more.
    Late(Place),
    /// The user asks for a rotation.
    Order(u8),
    /// A pass without trouble.
    Pass,
}

fn happens() -> impl Strategy<Value = Happens> {
    let place = || (0_u32..1, 0_u32..2);
    prop_oneof![
        (0_usize..14).prop_map(Happens::Crash),
        place().prop_map(Happens::Restart),
        place().prop_map(Happens::Replace),
        place().prop_map(Happens::Late),
        (0_u8..4).prop_map(Happens::Order),
        Just(Happens::Pass),
        Just(Happens::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_ever_locked_out(story in prop::collection::vec(happens(), 1..24)) {
        let mut world = World::settled(&spec(1, 1));
        order(&mut world, "first");
        for event in &story {
            match event {
                Happens::Crash(deeds) => drop(step(&mut world, *deeds)),
                Happens::Restart(place) => {
                    if world.kubernetes.pods.get(place).is_some_and(|pod| pod.facts.address.is_some()) {
                        world.restart(*place);
                    }
                }
                Happens::Replace(place) => drop(world.kubernetes.pods.remove(place)),
                Happens::Late(place) => {
                    if !world.late_mounts.remove(place) {
                        world.late_mounts.insert(*place);
                    }
                }
                Happens::Order(value) => order(&mut world, &value.to_string()),
                Happens::Pass => drop(step(&mut world, usize::MAX)),
            }
            assert_nobody_is_locked_out(&world);
        }
        world.late_mounts.clear();
        for _ in 0..2 * PASSES {
            step(&mut world, usize::MAX);
        }
        assert_rotated(&mut world, &format!("{story:?}"));
    }
}
