//! What agents and the operator say to each other, as data. Nothing here does I/O.
//!
//! Messages only grow: whoever reads ignores fields that it does not know, and whatever was not said has a harmless meaning. So an
//! agent of one version and an operator of another understand each other, which they have to: pods keep their agent until they are
//! restarted, and nothing restarts them for the operator's sake.

pub mod agent;
pub mod heartbeat;
pub mod promises;
