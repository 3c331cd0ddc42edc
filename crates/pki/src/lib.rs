//! Certificates as data: issuing, reading, judging and rotating them. Nothing here does I/O, and time is an argument.
//!
//! * [`Authority`] signs: itself, another authority below it, or a [`Leaf`].
//! * [`Certificate`] is what a certificate says of itself.
//! * [`judge`] says everything that is wrong with a chain, its key and whom it is for.
//! * [`lifetime`] says when a certificate is due.
//! * [`rotation`] replaces one authority by another without two parties that cannot talk.
//! * [`Identity`] is who somebody is, written as a SPIFFE URI.

mod authority;
mod certificate;
mod identity;
mod judgement;
mod key;
mod leaf;
pub mod lifetime;
mod pkcs8;
pub mod rotation;

pub use authority::{Authority, AuthorityError, Unfit};
pub use certificate::{Certificate, ReadError, split};
pub use identity::{Home, Identity, IdentityError, Role};
pub use judgement::{Expected, Flaw, judge};
pub use key::{Key, KeyError, Request, RequestError};
pub use leaf::{Leaf, Purpose};
