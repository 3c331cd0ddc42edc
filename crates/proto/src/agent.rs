//! What an agent answers to the agents of its cluster and to the operator, by gRPC: `proto/valkey/agent/v1/agent.proto`, made into
//! Rust when this crate is built.

use std::fmt;

/// No message is longer, in bytes.
pub const LONGEST: usize = 16 * 1024;

/// Directives in one request.
pub const MOST_DIRECTIVES: usize = 256;

pub use generated::*;

/// Its value may be a password.
impl fmt::Debug for Directive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Directive").field("name", &self.name).finish_non_exhaustive()
    }
}

#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    reason = "written by a generator, which knows other rules"
)]
mod generated {
    tonic::include_proto!("valkey.agent.v1");
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// Numbers and kinds of fields are what others of another version go by.
    #[test]
    fn the_contract_is_what_it_was() {
        let request =
            TakeOverRequest { dead_node_id: "d".to_owned(), config_epoch: 7, run_id: "r".to_owned() };
        assert_eq!(request.encode_to_vec(), [0x0a, 1, b'd', 0x10, 7, 0x1a, 1, b'r']);
        let reply = TakeOverReply {
            outcome: Outcome::Refused.into(),
            reason: Reason::SwitchedOff.into(),
            took_milliseconds: 5,
        };
        assert_eq!(reply.encode_to_vec(), [0x08, 4, 0x10, 9, 0x18, 5]);
        let look = LookReply {
            role: Role::Replica.into(),
            node_id: "n".to_owned(),
            primary_id: "p".to_owned(),
            config_epoch: 7,
            replication_id: "h".to_owned(),
            offset: 9,
            link_up: true,
            copy_whole: true,
            slots: 3,
            port: 6,
            bus_port: 16,
        };
        let expected = [
            &[0x08, 2, 0x12, 1, b'n', 0x1a, 1, b'p', 0x20, 7][..],
            &[0x2a, 1, b'h', 0x30, 9, 0x38, 1, 0x40, 1, 0x48, 3, 0x50, 6, 0x58, 16],
        ];
        assert_eq!(look.encode_to_vec(), expected.concat());
        let directives = vec![Directive { name: "n".to_owned(), value: "v".to_owned() }];
        let set = SetDirectivesRequest { directives };
        assert_eq!(set.encode_to_vec(), [0x0a, 6, 0x0a, 1, b'n', 0x12, 1, b'v']);
        let reply = SetDirectivesReply { setting: Setting::Failed.into(), words: "w".to_owned() };
        assert_eq!(reply.encode_to_vec(), [0x08, 4, 0x12, 1, b'w']);
        let reply = LoadUsersReply { loading: Loading::Failed.into(), words: "w".to_owned() };
        assert_eq!(reply.encode_to_vec(), [0x08, 5, 0x12, 1, b'w']);
    }

    #[test]
    fn a_value_is_never_shown() {
        let directives = vec![Directive { name: "primaryauth".to_owned(), value: "hunter2".to_owned() }];
        let shown = format!("{:?}", SetDirectivesRequest { directives });
        assert!(shown.contains("primaryauth") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn what_a_newer_one_says_is_understood_as_far_as_it_goes() {
        // An outcome of the future, and a field of the future.
        let reply = TakeOverReply::decode(&[0x08, 99, 0x18, 5, 0x7a, 1, b'x'][..]).unwrap();
        assert_eq!((reply.outcome(), reply.took_milliseconds), (Outcome::Unspecified, 5));
        assert_eq!(LookReply::decode(&[][..]).unwrap().role(), Role::Unspecified);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let _ = TakeOverRequest::decode(&bytes[..]);
            let _ = LookReply::decode(&bytes[..]);
            let _ = SetDirectivesRequest::decode(&bytes[..]);
        }
    }
}
