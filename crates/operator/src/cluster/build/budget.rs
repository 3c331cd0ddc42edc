//! The PodDisruptionBudget: how many pods a drain may take.

use api::cluster::BudgetMode;
use api::names;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Identity;
use crate::objects::{Kind, Wanted};

/// A number, not a percentage: with bare pods Kubernetes cannot tell what a percentage would be of.
pub(in super::super) fn budget(identity: &Identity, pods: u32, mode: BudgetMode) -> Wanted {
    let available = match mode {
        BudgetMode::Normal => pods.saturating_sub(1),
        BudgetMode::Locked => pods,
    };
    let budget = PodDisruptionBudget {
        metadata: identity.owned(names::cluster_budget(&identity.name)),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(i32::try_from(available).unwrap_or(i32::MAX))),
            selector: Some(LabelSelector {
                match_labels: Some(identity.selector()),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    };
    Wanted::new(Kind::PodDisruptionBudget, &budget)
}
