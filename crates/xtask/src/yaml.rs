//! YAML in one style: two spaces, strings quoted only where they must be.

use serde_json::Value;

/// Print a value as a YAML document.
pub(crate) fn print(value: &Value) -> String {
    let mut out = String::new();
    node(value, 0, &mut out, false);
    out
}

fn node(value: &Value, depth: usize, out: &mut String, in_list: bool) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, field)) in fields.iter().enumerate() {
                if !(in_list && index == 0) {
                    indent(depth, out);
                }
                out.push_str(&scalar(key));
                out.push(':');
                child(field, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(depth, out);
                out.push_str("- ");
                match item {
                    Value::Object(fields) if !fields.is_empty() => node(item, depth + 1, out, true),
                    other => {
                        inline(other, out);
                        out.push('\n');
                    }
                }
            }
        }
        other => {
            inline(other, out);
            out.push('\n');
        }
    }
}

fn child(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            node(value, depth + 1, out, false);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            node(value, depth, out, false);
        }
        other => {
            out.push(' ');
            inline(other, out);
            out.push('\n');
        }
    }
}

fn inline(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(&scalar(text)),
        other => out.push_str(&other.to_string()),
    }
}

fn indent(depth: usize, out: &mut String) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// A plain word where YAML reads it back as the same string, JSON quotes (which YAML understands) otherwise.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '.' || c == '$')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./$ ,()'".contains(c))
        && !text.ends_with(' ')
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
        );
    if plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_reads_back_as_the_same_value() {
        let value = json!({
            "a": {"empty": {}, "none": [], "list": [{"x": 1, "y": ["p", "q"]}, "z: 1", "no", "", "# c", "1"]},
            "text": "two\nlines", "n": null, "b": false, "- k": "{", "colon: key": 1.5,
        });
        let read: Value = serde_saphyr::from_str(&print(&value)).expect("should be YAML");
        assert_eq!(read, value);
    }
}
