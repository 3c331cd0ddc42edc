//! Reading values out of replies, the same way for RESP2 and RESP3.

use redis::Value;

/// Text of any kind; bytes that are no UTF-8 are replaced rather than refused.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}

/// Bytes of any kind, for what need not be text.
pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// A number the server sent as a number.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

/// The entries of a map, which RESP2 writes as a flat list; `None` where a name has no value.
pub(crate) fn entries(value: &Value) -> Option<Vec<(&Value, &Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().map(|(name, value)| (name, value)).collect()),
        Value::Array(items) => items.chunks(2).map(|pair| Some((pair.first()?, pair.get(1)?))).collect(),
        _ => None,
    }
}
