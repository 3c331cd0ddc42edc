//! What agents tell: heartbeats and events, over channels on which both ends are known.
//!
//! * `http` accepts, reads and answers.
//! * `reception` knows whom to believe: the certificate of the cluster that somebody claims to be of, and the pod it says it is in.
//! * `member` (pure) decides whether somebody speaks for a pod: who it is, and from where it speaks.
//! * `reports` is what was heard last of each pod, and `unreached` who did not answer when it was called.
//! * `vote` is the operator's word on who may replace a primary that is missed.
//!
//! Only the leader listens: it alone acts on what it hears. Nothing of it is kept for the next one, who asks anew.

mod http;
mod member;
mod reception;
mod reports;
#[cfg(test)]
pub(crate) mod tests;
mod unreached;
mod vote;

pub(crate) use http::serve;
pub(crate) use member::Member;
pub use reception::Reception;
pub(crate) use reception::{Agent, Household};
pub(crate) use reports::Death;
