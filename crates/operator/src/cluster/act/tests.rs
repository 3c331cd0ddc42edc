//! Who is told what: agents set directives, servers hear everything else.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proto::agent::Setting;

use super::super::tests::convergence::spec;
use super::super::tests::world::World;
use super::super::users::Passwords;
use super::super::users::passwords::Password;
use super::*;
use crate::agents::tests::{FakeAgent, Says};
use crate::heartbeats::Agent;
use crate::heartbeats::tests::World as Agents;

const PLACE: Place = (0, 0);

fn at(order: Order) -> Command {
    Command { at: PLACE, order }
}

/// Keys with this password for replication.
fn keys_with(password: &str) -> Keys {
    let password = Password { current: password.into(), next: None, previous: None };
    let users = BTreeMap::from([(SystemUser::Replication, password)]);
    Keys::new(&Passwords { users, ..Passwords::default() }, None)
}

/// A cluster whose first node is at this address, as one that the operator of the tests has a certificate of.
fn seen(address: &str) -> (Identity, Observed) {
    let mut world = World::settled(&spec(1, 0));
    let mut observed = world.observe();
    let node = observed.nodes.get_mut(&PLACE).expect("should be there");
    let pod = node.pod.as_mut().expect("should have a pod");
    pod.address = Some(address.to_owned());
    pod.name = api::names::pod("gamma-0-0");
    (Identity { name: "cache".to_owned(), ..world.desired().identity }, observed)
}

async fn told(identity: &Identity, observed: &Observed, agents: &Agents) -> Outcome {
    let after_command = AfterCommand::default();
    let keys = keys_with("hunter2");
    let servers = Servers {
        identity,
        observed,
        keys: &keys,
        reception: &agents.reception,
        after_command: &after_command,
    };
    let mut outcome = Outcome::default();
    for order in [Order::SetZone("zone-a".to_owned()), Order::RenewPassword] {
        servers.command_all(&vec![at(order)], &mut outcome).await;
    }
    outcome
}

#[tokio::test]
async fn zones_and_passwords_are_set_by_agents() {
    let agents = Agents::new().await;
    let taken = Says::Reply(Setting::Taken, "");
    let agent = FakeAgent::start("127.0.0.78", &agents.cache, "valkey-gamma-0-0-0", taken).await;
    let (identity, mut observed) = seen("127.0.0.78");
    let outcome = told(&identity, &observed, &agents).await;
    assert_eq!((outcome.commands, outcome.refused), (2, Vec::new()));
    let heard = [("availability-zone", "zone-a"), ("primaryauth", "hunter2")];
    assert_eq!(agent.heard(), heard.map(|(name, value)| (name.to_owned(), value.to_owned())));

    agent.says(Says::Reply(Setting::Refused, "ERR no"));
    let outcome = told(&identity, &observed, &agents).await;
    let refused =
        ["CONFIG SET availability-zone at gamma-0-0: ERR no", "CONFIG SET primaryauth at gamma-0-0: ERR no"];
    assert_eq!(outcome.refused, refused);
    agent.heard();

    // Where there is none, or an older one, the server itself is told; here is none.
    for (presence, obeys) in [(Agent::Absent, None), (Agent::Heard, Some(false))] {
        let node = observed.nodes.get_mut(&PLACE).expect("should be there");
        (node.agent, node.obeys) = (presence, obeys);
        let outcome = told(&identity, &observed, &agents).await;
        let words = outcome.refused.join("\n");
        assert_eq!(words.matches("failed to connect to 127.0.0.78:6379").count(), 2, "{words}");
        assert!(agent.heard().is_empty() && !words.contains("hunter2"), "{words}");
    }
}
