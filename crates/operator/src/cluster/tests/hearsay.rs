//! What agents tell of their servers, in place of asking.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proto::heartbeat::{Report, Server, ServerState, UsersFile};
use secrecy::SecretString;
use valkey::SlotRange;
use valkey::acl::{SystemUser, hash_password};

use super::super::server::{Keys, told};
use super::super::users::Passwords;
use super::super::users::passwords::Password;
use super::convergence::spec;
use super::world::World;

const NODES: &str = "07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.1:6379@16379,valkey-gamma-0-0.team.svc myself,master - 0 0 4 \
                     connected 0-16383\n";
const CLUSTER_INFO: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n\
    cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n\
    cluster_current_epoch:7\r\ncluster_my_epoch:4\r\n";

fn server() -> Server {
    Server {
        info: "valkey_version:9.1.2\r\nrun_id:9f\r\nrole:master\r\nmaster_repl_offset:5\r\ndb0:keys=1\r\n"
            .to_owned(),
        cluster_info: CLUSTER_INFO.to_owned(),
        cluster_nodes: NODES.to_owned(),
        users: vec!["user default on nopass ~* &* +@all".to_owned()],
        config: BTreeMap::new(),
        primary_password: Some(hash_password(&SecretString::from("current"))),
    }
}

fn report(server: ServerState) -> Report {
    Report { agent: "0.1.0".to_owned(), sets_directives: true, server, users: UsersFile::default() }
}

fn up(server: Server) -> Report {
    report(ServerState::Up(Box::new(server)))
}

/// Keys after a rotation of the replication password to this one.
fn keys(current: &str) -> Keys {
    let password = Password { current: current.into(), next: None, previous: Some("older".into()) };
    let users = BTreeMap::from([(SystemUser::Replication, password)]);
    Keys::new(&Passwords { users, ..Passwords::default() }, None)
}

#[test]
fn a_report_says_what_the_server_would() {
    let facts = told(&keys("current"), &up(server())).expect("should be facts");
    assert_eq!(
        (facts.id.as_str(), facts.run_id.as_str()),
        ("07c37dfeb235213a872192d90877d0cd55635b91", "9f")
    );
    assert_eq!(facts.nodes.slots_of_myself(), [SlotRange::ALL]);
    assert!(facts.health.state_ok && facts.has_keys && !facts.by_fallback && !facts.shows_old_password);
    assert!(facts.users.users.contains_key("default"));
}

#[test]
fn a_server_that_shows_another_password_is_noticed() {
    assert!(told(&keys("newer"), &up(server())).expect("should be facts").shows_old_password);
    let unknown = Server { primary_password: None, ..server() };
    assert!(told(&keys("current"), &up(unknown)).expect("should be facts").shows_old_password);
}

#[test]
fn whatever_is_less_than_an_answer_is_none() {
    for state in [
        ServerState::Starting,
        ServerState::Loading,
        ServerState::Silent,
        ServerState::Down,
        ServerState::Unknown,
    ] {
        assert_eq!(told(&Keys::default(), &report(state)), None);
    }
    let changes: [fn(&mut Server); 2] =
        [|server| server.cluster_nodes.clear(), |server| server.cluster_info.clear()];
    for change in changes {
        let mut broken = server();
        change(&mut broken);
        assert_eq!(told(&Keys::default(), &up(broken)), None);
    }
}

#[test]
fn a_cluster_at_rest_has_an_idle_plan_and_any_other_has_not() {
    let mut world = World::settled(&spec(2, 1));
    let observed = world.observe();
    assert!(world.plan_for(&observed).is_idle());
    let mut without = observed.clone();
    without.client_service = None;
    assert!(!world.plan_for(&without).is_idle(), "something is to be written");
    let mut away = observed;
    away.nodes.get_mut(&(0, 1)).expect("should be there").server = super::super::server::ServerView::NotAsked;
    assert!(!world.plan_for(&away).is_idle() || world.status_after(&away, |_, _, _| ()) != world.status());
}
