//! How long a certificate is valid.

use std::borrow::Cow;
use std::fmt;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const PATTERN: &str = "^[1-9][0-9]{0,4}(s|m|h|d|mo|y)$";

/// A number and a unit: `30s`, `30m`, `6h`, `90d`, `3mo` (of 30 days), `1y` (of 365 days).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Validity(String);

impl Validity {
    /// So many days.
    pub fn days(days: u32) -> Self {
        Self(format!("{days}d"))
    }

    /// So many minutes.
    pub fn minutes(minutes: u32) -> Self {
        Self(format!("{minutes}m"))
    }

    /// So many hours.
    pub fn hours(hours: u32) -> Self {
        Self(format!("{hours}h"))
    }

    /// As a length of time; `None` for text that says none, which the API server does not let in.
    pub fn duration(&self) -> Option<SignedDuration> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = self.0.split_at(digits);
        let hours_of_a_day = 24;
        let hours = match unit {
            "s" => return Some(SignedDuration::from_secs(number.parse().ok()?)),
            "m" => return Some(SignedDuration::from_mins(number.parse().ok()?)),
            "h" => 1,
            "d" => hours_of_a_day,
            "mo" => 30 * hours_of_a_day,
            "y" => 365 * hours_of_a_day,
            _ => return None,
        };
        let number: i64 = number.parse().ok()?;
        Some(SignedDuration::from_hours(number.checked_mul(hours)?))
    }
}

impl Default for Validity {
    fn default() -> Self {
        Self::days(90)
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The schema of a length of life: one of seconds would be over before it has arrived.
pub(super) fn life(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^[1-9][0-9]{0,4}(m|h|d|mo|y)$", "maxLength": 8})
}

impl JsonSchema for Validity {
    fn schema_name() -> Cow<'static, str> {
        "Validity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN, "maxLength": 8})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_nonsense_is_not() {
        let read = |text: &str| Validity(text.to_owned()).duration().map(|read| read.as_secs());
        assert_eq!(read("30s"), Some(30));
        assert_eq!(read("30m"), Some(1_800));
        assert_eq!(read("6h"), Some(21_600));
        assert_eq!(read("90d"), Some(7_776_000));
        assert_eq!(read("3mo"), Some(7_776_000));
        assert_eq!(read("1y"), Some(31_536_000));
        for nonsense in ["", "d", "1", "1w", "-1d", "1.5d", "99999999999999999999y"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
