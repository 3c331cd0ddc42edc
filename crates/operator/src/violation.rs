//! What is wrong with a spec, in words that name the field.

use std::fmt;

/// Something in a spec that cannot be built. Never holds a value: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    field: String,
    problem: String,
}

impl Violation {
    pub(crate) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.problem)
    }
}
