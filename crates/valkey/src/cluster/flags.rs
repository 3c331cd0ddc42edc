//! The flags of a cluster member.

use std::fmt;

/// One flag of a line of CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// The node that answered.
    Myself,
    /// `master`, or `primary` of newer servers.
    Primary,
    /// `slave`, or `replica` of newer servers.
    Replica,
    /// Suspected to have failed by the node that answered.
    PossiblyFailed,
    /// Agreed to have failed by a majority.
    Failed,
    /// Not yet trusted: the first words are being exchanged.
    Handshake,
    /// The address is not known.
    NoAddress,
    /// Never takes over for its primary.
    NoFailover,
    /// A flag this program does not know, as the server wrote it.
    Other(String),
}

impl Flag {
    /// Reads one word; `noflags` is the server's way to write an empty set.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "" | "noflags" => return None,
            "myself" => Self::Myself,
            "master" | "primary" => Self::Primary,
            "slave" | "replica" => Self::Replica,
            "fail?" => Self::PossiblyFailed,
            "fail" => Self::Failed,
            "handshake" => Self::Handshake,
            "noaddr" => Self::NoAddress,
            "nofailover" => Self::NoFailover,
            other => Self::Other(other.to_owned()),
        })
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Myself => "myself",
            Self::Primary => "master",
            Self::Replica => "slave",
            Self::PossiblyFailed => "fail?",
            Self::Failed => "fail",
            Self::Handshake => "handshake",
            Self::NoAddress => "noaddr",
            Self::NoFailover => "nofailover",
            Self::Other(word) => word,
        })
    }
}
