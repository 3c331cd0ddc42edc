//! No secret stands where everybody can read it.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use super::Violation;
use crate::World;

/// Kinds whose objects anybody may read who may read the namespace; Secrets are none of them.
const READABLE: &str = "pods,services,configmaps,statefulsets,deployments,events,poddisruptionbudgets,\
                        persistentvolumeclaims,valkeynodes";

/// Text from somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Where it is from.
    pub place: String,
    /// What it says.
    pub content: String,
}

/// Logs of all containers and all objects but Secrets, of the namespace and of the operator. `kinds` adds kinds to
/// those that are always looked at, separated by commas.
pub async fn readable_texts(world: &World, kinds: &str) -> Vec<Text> {
    let mut texts = Vec::new();
    for namespace in [world.namespace.as_str(), crate::operator::NAMESPACE] {
        let kinds = [READABLE, kinds].join(",");
        let kinds = kinds.trim_end_matches(',');
        let content = world.kubectl(&["-n", namespace, "get", kinds, "-o", "yaml"]).await;
        texts.push(Text { place: format!("objects of {namespace}"), content });
        let pods = Api::<Pod>::namespaced(world.client.clone(), namespace);
        for pod in pods.list(&ListParams::default()).await.expect("should list pods") {
            let name = pod.name_any();
            let logs = ["-n", namespace, "logs", &name, "--all-containers", "--prefix"];
            // A pod that has just come or is about to go has no logs, and tells nobody anything.
            let (_, content) = world.try_kubectl(&logs).await;
            texts.push(Text { place: format!("logs of {namespace}/{name}"), content });
        }
    }
    texts
}

/// Where a secret stands, in plain text or encoded as Kubernetes does. Secrets are given by what they are called and
/// what they are.
pub fn leaks(secrets: &[(&str, &str)], texts: &[Text]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, secret) in secrets {
        assert!(secret.len() >= 8, "{name} is too short to be looked for: anything might contain it");
        for (needle, form) in [((*secret).to_owned(), "in plain text"), (encoded(secret), "encoded")] {
            let places = texts.iter().filter(|text| text.content.contains(&needle));
            violations.extend(places.map(|text| Violation::Leaked {
                place: text.place.clone(),
                secret: (*name).to_owned(),
                form,
            }));
        }
    }
    violations
}

/// Base64 without the end, which depends on what follows.
fn encoded(secret: &str) -> String {
    let whole = &secret.as_bytes()[..secret.len() / 3 * 3];
    let quoted = serde_json::to_string(&ByteString(whole.to_vec())).expect("bytes should have a form");
    quoted.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_plain_text_and_encoded_and_not_repeated() {
        let text = |place: &str, content: &str| Text { place: place.to_owned(), content: content.to_owned() };
        let texts = [
            text("logs", "AUTH hush-hush failed"),
            text("events", "nothing"),
            text("objects", "data: aHVzaC1odXNo"),
        ];
        let found = leaks(&[("the password", "hush-hush"), ("another", "not-there")], &texts);
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "logs holds the secret the password, in plain text",
                "objects holds the secret the password, encoded"
            ]
        );
        assert!(!format!("{found:?}").contains("hush-hush"));
    }

    #[test]
    #[should_panic(expected = "too short")]
    fn a_secret_that_could_be_anything_is_refused() {
        leaks(&[("short", "abc")], &[]);
    }
}
