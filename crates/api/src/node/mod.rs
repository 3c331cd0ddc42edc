//! `ValkeyNode`: one Valkey server in one pod. Other kinds are built from it; it decides nothing about topology.

mod access;
mod persistence;
mod spec;
mod status;

pub use access::{Access, ClientCertificate, SecretKey, TlsAccess};
pub(crate) use persistence::PERSISTENCE_STAYS;
pub use persistence::{Persistence, PersistenceMode, ReclaimPolicy};
pub(crate) use spec::DIRECTIVE_NAMES;
pub use spec::{PodTemplate, PodTemplateMetadata, UpdateStrategy, ValkeyNode, ValkeyNodeSpec, WorkloadType};
pub use status::{ObservedRole, RunningConfig, ValkeyNodeStatus};
