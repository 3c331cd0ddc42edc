//! The two Services of a cluster: a headless one with every server, and one address to start from.

use api::names;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Identity;
use crate::objects::{Kind, Wanted};

/// Every server, whether it is ready or not: for tools that want to see all of them.
pub(in super::super) fn headless_service(identity: &Identity) -> Wanted {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        publish_not_ready_addresses: Some(true),
        ..spec(identity)
    };
    service(identity, names::cluster_service(&identity.name), spec)
}

/// Where clients begin. A server is ready only once it knows who serves every slot, so that nobody is ever sent to one
/// that cannot tell.
pub(in super::super) fn client_service(identity: &Identity) -> Wanted {
    let spec = ServiceSpec { type_: Some("ClusterIP".to_owned()), ..spec(identity) };
    service(identity, names::cluster_client_service(&identity.name), spec)
}

fn service(identity: &Identity, name: String, spec: ServiceSpec) -> Wanted {
    let service = Service { metadata: identity.owned(name), spec: Some(spec), ..Service::default() };
    Wanted::new(Kind::Service, &service)
}

fn spec(identity: &Identity) -> ServiceSpec {
    ServiceSpec {
        selector: Some(identity.selector()),
        ports: Some(vec![ServicePort {
            name: Some(names::SERVER_PORT_NAME.to_owned()),
            port: i32::from(names::SERVER_PORT),
            target_port: Some(IntOrString::String(names::SERVER_PORT_NAME.to_owned())),
            protocol: Some("TCP".to_owned()),
            ..ServicePort::default()
        }]),
        ..ServiceSpec::default()
    }
}
