//! Kubernetes glue shared by the programs: applying objects without needless writes, one status write per pass, leader
//! election, per-object back-off, logs and metrics.

pub mod apply;
pub mod backoff;
pub mod digest;
pub mod drift;
pub mod lease;
pub mod metrics;
pub mod quantity;
pub mod serve;
pub mod shutdown;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
