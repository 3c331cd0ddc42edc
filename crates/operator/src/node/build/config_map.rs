//! The ConfigMap with the file the server starts from.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::{Identity, Kind, Wanted};

/// Key of the ConfigMap and name of the file.
pub(super) const FILE: &str = "valkey.conf";

/// The rendered configuration.
pub(crate) fn config_map(identity: &Identity, rendered: &str) -> Wanted {
    let config_map = ConfigMap {
        metadata: identity.owned(identity.workload_name()),
        data: Some(BTreeMap::from([(FILE.to_owned(), rendered.to_owned())])),
        ..ConfigMap::default()
    };
    Wanted::new(Kind::ConfigMap, &config_map)
}
