//! Schemas that a derive cannot give: a pod spec in which nothing is required, and CRDs without the bulk of
//! Kubernetes' own field descriptions.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};

/// The schema of a pod's spec as an overlay: every field of a pod with its type, so that a typing error is refused at
/// admission, but without the list of containers being required.
pub(crate) fn pod_spec_overlay(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = PodSpec::json_schema(generator);
    schema.remove("required");
    schema
}

/// The schema of containers as overlays: every field of a container with its type; only the name, by which it is laid
/// over the operator's, is required.
pub(crate) fn container_overlays(generator: &mut SchemaGenerator) -> Schema {
    let mut container = Container::json_schema(generator);
    container.insert("required".to_owned(), serde_json::json!(["name"]));
    if let Some(name) = container.pointer_mut("/properties/name").and_then(serde_json::Value::as_object_mut) {
        name.insert("maxLength".to_owned(), serde_json::json!(63));
        name.insert("minLength".to_owned(), serde_json::json!(1));
        name.insert("pattern".to_owned(), serde_json::json!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
    }
    schemars::json_schema!({"type": "array", "maxItems": 32, "items": container})
}

/// What Kubernetes reads as an amount, as its own Go types say it, but for negative ones, which no container can have.
const QUANTITY: &str = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Requests and limits whose amounts are checked: the plain schema takes any text, and the mistake would only be found
/// when a pod is made.
pub(crate) fn resources(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = ResourceRequirements::json_schema(generator);
    for list in ["limits", "requests"] {
        let amounts = schema.pointer_mut(&format!("/properties/{list}/additionalProperties"));
        if let Some(amounts) = amounts.and_then(serde_json::Value::as_object_mut) {
            amounts.insert("pattern".to_owned(), serde_json::json!(QUANTITY));
        }
    }
    schema
}

/// In a cluster, the name of a claim is only the first part of many.
pub(crate) fn claims_of_a_cluster(persistence: &mut Schema) {
    let claim = persistence.pointer_mut("/properties/existingClaim");
    if let Some(claim) = claim.and_then(serde_json::Value::as_object_mut) {
        let words = "First part of the names of the claims to use with `mode: external`: node 0 of shard 2 uses `<existingClaim>-2-0`.";
        claim.insert("description".to_owned(), serde_json::json!(words));
    }
}

/// Directives of a cluster. Each node gets them together with the operator's own, and all of these must fit.
pub(crate) fn directives_of_a_cluster(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = directives(generator);
    schema.insert("maxProperties".to_owned(), serde_json::json!(200));
    schema
}

/// Directives by name. The bounds keep the cost of the rules on them within the API server's budget; the rule about
/// values stands at each value, because one over the whole map would not.
pub(crate) fn directives(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": {
            "type": "string",
            "maxLength": 4096,
            "x-kubernetes-validations": [{
                "rule": "!self.matches('[\\\\x00-\\\\x08\\\\x0a-\\\\x1f\\\\x7f]')",
                "message": "a value of config must be one line of text: write a directive with several arguments as one string",
            }],
        },
    })
}

/// Fields of our kinds whose types are Kubernetes' own: named, not explained, here and in the reference.
pub const KUBERNETES_FIELDS: [&str; 14] = [
    "affinity",
    "conditions",
    "containers",
    "exporter.resources",
    "exporter.securityContext",
    "imagePullSecrets",
    "podSecurityContext",
    "podTemplate.spec",
    "resources",
    "scheduling.affinity",
    "scheduling.tolerations",
    "scheduling.topologySpreadConstraints",
    "tolerations",
    "topologySpreadConstraints",
];

/// Remove the descriptions of fields that are Kubernetes' own (a pod spec alone has 300 kB of them): a CRD must fit
/// into one request, and users know these fields from the pods they write.
pub(crate) fn compact(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        for part in ["spec", "status"] {
            for path in KUBERNETES_FIELDS {
                if let Some(field) = field_at(root, &format!("{part}.{path}")) {
                    silence_children(field);
                }
            }
        }
    }
    crd
}

fn field_at<'schema>(root: &'schema mut JSONSchemaProps, path: &str) -> Option<&'schema mut JSONSchemaProps> {
    path.split('.').try_fold(root, |schema, name| schema.properties.as_mut()?.get_mut(name))
}

fn silence(schema: &mut JSONSchemaProps) {
    schema.description = None;
    silence_children(schema);
}

fn silence_children(schema: &mut JSONSchemaProps) {
    for child in schema.properties.iter_mut().flat_map(|fields| fields.values_mut()) {
        silence(child);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => silence(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(silence),
        None => {}
    }
    if let Some(
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaPropsOrBool::Schema(
            values,
        ),
    ) = &mut schema.additional_properties
    {
        silence(values);
    }
}
