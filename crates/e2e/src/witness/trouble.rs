//! What a server's refusal means to a client: go elsewhere, try again, or give up.

use valkey::Error;

use crate::access::Address;

/// Why a write did not go through, in the words a report counts them by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub enum Trouble {
    /// CLUSTERDOWN: the server does not see the whole cluster.
    #[strum(serialize = "CLUSTERDOWN")]
    ClusterDown,
    /// TRYAGAIN: the keys of the command are on both sides of a move.
    #[strum(serialize = "TRYAGAIN")]
    TryAgain,
    /// LOADING: the server reads its data from disk.
    #[strum(serialize = "LOADING")]
    Loading,
    /// READONLY: a replica was asked to write.
    #[strum(serialize = "READONLY")]
    ReadOnly,
    /// MASTERDOWN: a replica has lost its primary.
    #[strum(serialize = "MASTERDOWN")]
    PrimaryDown,
    /// NOREPLICAS: the primary has fewer replicas than it needs to take writes.
    #[strum(serialize = "NOREPLICAS")]
    NoReplicas,
    /// MISCONF: the server cannot write to its disk.
    #[strum(serialize = "MISCONF")]
    CannotPersist,
    /// BUSY: a script occupies the server.
    #[strum(serialize = "BUSY")]
    Busy,
    /// No server says who owns the slot.
    #[strum(serialize = "no owner known")]
    NoOwner,
    /// Nobody could be reached.
    #[strum(serialize = "unreachable")]
    Unreachable,
    /// The connection broke before the answer.
    #[strum(serialize = "connection lost")]
    Disconnected,
    /// No answer in time.
    #[strum(serialize = "timeout")]
    Timeout,
    /// No answer, and meanwhile another server owns the slot.
    #[strum(serialize = "superseded")]
    Superseded,
    /// Too many writes were under way: its time was over before it could be sent.
    #[strum(serialize = "never sent")]
    NeverSent,
    /// A refusal that trying again does not change.
    #[strum(to_string = "{0}")]
    Refused(String),
}

impl Trouble {
    /// Whether the server may have done what was asked.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Disconnected | Self::Timeout | Self::Superseded)
    }

    /// Whether a good client tries again.
    pub fn is_worth_retrying(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::NeverSent)
    }
}

/// What a server answered instead of doing what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The slot belongs to another server.
    Moved(Address),
    /// This one key may already be at another server.
    Ask(Address),
    /// Anything else.
    Trouble(Trouble),
}

impl From<Trouble> for Refusal {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Reads an error of the server at `asked`.
pub(crate) fn read(error: &Error, asked: &Address) -> Refusal {
    let trouble = match error {
        Error::Connect { .. } => Trouble::Unreachable,
        // After nonsense nobody knows which answer belongs to whom: the connection is as good as lost.
        Error::Disconnected { .. } | Error::Protocol { .. } => Trouble::Disconnected,
        Error::Timeout { .. } => Trouble::Timeout,
        Error::Loading { .. } => Trouble::Loading,
        Error::PrimaryDown { .. } => Trouble::PrimaryDown,
        Error::Busy { .. } => Trouble::Busy,
        Error::Server { code, message, .. } => return answer(code, message, asked),
        Error::AuthRequired { .. } => Trouble::Refused("NOAUTH".to_owned()),
        Error::WrongPassword { .. } => Trouble::Refused("WRONGPASS".to_owned()),
        Error::NoPermission { .. } => Trouble::Refused("NOPERM".to_owned()),
        Error::Tls { .. } => Trouble::Refused("TLS".to_owned()),
    };
    trouble.into()
}

fn answer(code: &str, message: &str, asked: &Address) -> Refusal {
    let trouble = match code {
        "MOVED" | "ASK" => match (destination(message, asked), code) {
            (Some(to), "MOVED") => return Refusal::Moved(to),
            (Some(to), _) => return Refusal::Ask(to),
            (None, _) => Trouble::Refused(code.to_owned()),
        },
        "CLUSTERDOWN" => Trouble::ClusterDown,
        "TRYAGAIN" => Trouble::TryAgain,
        "READONLY" => Trouble::ReadOnly,
        "NOREPLICAS" => Trouble::NoReplicas,
        "MISCONF" => Trouble::CannotPersist,
        code => Trouble::Refused(code.to_owned()),
    };
    trouble.into()
}

/// Reads `3999 10.0.0.1:6379`; an empty host is the one that answered.
fn destination(message: &str, asked: &Address) -> Option<Address> {
    let (_slot, place) = message.split_once(' ')?;
    match place.strip_prefix(':') {
        Some(port) => Some(Address::new(&asked.host, port.parse().ok()?)),
        None => place.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(code: &str, message: &str) -> Refusal {
        answer(code, message, &Address::new("10.0.0.9", 6379))
    }

    #[test]
    fn redirections_name_the_server_to_go_to() {
        let there = Address::new("10.0.0.1", 7000);
        assert_eq!(judge("MOVED", "3999 10.0.0.1:7000"), Refusal::Moved(there.clone()));
        assert_eq!(judge("ASK", "3999 10.0.0.1:7000"), Refusal::Ask(there));
        assert_eq!(judge("MOVED", "3999 :7000"), Refusal::Moved(Address::new("10.0.0.9", 7000)));
        assert_eq!(judge("MOVED", "3999 fd00::1:7000"), Refusal::Moved(Address::new("fd00::1", 7000)));
        assert_eq!(judge("MOVED", "nowhere"), Trouble::Refused("MOVED".to_owned()).into());
    }

    #[test]
    fn only_silence_leaves_it_open_whether_something_was_done() {
        for (trouble, ambiguous, retried) in [
            (Trouble::ClusterDown, false, true),
            (Trouble::TryAgain, false, true),
            (Trouble::Loading, false, true),
            (Trouble::ReadOnly, false, true),
            (Trouble::Unreachable, false, true),
            (Trouble::NoOwner, false, true),
            (Trouble::Disconnected, true, true),
            (Trouble::Timeout, true, true),
            (Trouble::Superseded, true, true),
            (Trouble::NeverSent, false, false),
            (Trouble::Refused("NOPERM".to_owned()), false, false),
        ] {
            assert_eq!(
                (trouble.is_ambiguous(), trouble.is_worth_retrying()),
                (ambiguous, retried),
                "{trouble}"
            );
        }
    }

    #[test]
    fn servers_words_become_the_reports_words() {
        for code in ["CLUSTERDOWN", "TRYAGAIN", "READONLY", "NOREPLICAS", "MISCONF", "OOM"] {
            let Refusal::Trouble(trouble) = judge(code, "…") else { panic!("{code} leads nowhere") };
            assert_eq!(trouble.to_string(), code);
        }
    }
}
