//! The objects of a node, built from its validated spec. Everything here is pure and cannot fail.

mod claim;
mod config_map;
mod meta;
mod pod;
mod service;
mod workload;

pub(super) use crate::objects::{Kind, Wanted};
pub(super) use claim::claim;
pub(super) use config_map::config_map;
pub(super) use meta::Identity;
pub(super) use pod::template;
pub(super) use service::service;
pub(super) use workload::workload;
