use proptest::prelude::*;

use super::*;
use crate::slots::SLOT_COUNT;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn flat(pairs: Vec<(Value, Value)>) -> Value {
    Value::Array(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect())
}

/// A reply as a server writes it, with the fields nobody asks for.
fn written(map: fn(Vec<(Value, Value)>) -> Value, migrations: &[SlotMigration]) -> Value {
    let one = |migration: &SlotMigration| {
        let ranges: Vec<String> =
            migration.ranges.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
        let state = match &migration.state {
            MigrationState::Running(word) => word.as_str(),
            MigrationState::Success => "success",
            MigrationState::Failed => "failed",
            MigrationState::Cancelled => "cancelled",
        };
        map(vec![
            (bulk("name"), bulk(&migration.name)),
            (bulk("operation"), bulk(&migration.operation.to_string().to_uppercase())),
            (bulk("slot_ranges"), bulk(&ranges.join(" "))),
            (bulk("target_node"), migration.target_id.as_deref().map_or(Value::Nil, bulk)),
            (bulk("source_node"), migration.source_id.as_deref().map_or(Value::Nil, bulk)),
            (bulk("create_time"), Value::Int(1_754_870_000)),
            (bulk("state"), bulk(state)),
            (bulk("message"), bulk(&migration.message)),
            (bulk("cow_size"), Value::Int(0)),
        ])
    };
    Value::Array(migrations.iter().map(one).collect())
}

fn migration() -> impl Strategy<Value = SlotMigration> {
    let range = (0..SLOT_COUNT, 0..100_u16).prop_map(|(start, length)| {
        SlotRange::new(start, (start + length).min(SLOT_COUNT - 1)).expect("in bounds")
    });
    let state = prop_oneof![
        Just(MigrationState::Success),
        Just(MigrationState::Failed),
        Just(MigrationState::Cancelled),
        "(snapshotting|waiting-to-[a-z]{1,9})".prop_map(MigrationState::Running),
    ];
    (
        "[0-9a-f]{40}",
        prop_oneof![Just(Direction::Import), Just(Direction::Export)],
        prop::collection::vec(range, 0..4),
        ("[0-9a-f]{40}", "[0-9a-f]{40}"),
        state,
        ".{0,30}",
    )
        .prop_map(|(name, operation, ranges, (source_id, target_id), state, message)| SlotMigration {
            name,
            operation,
            ranges,
            source_id: Some(source_id),
            target_id: Some(target_id),
            state,
            message,
        })
}

#[test]
fn nonsense_is_no_reply() {
    let missing = |missing: &str| {
        let pairs = ["name", "operation", "slot_ranges", "target_node", "source_node", "state"]
            .into_iter()
            .filter(|name| *name != missing)
            .map(|name| (bulk(name), bulk(if name == "operation" { "export" } else { "1" })));
        Value::Array(vec![flat(pairs.collect())])
    };
    assert!(SlotMigration::read(&missing("")).is_some(), "the message may be missing");
    for name in ["name", "operation", "slot_ranges", "state"] {
        assert_eq!(SlotMigration::read(&missing(name)), None, "without {name}");
    }
    for nonsense in [Value::Nil, Value::Okay, Value::Array(vec![Value::Int(1)]), bulk("")] {
        assert_eq!(SlotMigration::read(&nonsense), None);
    }
}

proptest! {
    #[test]
    fn what_a_server_writes_is_read_again(migrations in prop::collection::vec(migration(), 0..4)) {
        prop_assert_eq!(SlotMigration::read(&written(flat, &migrations)), Some(migrations.clone()));
        prop_assert_eq!(SlotMigration::read(&written(Value::Map, &migrations)), Some(migrations));
    }

    #[test]
    fn any_ranges_are_survived(text in "([0-9]{1,6}|-| |x){0,12}") {
        let pairs = vec![
            (bulk("name"), bulk("n")),
            (bulk("operation"), bulk("IMPORT")),
            (bulk("slot_ranges"), bulk(&text)),
            (bulk("target_node"), bulk("t")),
            (bulk("source_node"), bulk("s")),
            (bulk("state"), bulk("failed")),
        ];
        for migration in SlotMigration::read(&Value::Array(vec![flat(pairs)])).into_iter().flatten() {
            prop_assert!(migration.ranges.iter().all(|range| range.end() < SLOT_COUNT));
        }
    }
}

/// As a replica of the target lists a move: it looks on, and knows neither end.
#[test]
fn a_replica_knows_no_end_of_a_move() {
    let row = [
        "name",
        "1bed",
        "operation",
        "IMPORT",
        "slot_ranges",
        "9557-10922",
        "state",
        "success",
        "message",
        "",
    ];
    let reply = Value::Array(vec![Value::Array(row.iter().map(|word| bulk(word)).collect())]);
    let read = SlotMigration::read(&reply).expect("should be a list of moves");
    assert_eq!((read[0].source_id.as_deref(), read[0].target_id.as_deref()), (None, None));
    assert_eq!(read[0].state, MigrationState::Success);
}
