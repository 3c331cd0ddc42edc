//! What is to stand in the certificate of somebody who signs nothing.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use crate::Identity;

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display, strum::EnumIter)]
pub enum Purpose {
    /// To be shown by whoever accepts connections.
    #[strum(serialize = "serverAuth")]
    Server,
    /// To be shown by whoever opens them.
    #[strum(serialize = "clientAuth")]
    Client,
}

/// What is to stand in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// For people.
    pub name: String,
    /// Names that it is found by.
    pub hosts: Vec<String>,
    /// Addresses that it is found at.
    pub addresses: Vec<IpAddr>,
    /// Who it is for those who decide what it may do.
    pub identity: Option<Identity>,
    /// What it is for; at least one.
    pub purposes: Vec<Purpose>,
    /// When it begins.
    pub from: Timestamp,
    /// How long it is valid. It never outlives its authority.
    pub validity: SignedDuration,
}
