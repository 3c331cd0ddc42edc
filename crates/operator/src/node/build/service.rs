//! The headless Service that gives a node its stable DNS name.

use api::names;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Identity, Kind, Wanted};

/// Addresses are published before the pod is ready: peers must find a server that is still loading, and a replica
/// could never become ready if its name did not resolve until it is.
pub(crate) fn service(identity: &Identity) -> Wanted {
    let service = Service {
        metadata: identity.owned(identity.workload_name()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(identity.selector()),
            ports: Some(vec![ServicePort {
                name: Some(names::SERVER_PORT_NAME.to_owned()),
                port: i32::from(names::SERVER_PORT),
                target_port: Some(IntOrString::String(names::SERVER_PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    Wanted::new(Kind::Service, &service)
}
