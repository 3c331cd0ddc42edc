//! Keys spread over the slots of a cluster, written and read at whoever owns them.

use redis::FromRedisValue;
use valkey::client::Value;
use valkey::{Connection, Error};

/// Writes so many keys.
pub(crate) async fn write(primaries: &[&Connection], count: usize) {
    for number in 0..count {
        let (key, value) = (format!("key-{number}"), format!("value-{number}"));
        let reply = at_owner(primaries, &["SET", &key, &value]).await;
        assert_eq!(reply, Value::Okay, "{key}");
    }
}

/// Reads them again: every one must be there with its value.
pub(crate) async fn check(primaries: &[&Connection], count: usize) {
    for number in 0..count {
        let reply = at_owner(primaries, &["GET", &format!("key-{number}")]).await;
        assert_eq!(reply, Value::BulkString(format!("value-{number}").into_bytes()), "key-{number}");
    }
}

/// Asks one after the other: whoever does not own the slot says so.
async fn at_owner(primaries: &[&Connection], words: &[&str]) -> Value {
    for primary in primaries {
        match primary.raw(words).await {
            Err(Error::Server { code, .. }) if code == "MOVED" => {}
            reply => return reply.expect("should be served by the owner"),
        }
    }
    Value::Nil
}

/// The slot of a key.
pub(crate) async fn slot_of(connection: &Connection, key: &str) -> u16 {
    let slot = connection.raw(&["CLUSTER", "KEYSLOT", key]).await.expect("should answer");
    u16::from_redis_value(slot).expect("should be a slot")
}
