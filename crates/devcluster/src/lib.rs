//! A real multi-node Kubernetes on one machine, for demos, tests and benchmarks.
//!
//! [`up()`] starts it and [`down()`] takes it away; [`Cluster`] is what tests work with while it runs.

pub mod audit;
pub mod cache;
mod certificates;
mod cgroups;
mod checkout;
mod cluster;
mod collect;
pub mod command;
mod control_plane;
mod dns;
mod down;
pub mod faults;
mod files;
mod image_store;
pub mod images;
mod kernel_settings;
mod kubeconfig;
mod kubelet_access;
mod kubernetes_build;
pub mod layout;
mod leftovers;
mod lock;
mod machine;
mod mounts;
mod network;
mod node;
mod node_config;
mod own_objects;
mod pods;
mod process;
mod progress;
mod readiness;
mod record;
mod status;
pub mod storage;
mod target;
mod traces;
mod up;

pub use audit::AuditEntry;
pub use cluster::{Cluster, ClusterError, client};
pub use collect::CollectError;
pub use down::{DownError, down};
pub use image_store::StoreError;
pub use leftovers::{ClearError, Leftover, find as find_leftovers};
pub use machine::{MachineError, prepare as prepare_machine};
pub use node::{Node, NodeError};
pub use node_config::PAUSE_IMAGE;
pub use pods::{LogLines, PodError};
pub use progress::Step;
pub use readiness::ReadinessError;
pub use status::{Memory, NodeStatus, Part, Status};
pub use target::Target;
pub use up::{UpError, UpOptions, up};
