//! The operator's own users: each can do its work with nobody else's help, and nothing beyond it.

use valkey::acl::{AclChange, Declaration, SystemUser, User, difference};
use valkey::client::{FailoverMode, Section, SetSlot, Value};
use valkey::testing::{Release, Server};
use valkey::{Connection, Error, SlotRange};

use crate::support::cluster::{Member, agree, form, in_sync, introduce};
use crate::support::guards::{AUDITOR, Guards, WRITER, allowed};
use crate::support::{eventually, keys, start};

/// What servers denied, to whomever.
async fn denied(guards: &Guards, members: &[Member]) -> Vec<Value> {
    let mut entries = Vec::new();
    for member in members {
        let auditor = guards.enter(&member.server, AUDITOR).await;
        let log = auditor.raw(&["ACL", "LOG"]).await.expect("should answer");
        entries.extend(log.into_sequence().expect("should be a list"));
    }
    entries
}

async fn partial_syncs(member: &Member) -> u32 {
    let info = member.connection.info(&[Section::Stats]).await.expect("should answer");
    info.number("sync_partial_ok").expect("should be counted")
}

/// Keys of every kind, because each kind is copied by commands of its own.
const KINDS: &[&[&str]] = &[
    &["SET", "{kinds}string", "1", "EX", "1000"],
    &["HSET", "{kinds}hash", "field", "value"],
    &["RPUSH", "{kinds}list", "a", "b"],
    &["SADD", "{kinds}set", "a", "1"],
    &["ZADD", "{kinds}sorted", "1", "a"],
    &["XADD", "{kinds}stream", "*", "field", "value"],
    &["XGROUP", "CREATE", "{kinds}stream", "group", "0"],
    &["XREADGROUP", "GROUP", "group", "consumer", "STREAMS", "{kinds}stream", ">"],
    &["PFADD", "{kinds}sketch", "a"],
    &["GEOADD", "{kinds}places", "1", "1", "a"],
    &["SETBIT", "{kinds}bits", "7", "1"],
];

async fn hand_over(old: &Member, new: &Member, mode: FailoverMode, members: &[Member]) {
    in_sync(old, 1).await;
    new.connection.cluster_failover(mode).await.expect("should begin");
    new.leads().await;
    in_sync(new, 1).await;
    agree(members).await;
}

#[tokio::test]
async fn a_cluster_lives_with_the_operators_users_alone() {
    for (release, channels) in
        [(Release::V8_1, "no"), (Release::V8_1, "yes"), (Release::V9_1, "no"), (Release::V9_1, "yes")]
    {
        // With the fewest rights that the operator ever has.
        let guards = Guards::beside_agents();
        let conf = format!("{}\ndual-channel-replication-enabled {channels}", guards.conf());
        let members = form(release, &conf, guards.login("_operator")).await;
        let mut writers = Vec::new();
        for member in &members {
            writers.push(guards.enter(&member.server, WRITER).await);
        }
        let writers: Vec<&Connection> = writers.iter().collect();
        keys::write(&writers, 100).await;
        let slot = keys::slot_of(writers[0], "kinds").await;
        let owner = usize::from(slot / 5461);
        for words in KINDS {
            writers[owner].raw(words).await.expect("should write");
        }

        // The links break and are taken up where they were.
        let auditor = guards.enter(&members[0].server, AUDITOR).await;
        let before = partial_syncs(&members[0]).await;
        auditor.raw(&["CLIENT", "KILL", "TYPE", "replica"]).await.expect("should kill");
        eventually("a partial sync", || async { (partial_syncs(&members[0]).await > before).then_some(()) })
            .await;

        // The users are read again, on replicas too, and no link notices.
        in_sync(&members[0], 1).await;
        let before = partial_syncs(&members[0]).await;
        for member in &members {
            guards.enter(&member.server, "_agent").await.acl_load().await.expect("should load");
        }
        keys::write(&writers, 100).await;
        in_sync(&members[0], 1).await;
        assert_eq!(partial_syncs(&members[0]).await, before);

        hand_over(&members[0], &members[3], FailoverMode::Planned, &members).await;
        hand_over(&members[3], &members[0], FailoverMode::Force, &members).await;
        hand_over(&members[0], &members[3], FailoverMode::Takeover, &members).await;
        hand_over(&members[3], &members[0], FailoverMode::Planned, &members).await;

        let target = (owner + 1) % 3;
        move_slot(&guards, slot, &members[owner], &members[target], &members[..3], release).await;
        agree(&members).await;
        keys::check(&writers, 100).await;
        let held = members[target].connection.cluster_count_keys_in_slot(slot).await.expect("should answer");
        // Three of the commands are about the same stream.
        assert!(held >= KINDS.len() as u64 - 2, "{held}");
        assert_eq!(denied(&guards, &members).await, [], "{release:?}, dual channel: {channels}");
        let agent = guards.enter(&members[0].server, "_agent").await;
        agent.flush_all().await.expect_err("should not be allowed that");
        assert_eq!(denied(&guards, &members).await.len(), 1, "what is denied should show up");
    }
}

/// Moves a slot the way the release does it, and another one by hand.
async fn move_slot(
    guards: &Guards,
    slot: u16,
    source: &Member,
    target: &Member,
    primaries: &[Member],
    release: Release,
) {
    if release.version().supports_atomic_slot_migration() {
        let range = SlotRange::new(slot, slot).expect("should be in bounds");
        let moves = [(vec![range], target.id.clone())];
        source.connection.cluster_migrate_slots(&moves).await.expect("should begin");
        eventually("the slot is there", || async {
            let migrations = source.connection.cluster_slot_migrations().await.expect("should answer");
            for migration in &migrations {
                assert!(migration.message.is_empty(), "{migration:?}");
            }
            migrations.iter().all(|migration| !migration.state.is_running()).then_some(())
        })
        .await;
        return;
    }
    target.connection.cluster_set_slot(slot, SetSlot::Importing(&source.id)).await.expect("should mark");
    source.connection.cluster_set_slot(slot, SetSlot::Migrating(&target.id)).await.expect("should mark");
    let keys = source.connection.cluster_keys_in_slot(slot, 100).await.expect("should answer");
    let credentials = guards.login("_replication");
    let port = target.server.port();
    source.connection.migrate_keys("127.0.0.1", port, &keys, 5000, credentials).await.expect("should move");
    for member in std::iter::once(target).chain(primaries) {
        member
            .connection
            .cluster_set_slot(slot, SetSlot::Node(&target.id))
            .await
            .expect("should know the owner");
    }
}

/// Whatever this crate can ask of a server, the operator may ask, but for the end of the server; and for what agents do for it, where
/// there are some.
#[tokio::test]
async fn the_operator_may_use_every_method() {
    let both = |release| [(release, Guards::new(), false), (release, Guards::beside_agents(), true)];
    for (release, guards, agents_do_the_rest) in Release::ALL.into_iter().flat_map(both) {
        let login = guards.login("_operator");
        let members = [
            Member::start(release, &guards.conf(), login).await,
            Member::start(release, &guards.conf(), login).await,
        ];
        let (first, second) = (&members[0].connection, &members[1].connection);
        let all = [SlotRange::ALL];

        first.ping().await.expect("should answer");
        first.info_all().await.expect("should answer");
        first.role().await.expect("should answer");
        first.config_get(&["*"]).await.expect("should answer");
        let set = first.config_set(&[("maxmemory", "100mb"), ("primaryauth", "x")]).await;
        may_unless(agents_do_the_rest, "CONFIG SET", set);
        allowed("REPLICAOF", first.replicaof(None).await);

        introduce(&members).await;
        first.cluster_shards().await.expect("should answer");
        first.cluster_health().await.expect("should answer");
        first.cluster_bump_epoch().await.expect("should answer");
        first.cluster_add_slots(&all).await.expect("should take slots");
        first.cluster_keys_in_slot(0, 1).await.expect("should answer");
        first.cluster_count_keys_in_slot(0).await.expect("should answer");
        for what in [SetSlot::Migrating(&members[1].id), SetSlot::Stable, SetSlot::Node(&members[0].id)] {
            first.cluster_set_slot(5, what).await.expect("should take it");
        }
        second.cluster_set_slot(5, SetSlot::Importing(&members[0].id)).await.expect("should take it");
        second.cluster_set_slot(5, SetSlot::Stable).await.expect("should take it");
        allowed("MIGRATE", first.migrate_keys("127.0.0.1", 1, &[b"key".to_vec()], 100, login).await);
        allowed("GETSLOTMIGRATIONS", first.cluster_slot_migrations().await);
        let moves = [(vec![SlotRange::ALL], members[0].id.clone())];
        allowed("MIGRATESLOTS", first.cluster_migrate_slots(&moves).await);
        allowed("CANCELSLOTMIGRATIONS", first.cluster_cancel_slot_migrations().await);
        allowed("FAILOVER", first.cluster_failover(FailoverMode::Planned).await);
        first.cluster_del_slots(&all).await.expect("should give up slots");
        second.flush_all().await.expect("should flush");
        second.cluster_replicate(&members[0].id).await.expect("should follow");
        second.cluster_reset(true).await.expect("should reset");
        first.cluster_forget(&members[1].id).await.expect("should forget");

        change_users(&guards, first).await;
        may_unless(agents_do_the_rest, "ACL LOAD", first.acl_load().await);
        let shutdown =
            first.shutdown(valkey::client::Shutdown::Default).await.expect_err("should not be allowed");
        assert!(shutdown.is_auth(), "{shutdown:?}");
    }
}

/// Works, or is denied by the rules of the user and nothing else.
#[track_caller]
fn may_unless(denied: bool, what: &str, result: Result<(), Error>) {
    match result {
        Ok(()) => assert!(!denied, "{what} should be denied"),
        Err(error) => assert!(denied && matches!(error, Error::NoPermission { .. }), "{what}: {error:?}"),
    }
}

async fn change_users(guards: &Guards, operator: &Connection) {
    let declaration =
        Declaration { name: "fresh".to_owned(), enabled: true, nopass: true, ..Declaration::default() };
    let mut users = guards.users();
    users.push(User::declared(&declaration).expect("should be a user"));
    let mut asked = Vec::new();
    for user in users {
        let line = operator.acl_canonical(&user).await.expect("should take the rules");
        asked.push(user.with_canonical(&line));
    }
    let changes = difference(&asked, &operator.acl_list().await.expect("should answer"));
    assert_eq!(changes.len(), 1, "{changes:?}");
    for change in &changes {
        assert!(matches!(change, AclChange::Set { name, .. } if name == "fresh"), "{change:?}");
        if let AclChange::Set { name, rules } = change {
            operator.acl_set_user(name, rules).await.expect("should set");
        }
    }
    operator.acl_del_users(&["fresh"]).await.expect("should delete");
    assert_eq!(operator.acl_whoami().await.expect("should answer"), "_operator");
}

fn lone(release: Release, guards: &Guards) -> Server {
    start(release, &format!("cluster-enabled yes\n{}", guards.conf()))
}

#[tokio::test]
async fn the_agent_may_look_load_and_let_go() {
    for release in Release::ALL {
        let guards = Guards::new();
        let server = lone(release, &guards);
        let agent = guards.enter(&server, "_agent").await;
        agent.ping().await.expect("should answer");
        agent
            .info_text(&[Section::Server, Section::Replication, Section::Persistence, Section::Keyspace])
            .await
            .expect("should answer");
        agent.role().await.expect("should answer");
        agent.cluster_health().await.expect("should answer");
        agent.cluster_nodes().await.expect("should answer");
        agent.acl_lines().await.expect("should answer");
        agent.config_get(&["maxmemory", "primaryauth"]).await.expect("should answer");
        agent.cluster_myid().await.expect("should answer");
        agent.config_set(&[("min-replicas-to-write", "0")]).await.expect("should be taken");
        // On a primary there is nothing to take over, whoever asks.
        for mode in [FailoverMode::Force, FailoverMode::Takeover] {
            allowed("FAILOVER", agent.cluster_failover(mode).await);
        }
        agent.cluster_meet_at("127.0.0.1", 1, 2).await.expect("should try");
        agent.acl_load().await.expect("should load");
        assert_eq!(agent.acl_whoami().await.expect("should answer"), "_agent");
    }
}

/// What the stock exporter sends, with all of its flags that make it look at keys, clients and scripts.
const SCRAPE: &[&[&str]] = &[
    &["PING"],
    &["CLIENT", "SETNAME", "redis_exporter"],
    &["CLIENT", "LIST"],
    &["CONFIG", "GET", "*"],
    &["INFO", "ALL"],
    &["INFO", "MODULES"],
    &["CLUSTER", "INFO"],
    &["CLUSTER", "NODES"],
    &["CLUSTER", "SLOTS"],
    &["SLOWLOG", "LEN"],
    &["SLOWLOG", "GET", "1"],
    &["LATENCY", "LATEST"],
    &["LATENCY", "HISTOGRAM"],
    &["SELECT", "0"],
    &["SCAN", "0", "MATCH", "k*", "COUNT", "1000"],
    &["TYPE", "{kinds}string"],
    &["MEMORY", "USAGE", "{kinds}string"],
    &["GET", "{kinds}string"],
    &["STRLEN", "{kinds}string"],
    &["PFCOUNT", "{kinds}sketch"],
    &["HLEN", "{kinds}hash"],
    &["LLEN", "{kinds}list"],
    &["SCARD", "{kinds}set"],
    &["ZCARD", "{kinds}sorted"],
    &["XLEN", "{kinds}stream"],
    &["XINFO", "STREAM", "{kinds}stream"],
    &["XINFO", "GROUPS", "{kinds}stream"],
    &["XINFO", "CONSUMERS", "{kinds}stream", "group"],
    &["EVAL", "return server.call('SCAN', '0')", "0"],
    &["EVAL_RO", "return {'a', '1'}", "0"],
];

#[tokio::test]
async fn the_exporter_may_look_at_everything_and_write_nothing() {
    for release in Release::ALL {
        let guards = Guards::new();
        let server = lone(release, &guards);
        let operator = guards.enter(&server, "_operator").await;
        operator.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        eventually("the node serves", || async {
            operator.cluster_health().await.expect("should answer").state_ok.then_some(())
        })
        .await;
        let writer = guards.enter(&server, WRITER).await;
        for words in KINDS {
            writer.raw(words).await.expect("should write");
        }
        let exporter = guards.enter(&server, "_exporter").await;
        for words in SCRAPE {
            let reply = exporter.raw(words).await;
            assert!(reply.is_ok(), "{words:?}: {reply:?}");
        }
        let unknown = "0".repeat(40);
        allowed("EVALSHA", exporter.raw(&["EVALSHA", &unknown, "0"]).await);
        let smuggled =
            exporter.raw(&["EVAL", "return server.call('SET', KEYS[1], '1')", "1", "{kinds}string"]).await;
        let error = smuggled.expect_err("should not write from a script either");
        assert!(error.to_string().contains("ACL failure in script"), "{error}");
    }
}

/// Commands each of them must not be able to run. Words are as many as the command needs.
const FORBIDDEN: &[(SystemUser, &[&str])] = &[
    (
        SystemUser::Operator,
        &[
            "get k",
            "set k v",
            "del k",
            "scan 0",
            "keys *",
            "dump k",
            "eval s 0",
            "fcall f 0",
            "function flush",
            "script flush",
            "module list",
            "module load m",
            "shutdown",
            "debug sleep 0",
            "save",
            "bgsave",
            "monitor",
            "psync a 1",
            "sync",
            "replconf ack 1",
            "subscribe c",
            "publish c m",
            "client kill 1",
            "client pause 1",
            "cluster flushslots",
            "cluster saveconfig",
            "config rewrite",
            "config resetstat",
            "acl save",
            "acl log",
            "failover",
            "flushdb",
            "swapdb 0 1",
            "select 0",
        ],
    ),
    (
        SystemUser::Replication,
        &[
            "get k",
            "mget k",
            "scan 0",
            "keys *",
            "dump k",
            "eval s 0",
            "info",
            "role",
            "config get *",
            "config set a b",
            "acl list",
            "acl setuser a",
            "acl load",
            "acl whoami",
            "flushall",
            "flushdb",
            "swapdb 0 1",
            "migrate h 1 k 0 1",
            "function flush",
            "function load f",
            "multi",
            "exec",
            "cluster nodes",
            "cluster failover",
            "cluster reset",
            "cluster meet 127.0.0.1 1",
            "cluster setslot 1 stable",
            "cluster forget a",
            "cluster addslotsrange 1 1",
            "cluster replicate a",
            "shutdown",
            "subscribe c",
            "publish c m",
            "client kill 1",
            "replicaof no one",
            "debug sleep 0",
            "module list",
            "monitor",
        ],
    ),
    (
        SystemUser::Agent,
        &[
            "get k",
            "set k v",
            "scan 0",
            "keys *",
            "eval s 0",
            "config rewrite",
            "acl setuser a",
            "acl deluser a",
            "acl getuser a",
            "flushall",
            "shutdown",
            "psync a 1",
            "replicaof no one",
            "cluster replicate a",
            "cluster reset",
            "cluster forget a",
            "cluster setslot 1 stable",
            "client kill 1",
            "client list",
            "migrate h 1 k 0 1",
            "debug sleep 0",
            "publish c m",
            "monitor",
        ],
    ),
    (
        SystemUser::Exporter,
        &[
            "set k v",
            "del k",
            "getdel k",
            "expire k 1",
            "restore k 0 v",
            "flushall",
            "flushdb",
            "config set a b",
            "config resetstat",
            "config rewrite",
            "acl list",
            "acl setuser a",
            "acl load",
            "cluster failover",
            "cluster reset",
            "cluster meet 127.0.0.1 1",
            "cluster forget a",
            "client kill 1",
            "client pause 1",
            "slowlog reset",
            "latency reset",
            "memory purge",
            "memory doctor",
            "psync a 1",
            "sync",
            "shutdown",
            "replicaof no one",
            "function load f",
            "script load s",
            "publish c m",
            "subscribe c",
            "monitor",
            "debug sleep 0",
            "migrate h 1 k 0 1",
            "keys *",
            "module list",
        ],
    ),
];

/// Where an agent is beside every server, the operator must not be able to run these either.
const FORBIDDEN_BESIDE_AGENTS: (SystemUser, &[&str]) =
    (SystemUser::Operator, &["config set maxmemory 1", "config set a b", "acl load"]);

#[tokio::test]
async fn nobody_may_do_more_than_its_work() {
    let both = |release| {
        [(release, Guards::new(), None), (release, Guards::beside_agents(), Some(&FORBIDDEN_BESIDE_AGENTS))]
    };
    for (release, guards, more) in Release::ALL.into_iter().flat_map(both) {
        let server = lone(release, &guards);
        let auditor = guards.enter(&server, AUDITOR).await;
        for (user, commands) in FORBIDDEN.iter().chain(more) {
            for command in *commands {
                let words: Vec<&str> =
                    ["ACL", "DRYRUN", user.name()].into_iter().chain(command.split(' ')).collect();
                let verdict = auditor.raw(&words).await.expect("should know the command");
                let Value::BulkString(verdict) = verdict else {
                    panic!("{user:?} may {command} on {release:?}")
                };
                let verdict = String::from_utf8_lossy(&verdict).into_owned();
                assert!(verdict.contains("has no permissions"), "{user:?}, {command}: {verdict}");
            }
        }
    }
}

/// What a release adds to CLUSTER comes to those who have CLUSTER as a whole: a new one shows up here.
#[tokio::test]
async fn the_subcommands_of_cluster_are_these() {
    let newer = "cancelslotmigrations flushslot getslotmigrations migrateslots syncslots";
    let common = "addslotsrange bumpepoch countkeysinslot delslotsrange failover forget getkeysinslot info meet myid nodes \
                  replicate reset set-config-epoch setslot shards";
    for (user, release, expected) in [
        (SystemUser::Operator, Release::V8_1, vec![common]),
        (SystemUser::Operator, Release::V9_1, vec![common, newer]),
        (SystemUser::Replication, Release::V8_1, vec![]),
        (SystemUser::Replication, Release::V9_1, vec![newer]),
        (SystemUser::Agent, Release::V9_1, vec!["failover info meet nodes myid"]),
        (SystemUser::Exporter, Release::V9_1, vec!["info nodes slots"]),
    ] {
        let guards = Guards::new();
        let server = lone(release, &guards);
        let auditor = guards.enter(&server, AUDITOR).await;
        let writer = guards.enter(&server, WRITER).await;
        let list = writer.raw(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "cluster|*"]).await;
        let Value::Array(list) = list.expect("should answer") else { panic!("should be a list") };
        let mut may = Vec::new();
        for name in list {
            let Value::BulkString(name) = name else { panic!("{name:?}") };
            let name = String::from_utf8(name).expect("should be text");
            let subcommand = name.strip_prefix("cluster|").expect("should be of the container");
            // The number of words is checked too, and differs: one that fits is found by trying.
            for count in 0..8 {
                let words = ["ACL", "DRYRUN", user.name(), "CLUSTER", subcommand];
                let words: Vec<&str> = words.into_iter().chain(std::iter::repeat_n("1", count)).collect();
                match auditor.raw(&words).await {
                    Ok(Value::Okay) => {
                        may.push(subcommand.to_owned());
                        break;
                    }
                    Ok(_) => break,
                    Err(error) => assert!(error.to_string().contains("wrong number"), "{error}"),
                }
            }
        }
        let mut expected: Vec<&str> =
            expected.iter().flat_map(|words| words.split_ascii_whitespace()).collect();
        may.sort();
        expected.sort_unstable();
        assert_eq!(may, expected, "{user:?} on {release:?}");
    }
}
