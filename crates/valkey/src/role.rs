//! The reply of ROLE: the cheapest way to ask who leads.

use redis::Value;

use crate::client::reply::{integer, text};

/// What a server is, and whom it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Takes writes.
    Primary {
        /// How far its history goes.
        offset: u64,
        /// Its followers.
        replicas: Vec<Follower>,
    },
    /// Follows a primary.
    Replica {
        /// Host of the primary.
        host: String,
        /// Port of the primary.
        port: u16,
        /// `connect`, `connecting`, `sync`, `connected` and so on.
        state: String,
        /// How far it has received; `None` while it has no history.
        offset: Option<u64>,
    },
}

/// A replica, as its primary sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// Address it announces.
    pub host: String,
    /// Port it announces.
    pub port: u16,
    /// How far it has acknowledged.
    pub offset: u64,
}

pub(crate) fn read(value: &Value) -> Option<Role> {
    let Value::Array(parts) = value else { return None };
    match text(parts.first()?)?.as_str() {
        "master" | "primary" => Some(Role::Primary {
            offset: number(parts.get(1)?)?,
            replicas: match parts.get(2)? {
                Value::Array(replicas) => replicas.iter().map(follower).collect::<Option<_>>()?,
                _ => return None,
            },
        }),
        "slave" | "replica" => Some(Role::Replica {
            host: text(parts.get(1)?)?,
            port: number(parts.get(2)?)?,
            state: text(parts.get(3)?)?,
            offset: parts.get(4).and_then(number),
        }),
        _ => None,
    }
}

fn follower(value: &Value) -> Option<Follower> {
    let Value::Array(parts) = value else { return None };
    Some(Follower {
        host: text(parts.first()?)?,
        port: number(parts.get(1)?)?,
        offset: number(parts.get(2)?)?,
    })
}

/// ROLE writes some numbers as integers and others as text, and -1 for "none".
fn number<N: TryFrom<i64>>(value: &Value) -> Option<N> {
    let number = integer(value).or_else(|| text(value)?.parse().ok())?;
    N::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn reads_both_roles() {
        let follower = Value::Array(vec![bulk("10.0.0.2"), bulk("6379"), bulk("14")]);
        let primary = Value::Array(vec![bulk("master"), Value::Int(15), Value::Array(vec![follower])]);
        assert_eq!(
            read(&primary),
            Some(Role::Primary {
                offset: 15,
                replicas: vec![Follower { host: "10.0.0.2".to_owned(), port: 6379, offset: 14 }],
            })
        );
        let replica = Value::Array(vec![
            bulk("slave"),
            bulk("10.0.0.1"),
            Value::Int(6379),
            bulk("connect"),
            Value::Int(-1),
        ]);
        assert_eq!(
            read(&replica),
            Some(Role::Replica {
                host: "10.0.0.1".to_owned(),
                port: 6379,
                state: "connect".to_owned(),
                offset: None,
            })
        );
        for nonsense in [Value::Nil, Value::Array(vec![]), Value::Array(vec![bulk("sentinel")])] {
            assert_eq!(read(&nonsense), None);
        }
    }
}
