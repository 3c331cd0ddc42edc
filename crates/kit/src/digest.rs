//! Short hashes of JSON values that do not depend on the order of keys: what decides "changed or not" must be the same
//! in every build of the operator.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Ten hexadecimal digits (40 bits) of the SHA-256 of a value's canonical form: enough to tell revisions of one object
/// apart, short enough for a label.
pub fn of_value(value: &Value) -> String {
    let mut canonical = String::new();
    write_canonical(value, &mut canonical);
    of_text(&canonical)
}

/// The same for plain text.
pub fn of_text(text: &str) -> String {
    use std::fmt::Write as _;
    let mut short = String::with_capacity(10);
    for byte in &Sha256::digest(text.as_bytes())[..5] {
        // Writing to a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(&fields[key], out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_but_the_order_of_items_does() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#).expect("should parse");
        let two: Value = serde_json::from_str(r#"{"b":{"d":null,"c":[1,2]},"a":1}"#).expect("should parse");
        assert_eq!(of_value(&one), of_value(&two));
        assert_ne!(of_value(&json!([1, 2])), of_value(&json!([2, 1])));
    }

    #[test]
    fn a_digest_is_pinned_so_that_an_upgrade_does_not_change_it() {
        assert_eq!(of_value(&json!({"image": "valkey/valkey:9.1", "replicas": 1})), "ed1ebdfa6b");
        assert_eq!(of_text(""), "e3b0c44298");
    }
}
