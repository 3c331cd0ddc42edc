//! Fields that are given and say nothing.

use serde::{Deserialize as _, Deserializer};

/// An empty text counts as absent: templates write `image: ""` for what nobody chose.
pub(crate) fn if_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::ValkeyClusterSpec;

    #[test]
    fn an_empty_text_is_read_as_none() {
        let read = |spec| serde_json::from_value::<ValkeyClusterSpec>(spec).expect("should be readable");
        let empty = read(json!({
            "shards": 1, "image": "", "exporter": {"image": ""}, "scheduling": {"priorityClassName": ""},
            "users": [{"name": "a", "passwordSecret": {"name": ""}}],
        }));
        let absent = read(json!({
            "shards": 1, "exporter": {}, "scheduling": {}, "users": [{"name": "a", "passwordSecret": {}}],
        }));
        assert_eq!(empty, absent);
        assert_eq!(read(json!({"shards": 1, "image": "x"})).image.as_deref(), Some("x"));
    }
}
