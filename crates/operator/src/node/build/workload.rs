//! The object that keeps the pod alive, in its three forms around the same pod template.

use api::names;
use api::node::{UpdateStrategy, WorkloadType};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Identity, Kind, Wanted};

/// The workload of a node.
pub(crate) fn workload(
    identity: &Identity,
    workload_type: WorkloadType,
    update_strategy: UpdateStrategy,
    template: &PodTemplateSpec,
) -> Wanted {
    match workload_type {
        WorkloadType::StatefulSet => {
            Wanted::new(Kind::StatefulSet, &stateful_set(identity, update_strategy, template))
        }
        WorkloadType::Deployment => Wanted::new(Kind::Deployment, &deployment(identity, template)),
        WorkloadType::Pod => Wanted::new(Kind::Pod, &pod(identity, template)),
    }
}

fn selector(identity: &Identity) -> LabelSelector {
    LabelSelector { match_labels: Some(identity.selector()), ..LabelSelector::default() }
}

fn stateful_set(identity: &Identity, strategy: UpdateStrategy, template: &PodTemplateSpec) -> StatefulSet {
    let strategy: &'static str = strategy.into();
    StatefulSet {
        metadata: identity.owned(identity.workload_name()),
        spec: Some(StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(identity.workload_name()),
            selector: selector(identity),
            // With OrderedReady a pod that cannot start is never replaced, not even by a corrected template.
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some(strategy.to_owned()),
                ..StatefulSetUpdateStrategy::default()
            }),
            revision_history_limit: Some(2),
            template: template.clone(),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn deployment(identity: &Identity, template: &PodTemplateSpec) -> Deployment {
    Deployment {
        metadata: identity.owned(identity.workload_name()),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: selector(identity),
            // The old server must be gone before the new one opens the same data.
            strategy: Some(DeploymentStrategy {
                type_: Some("Recreate".to_owned()),
                ..DeploymentStrategy::default()
            }),
            revision_history_limit: Some(2),
            template: template.clone(),
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// The same pod a StatefulSet would make: its name, its host name and its subdomain.
fn pod(identity: &Identity, template: &PodTemplateSpec) -> Pod {
    let mut metadata = identity.owned(names::pod(&identity.name));
    if let Some(of_template) = template.metadata.clone() {
        metadata.labels.get_or_insert_default().extend(of_template.labels.unwrap_or_default());
        metadata.annotations.get_or_insert_default().extend(of_template.annotations.unwrap_or_default());
    }
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.hostname = Some(names::pod(&identity.name));
    spec.subdomain = Some(identity.workload_name());
    Pod { metadata, spec: Some(spec), ..Pod::default() }
}
