//! Channels between the operator and the agents of clusters, and between agents. Both ends show a certificate, and each knows the
//! other by who it is (a SPIFFE URI), not by a name or an address: pods move.
//!
//! * [`Credentials`] are what one end shows, and whom it trusts.
//! * [`Door`] accepts: it finds out who somebody claims to be, and believes it only if the authority of just that cluster
//!   signed it. The certificate of one cluster says nothing in another, whatever stands in it.
//! * [`call`] opens a channel to somebody, and to nobody else; [`ask`] puts one question over it, by gRPC.
//! * [`is_there`] says whether somebody listens at all, whoever it is.
//!
//! Credentials are looked up for each channel that is opened, so that new ones are used at once, and channels that are open stay
//! open. Nothing of a session is kept for a later one: whoever comes again shows its certificate again.

mod ask;
mod call;
mod credentials;
mod door;
mod peer;
mod presence;
mod refusal;

pub use ask::{AskError, Line, ask, dial};
pub use call::{CallError, Called, Whom, call};
pub use credentials::{Credentials, CredentialsError};
pub use door::{Accepted, Door, Doorbell};
pub use peer::Peer;
pub use presence::is_there;
pub use refusal::Refusal;
