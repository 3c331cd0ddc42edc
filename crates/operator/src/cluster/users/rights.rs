//! What the operator's own user may do on the servers of a cluster. Where an agent beside every server sets directives for it, it need
//! not be able to; where one is missing, nobody else could. Pure.

use k8s_openapi::api::core::v1::Secret;
use valkey::acl::SystemUser;

use super::super::agent_form::AgentForm;
use super::super::build::USERS_FILE;
use super::super::observe::{Observed, ObservedNode};
use super::super::validate::Desired;
use crate::heartbeats::Agent;

/// What the rules have where the operator sets directives itself.
const SETS: &str = "+config|set";

/// Whether agents do what they can do for the operator, and its own user need not. Rights are given up only when every agent said that
/// it does; they are taken back when one is known not to. In between, while somebody starts or is not heard, they stay as they are. A
/// cluster that has no node yet gets the newest agents.
pub(super) fn agents_do_the_rest(desired: &Desired, observed: &Observed) -> bool {
    let nodes = || observed.nodes.values();
    let all_have_one = desired.agent.operator.is_some() && nodes().all(has_agent);
    let none_refuses = nodes().all(|node| node.obeys != Some(false));
    let all_obey = nodes().all(|node| node.obeys == Some(true));
    let were_given_up = observed.users_file.as_deref().is_some_and(is_without);
    all_have_one && none_refuses && (all_obey || were_given_up)
}

/// The pod that runs has one, and so has the one that comes next.
fn has_agent(node: &ObservedNode) -> bool {
    let comes_with_one = AgentForm::of(&node.node).is_some_and(|form| form.operator.is_some());
    comes_with_one && (node.pod.is_none() || node.agent != Agent::Absent)
}

/// Whether the operator's user has given up its rights in this file.
fn is_without(users_file: &Secret) -> bool {
    let file = users_file.data.as_ref().and_then(|data| data.get(USERS_FILE));
    let text = file.map(|file| String::from_utf8_lossy(&file.0)).unwrap_or_default();
    let beginning = format!("user {} ", SystemUser::Operator.name());
    let rules = text.lines().find_map(|line| line.strip_prefix(&beginning));
    rules.is_some_and(|rules| rules.split(' ').all(|rule| rule != SETS))
}
