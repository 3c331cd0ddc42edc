//! Slots that move with their keys, by the server itself and by hand.

use secrecy::SecretString;
use valkey::client::SetSlot;
use valkey::cluster::{Direction, MigrationState, SlotMigration};
use valkey::testing::Release;
use valkey::{Connection, Error, SlotRange};

use crate::support::cluster::{Member, agree, introduce};
use crate::support::{eventually, keys, start};

fn range(start: u16, end: u16) -> SlotRange {
    SlotRange::new(start, end).expect("should be in bounds")
}

/// A node that owns everything, with keys, and two that own nothing.
async fn one_rich_and_two_poor(release: Release) -> Vec<Member> {
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(Member::start(release, "", None).await);
    }
    introduce(&members).await;
    members[0].connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
    agree(&members).await;
    keys::write(&[&members[0].connection], 300).await;
    members
}

async fn migrations(connection: &Connection) -> Vec<SlotMigration> {
    connection.cluster_slot_migrations().await.expect("should answer")
}

#[tokio::test]
async fn a_server_moves_slots_by_itself() {
    let members = one_rich_and_two_poor(Release::V9_1).await;
    let [source, first, second] = &members[..] else { panic!("should be three") };
    assert_eq!(migrations(&source.connection).await, []);
    let moves = [
        (vec![range(0, 4000), range(16383, 16383)], first.id.clone()),
        (vec![range(4001, 8000)], second.id.clone()),
    ];
    source.connection.cluster_migrate_slots(&moves).await.expect("should begin");

    let ended = eventually("the moves end", || async {
        let migrations = migrations(&source.connection).await;
        migrations.iter().all(|migration| !migration.state.is_running()).then_some(migrations)
    })
    .await;
    assert_eq!(ended.len(), 2);
    for migration in &ended {
        assert_eq!(migration.operation, Direction::Export);
        assert_eq!(migration.source_id.as_ref(), Some(&source.id));
        assert_eq!((&migration.state, migration.message.as_str()), (&MigrationState::Success, ""));
    }
    let to_first = ended
        .iter()
        .find(|migration| migration.target_id.as_ref() == Some(&first.id))
        .expect("should be listed");
    assert_eq!(to_first.ranges, moves[0].0);
    let other_end = migrations(&first.connection).await;
    assert_eq!((other_end.len(), other_end[0].operation), (1, Direction::Import));
    assert_eq!((&other_end[0].name, &other_end[0].state), (&to_first.name, &MigrationState::Success));

    agree(&members).await;
    let table = first.connection.cluster_nodes().await.expect("should answer");
    assert_eq!(table.slots_of_myself(), moves[0].0);
    let connections: Vec<_> = members.iter().map(|member| &member.connection).collect();
    keys::check(&connections, 300).await;
    let error = source.connection.cluster_migrate_slots(&moves).await.expect_err("should own them no more");
    assert!(matches!(error, Error::Server { .. }), "{error:?}");
}

#[tokio::test]
async fn a_move_is_cancelled_and_a_failed_one_says_why() {
    let mut members = one_rich_and_two_poor(Release::V9_1).await;
    let (source, first) = (&members[0], &members[1]);
    // Nobody answers at the other end, so that the move cannot be over before it is cancelled.
    first.server.freeze();
    let moves = [(vec![range(0, 100)], first.id.clone())];
    source.connection.cluster_migrate_slots(&moves).await.expect("should begin");
    assert!(migrations(&source.connection).await[0].state.is_running());
    source.connection.cluster_cancel_slot_migrations().await.expect("should cancel");
    assert_eq!(migrations(&source.connection).await[0].state, MigrationState::Cancelled);
    let error = source.connection.cluster_cancel_slot_migrations().await.expect_err("should be over");
    assert!(matches!(error, Error::Server { .. }), "{error:?}");

    let moves = [(vec![range(0, 100)], members[2].id.clone())];
    members[2].server.kill();
    members[0].connection.cluster_migrate_slots(&moves).await.expect("should begin");
    let source = &members[0];
    let failed = eventually("the move fails", || async {
        let migrations = migrations(&source.connection).await;
        migrations.into_iter().find(|migration| migration.state == MigrationState::Failed)
    })
    .await;
    assert!(!failed.message.is_empty(), "{failed:?}");
    let table = source.connection.cluster_nodes().await.expect("should answer");
    assert_eq!(table.slots_of_myself(), [SlotRange::ALL]);
}

#[tokio::test]
async fn an_older_server_says_that_it_cannot() {
    let server = start(Release::V8_1, "cluster-enabled yes");
    let connection = crate::support::open(&server).await;
    for error in [
        connection.cluster_slot_migrations().await.expect_err("should not know"),
        connection.cluster_migrate_slots(&[(vec![range(0, 0)], "id".to_owned())]).await.expect_err("neither"),
        connection.cluster_cancel_slot_migrations().await.expect_err("nor"),
    ] {
        assert!(
            error.server_message().is_some_and(|words| words.contains("unknown subcommand")),
            "{error:?}"
        );
    }
}

/// Moves one slot key by key. The target is told first of everything: an owner that knows of its slot before the
/// others is asked in vain at worst.
async fn move_by_hand(slot: u16, source: &Member, target: &Member, others: &[&Member]) -> usize {
    let set = async |member: &Member, what: SetSlot<'_>| {
        member.connection.cluster_set_slot(slot, what).await.expect("should take the word");
    };
    set(target, SetSlot::Importing(&source.id)).await;
    set(source, SetSlot::Migrating(&target.id)).await;
    let mut moved = 0;
    loop {
        let keys = source.connection.cluster_keys_in_slot(slot, 7).await.expect("should answer");
        if keys.is_empty() {
            break;
        }
        moved += keys.len();
        let port = target.server.port();
        source.connection.migrate_keys("127.0.0.1", port, &keys, 5000, None).await.expect("should move");
    }
    for member in [target, source].into_iter().chain(others.iter().copied()) {
        set(member, SetSlot::Node(&target.id)).await;
    }
    moved
}

#[tokio::test]
async fn slots_move_by_hand_on_every_release() {
    for release in Release::ALL {
        let members = one_rich_and_two_poor(release).await;
        let [source, target, other] = &members[..] else { panic!("should be three") };
        // One slot with many keys, one of them no text, beside one with few.
        let connection = &source.connection;
        for number in 0..20 {
            connection.raw(&["SET", &format!("{{tag}}{number}"), "value"]).await.expect("should write");
        }
        let slot = keys::slot_of(connection, "tag").await;
        let script = "return server.call('SET', KEYS[1] .. string.char(255, 0), 'value')";
        connection.raw(&["EVAL", script, "1", "{tag}"]).await.expect("should write");
        let held = connection.cluster_count_keys_in_slot(slot).await.expect("should answer");
        assert!(held >= 21);
        assert_eq!(move_by_hand(slot, source, target, &[other]).await as u64, held);
        assert_eq!(connection.cluster_count_keys_in_slot(slot).await.expect("should answer"), 0);
        assert_eq!(target.connection.cluster_count_keys_in_slot(slot).await.expect("should answer"), held);
        assert_eq!(target.connection.cluster_keys_in_slot(slot, 5).await.expect("should answer").len(), 5);
        agree(&members).await;
        let table = target.connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.slots_of_myself(), [range(slot, slot)]);
        let connections: Vec<_> = members.iter().map(|member| &member.connection).collect();
        keys::check(&connections, 300).await;

        // A move that is given up leaves the slot where it was.
        target.connection.cluster_set_slot(77, SetSlot::Importing(&source.id)).await.expect("should mark");
        target.connection.cluster_set_slot(77, SetSlot::Stable).await.expect("should be unmarked");
        let table = target.connection.cluster_nodes().await.expect("should answer");
        assert!(table.myself().is_some_and(|node| node.importing.is_empty()));
    }
}

#[tokio::test]
async fn a_move_of_keys_that_fails_names_no_password() {
    for release in Release::ALL {
        let source = start(release, "");
        let target = start(release, "user mover on >right ~* +restore-asking +restore +select");
        let connection = crate::support::open(&source).await;
        connection.raw(&["SET", "key", "value"]).await.expect("should write");
        let keys = [b"key".to_vec(), b"gone".to_vec()];
        let port = target.port();
        let wrong = SecretString::from("hush-wrong");
        let error = connection
            .migrate_keys("127.0.0.1", port, &keys, 5000, Some(("mover", &wrong)))
            .await
            .expect_err("should be refused");
        assert!(!format!("{error:?}{error}").contains("hush"), "{error:?}");
        let right = SecretString::from("right");
        let mover = Some(("mover", &right));
        connection.migrate_keys("127.0.0.1", port, &keys, 5000, mover).await.expect("should move");
        connection.migrate_keys("127.0.0.1", port, &keys, 5000, mover).await.expect("should find nothing");
        connection.migrate_keys("127.0.0.1", port, &[], 5000, mover).await.expect("should do nothing");

        let closed = valkey::testing::free_port().expect("should find a port");
        connection.raw(&["SET", "key", "value"]).await.expect("should write");
        let error =
            connection.migrate_keys("127.0.0.1", closed, &keys, 1000, None).await.expect_err("nobody");
        assert!(error.is_transient(), "{error:?}");
    }
}
