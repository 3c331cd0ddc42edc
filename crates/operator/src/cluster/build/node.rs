//! A ValkeyNode of a cluster.

use std::collections::BTreeMap;

use api::node::{
    Access, Persistence, PersistenceMode, PodTemplate, PodTemplateMetadata, SecretKey, UpdateStrategy,
    WorkloadType,
};
use api::{ValkeyNode, ValkeyNodeSpec, keys, names};
use valkey::acl::SystemUser;

use super::super::agent_form::AgentForm;
use super::super::validate::Desired;
use super::{pod, scheduling};
use crate::objects::{Kind, Wanted};

/// The node at a place, and the revision of the pod template that it may run.
pub(in super::super) fn node(
    desired: &Desired,
    shard: u32,
    index: u32,
    revision: Option<&str>,
    agent: &AgentForm,
) -> Wanted {
    let identity = &desired.identity;
    let name = names::cluster_node(&identity.name, shard, index);
    let mut metadata = identity.owned(name.clone());
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(keys::INSTANCE.to_owned(), name.clone());
    labels.insert(keys::SHARD_INDEX.to_owned(), shard.to_string());
    labels.insert(keys::NODE_INDEX.to_owned(), index.to_string());
    let mut spec = spec(desired, &name, shard, index, agent);
    spec.workload_revision = revision.map(ToOwned::to_owned);
    let node = ValkeyNode { metadata, spec, status: None };
    Wanted::new(Kind::ValkeyNode, &node)
}

fn spec(desired: &Desired, name: &str, shard: u32, index: u32, agent: &AgentForm) -> ValkeyNodeSpec {
    let spec = &desired.spec;
    let identity = &desired.identity;
    let none = api::cluster::Scheduling::default();
    let wishes = spec.scheduling.as_ref().unwrap_or(&none);
    let placement = scheduling::placement(identity, spec.scheduling.as_ref(), shard, index);
    ValkeyNodeSpec {
        image: desired.images.server.clone(),
        image_pull_secrets: spec.image_pull_secrets.clone(),
        workload_type: spec.workload_type,
        resources: spec.resources.clone(),
        node_selector: wishes.node_selector.clone(),
        affinity: placement.affinity,
        tolerations: wishes.tolerations.clone(),
        topology_spread_constraints: placement.topology_spread_constraints,
        priority_class_name: wishes.priority_class_name.clone(),
        pod_template: Some(PodTemplate {
            metadata: Some(pod_metadata(desired, shard, index)),
            spec: Some(pod::overlay(desired, name, agent)),
        }),
        persistence: spec.persistence.as_ref().map(|persistence| persistence_of(persistence, shard, index)),
        config: config(desired, name),
        access: Some(access(desired)),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        // Only the cluster takes pods down. A Deployment cannot be held back: its revision is allowed at the right time.
        update_strategy: match spec.workload_type {
            WorkloadType::Deployment => UpdateStrategy::RollingUpdate,
            WorkloadType::StatefulSet | WorkloadType::Pod => UpdateStrategy::OnDelete,
        },
        workload_revision: None,
    }
}

fn pod_metadata(desired: &Desired, shard: u32, index: u32) -> PodTemplateMetadata {
    let template = desired.spec.pod_template.as_ref().and_then(|template| template.metadata.clone());
    let mut metadata = template.unwrap_or_default();
    metadata.labels.insert(
        keys::POD_EXTRA_SELECTOR.to_owned(),
        format!("{}-cluster-pod-{shard}-{index}", desired.identity.name),
    );
    if let Some(restarted_at) = &desired.restarted_at {
        metadata.annotations.insert(keys::RESTARTED_AT.to_owned(), restarted_at.clone());
    }
    metadata
}

fn persistence_of(persistence: &Persistence, shard: u32, index: u32) -> Persistence {
    let mut own = persistence.clone();
    if persistence.effective_mode() == PersistenceMode::External {
        own.existing_claim =
            persistence.existing_claim.as_deref().map(|prefix| names::external_claim(prefix, shard, index));
    }
    own
}

/// Names by which people and the operator recognise a member, also one that does not answer.
fn config(desired: &Desired, name: &str) -> BTreeMap<String, String> {
    let mut config = desired.config.clone();
    let host = names::announced_host(name, &desired.identity.namespace);
    config.insert("cluster-announce-hostname".to_owned(), host);
    config.insert("cluster-announce-human-nodename".to_owned(), name.to_owned());
    config
}

fn access(desired: &Desired) -> Access {
    Access {
        user: Some(SystemUser::Operator.name().to_owned()),
        password_secret_ref: Some(SecretKey {
            name: names::system_passwords_secret(&desired.identity.name),
            key: SystemUser::Operator.name().to_owned(),
        }),
        tls: desired.access_tls.clone(),
    }
}
