//! Condition types and reasons as enums, and the one way to turn them into `metav1.Condition`s.
//!
//! The doc comments of the variants are the user's documentation: `docs/conditions.md` is generated from them.

mod certificate;
mod cluster;
mod node;

pub use certificate::{CertificateCondition, CertificateReason};
pub use cluster::{ClusterCondition, ClusterReason};
pub use node::{NodeCondition, NodeReason};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use strum::IntoStaticStr;

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub enum State {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It could not be found out.
    Unknown,
}

impl From<bool> for State {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition before it has a time: what a pure status function produces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment<C, R> {
    /// Which condition.
    pub condition: C,
    /// Whether it holds.
    pub state: State,
    /// Why, as a constant for programs.
    pub reason: R,
    /// Why, as a sentence for people.
    pub message: String,
}

/// The stored condition of this type.
pub fn find(stored: &[Condition], type_: impl Into<&'static str>) -> Option<&Condition> {
    let name: &'static str = type_.into();
    stored.iter().find(|condition| condition.type_ == name)
}

/// Merge fresh assessments with the conditions stored before: `lastTransitionTime` moves only when the status of a
/// condition changes, so that an unchanged world gives an unchanged status and nothing is written. Conditions that are
/// no longer assessed disappear.
pub fn merge<C, R>(
    stored: &[Condition],
    fresh: &[Assessment<C, R>],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition>
where
    C: Copy + Into<&'static str>,
    R: Copy + Into<&'static str>,
{
    fresh
        .iter()
        .map(|assessment| {
            let type_: &'static str = assessment.condition.into();
            let status: &'static str = assessment.state.into();
            let reason: &'static str = assessment.reason.into();
            let since = stored
                .iter()
                .find(|condition| condition.type_ == type_ && condition.status == status)
                .map_or(Time(now), |condition| condition.last_transition_time.clone());
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: assessment.message.clone(),
                observed_generation: generation,
                last_transition_time: since,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(state: State, message: &str) -> Assessment<NodeCondition, NodeReason> {
        Assessment {
            condition: NodeCondition::Ready,
            state,
            reason: NodeReason::PodRunning,
            message: message.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("should be in range")
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = merge(&[], &[ready(State::False, "no pod")], Some(1), at(10));
        let second = merge(&first, &[ready(State::False, "starting")], Some(1), at(20));
        let third = merge(&second, &[ready(State::True, "up")], Some(2), at(30));
        assert_eq!(first[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].message, "starting");
        assert_eq!(third[0].last_transition_time, Time(at(30)));
        assert_eq!(third[0].observed_generation, Some(2));
    }

    #[test]
    fn an_unchanged_world_gives_an_unchanged_list() {
        let first = merge(&[], &[ready(State::True, "up")], Some(1), at(10));
        assert_eq!(merge(&first, &[ready(State::True, "up")], Some(1), at(99)), first);
    }

    #[test]
    fn a_condition_that_is_not_assessed_any_more_disappears() {
        let first = merge(&[], &[ready(State::True, "up")], Some(1), at(10));
        assert!(merge::<NodeCondition, NodeReason>(&first, &[], Some(1), at(20)).is_empty());
    }
}
