//! Whether the running pod is what the spec asks for, and if not, what it waits for.

use api::keys;
use api::node::UpdateStrategy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;

use super::super::observe::{Observed, Workload};
use super::super::validate::Desired;

/// How far the newest template has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Roll {
    /// There is no workload yet, or it and its pod have the wanted revision.
    UpToDate,
    /// The owner has not allowed this revision.
    WaitsForOwner { revision: String },
    /// The template is in place; the pod is replaced when somebody deletes it.
    WaitsForDeletion { revision: String },
    /// The template is being replaced, or the pod is.
    Rolling { revision: String },
}

impl Roll {
    pub(super) fn waits_for_owner(&self) -> bool {
        matches!(self, Self::WaitsForOwner { .. })
    }

    /// The revision that does not run yet.
    pub(in super::super) fn pending(&self) -> Option<&str> {
        match self {
            Self::UpToDate => None,
            Self::WaitsForOwner { revision }
            | Self::WaitsForDeletion { revision }
            | Self::Rolling { revision } => Some(revision),
        }
    }
}

/// The revision in the annotations of a pod or a pod template.
pub(in super::super) fn revision(meta: Option<&ObjectMeta>) -> Option<&str> {
    meta?.annotations.as_ref()?.get(keys::WORKLOAD_REVISION).map(String::as_str)
}

/// The revision the workload was told to run.
pub(in super::super) fn workload_revision(workload: &Workload) -> Option<&str> {
    match workload {
        Workload::StatefulSet(set) => revision(set.spec.as_ref()?.template.metadata.as_ref()),
        Workload::Deployment(deployment) => revision(deployment.spec.as_ref()?.template.metadata.as_ref()),
        Workload::Pod(pod) => revision(Some(pod.meta())),
    }
}

/// Judge where the roll stands.
pub(super) fn judge(desired: &Desired, observed: &Observed) -> Roll {
    let revision_wanted = desired.revision.clone();
    let Some(workload) = &observed.workload else { return Roll::UpToDate };
    let waits_for_deletion = desired.update_strategy == UpdateStrategy::OnDelete;
    if workload_revision(workload) != Some(&desired.revision) {
        if !desired.roll_allowed {
            return Roll::WaitsForOwner { revision: revision_wanted };
        }
        // A bare pod has no template to hold: the next pod takes the new one.
        return match workload {
            Workload::Pod(_) if waits_for_deletion => Roll::WaitsForDeletion { revision: revision_wanted },
            _ => Roll::Rolling { revision: revision_wanted },
        };
    }
    match &observed.pod {
        Some(pod) if revision(Some(pod.meta())) != Some(&desired.revision) => {
            if waits_for_deletion {
                Roll::WaitsForDeletion { revision: revision_wanted }
            } else {
                Roll::Rolling { revision: revision_wanted }
            }
        }
        _ => Roll::UpToDate,
    }
}
