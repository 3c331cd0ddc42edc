//! One bad input, and what it must get.

use serde_json::Value;

/// A change of a spec that the API server must refuse.
pub(super) struct Refused {
    /// What is wrong with it.
    pub(super) what: &'static str,
    /// Merged into the spec.
    pub(super) change: Value,
    /// Words of the refusal: they name the field, and say what to do where a rule of ours speaks.
    pub(super) says: &'static [&'static str],
}

/// A row of a table of refusals.
pub(super) fn refused(what: &'static str, change: Value, says: &'static [&'static str]) -> Refused {
    Refused { what, change, says }
}

/// What is handed in.
pub(super) enum Input {
    /// Merged into the spec.
    Spec(Value),
    /// Merged into the Secret with the passwords of the users.
    Passwords(Value),
    /// That Secret is deleted.
    NoPasswords,
}

/// What may happen to servers meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Touches {
    /// No server, no user, no directive changes.
    Nothing,
    /// The replica may be restarted in vain; the primary is not touched.
    Replica,
}

/// An input that is taken and cannot be done.
pub(super) struct Reported {
    /// What is wrong with it.
    pub(super) what: &'static str,
    pub(super) input: Input,
    /// The condition that tells of it.
    pub(super) condition: &'static str,
    pub(super) reason: &'static str,
    /// Words of its message.
    pub(super) says: &'static [&'static str],
    pub(super) touches: Touches,
}

impl Reported {
    /// The status of the condition when something is wrong.
    pub(super) fn alarm(&self) -> &'static str {
        match self.condition {
            "Ready" | "UsersApplied" => "False",
            _ => "True",
        }
    }
}

/// Users that cannot be.
pub(super) fn user(
    what: &'static str,
    input: Input,
    reason: &'static str,
    says: &'static [&'static str],
) -> Reported {
    Reported { what, input, condition: "UsersApplied", reason, says, touches: Touches::Nothing }
}

/// Directives that are not used.
pub(super) fn directive(
    what: &'static str,
    config: Value,
    reason: &'static str,
    says: &'static [&'static str],
) -> Reported {
    let spec: serde_json::Map<_, _> = std::iter::once(("config".to_owned(), config)).collect();
    let input = Input::Spec(spec.into());
    Reported { what, input, condition: "ConfigurationWarning", reason, says, touches: Touches::Nothing }
}

/// A spec that cannot be built.
pub(super) fn unbuildable(
    what: &'static str,
    change: Value,
    reason: &'static str,
    says: &'static [&'static str],
) -> Reported {
    Reported { what, input: Input::Spec(change), condition: "Ready", reason, says, touches: Touches::Nothing }
}

/// A change that no node can take, so that nothing is restarted.
pub(super) fn held_back(
    what: &'static str,
    change: Value,
    reason: &'static str,
    says: &'static [&'static str],
) -> Reported {
    Reported {
        what,
        input: Input::Spec(change),
        condition: "RollBlocked",
        reason,
        says,
        touches: Touches::Nothing,
    }
}

/// A change that ends with the first replica.
pub(super) fn stopped(what: &'static str, change: Value, says: &'static [&'static str]) -> Reported {
    Reported {
        what,
        input: Input::Spec(change),
        condition: "RollBlocked",
        reason: "PodNotBack",
        says,
        touches: Touches::Replica,
    }
}
