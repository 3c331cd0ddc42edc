//! What is to stand in the certificate of a component.

use api::certificates::{BoundCertificate, Component};
use jiff::{SignedDuration, Timestamp};
use pki::{Identity, Leaf, Purpose, Role};

/// Where a binding is.
pub(super) struct Whose<'a> {
    pub(super) trust_domain: &'a str,
    pub(super) namespace: &'a str,
    pub(super) cluster: &'a str,
}

pub(super) fn leaf(
    wanted: &BoundCertificate,
    whose: &Whose<'_>,
    validity: SignedDuration,
    now: Timestamp,
) -> Leaf {
    let component: &'static str = wanted.component.into();
    Leaf {
        name: format!("{}-{component}", whose.cluster),
        hosts: wanted.hosts.clone(),
        addresses: wanted.addresses.clone(),
        identity: role(wanted.component).map(|role| Identity {
            trust_domain: whose.trust_domain.to_owned(),
            namespace: whose.namespace.to_owned(),
            cluster: whose.cluster.to_owned(),
            role,
            pod: wanted.pod.clone(),
        }),
        purposes: purposes(wanted.component).to_vec(),
        from: now,
        validity,
    }
}

/// Those who decide over others, or report to them, are known by who they are; servers are known by their names.
fn role(component: Component) -> Option<Role> {
    match component {
        Component::Sidecar => Some(Role::Sidecar),
        Component::Operator => Some(Role::Operator),
        Component::Server | Component::NodeClient | Component::Exporter => None,
    }
}

fn purposes(component: Component) -> &'static [Purpose] {
    match component {
        Component::Server => &[Purpose::Server],
        Component::NodeClient | Component::Exporter => &[Purpose::Client],
        // Each of them calls the other.
        Component::Sidecar | Component::Operator => &[Purpose::Server, Purpose::Client],
    }
}
