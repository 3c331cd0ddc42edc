//! Schemas that a derive cannot give: a pod spec in which nothing is required, and CRDs without the bulk of
//! Kubernetes' own field descriptions.

use k8s_openapi::api::core::v1::PodSpec;
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
                "rule": "!self.contains('\\n') && !self.contains('\\r')",
                "message": "a value of config must be one line: write a directive with several arguments as one string",
            }],
        },
    })
}

/// Fields of our kinds whose types are Kubernetes' own: named, not explained, here and in the reference.
pub const KUBERNETES_FIELDS: [&str; 6] =
    ["affinity", "tolerations", "topologySpreadConstraints", "resources", "imagePullSecrets", "conditions"];

/// Remove the descriptions of fields that are Kubernetes' own (a pod spec alone has 300 kB of them): a CRD must fit
/// into one request, and users know these fields from the pods they write.
pub(crate) fn compact(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) else {
            continue;
        };
        for part in ["spec", "status"] {
            let fields = root.properties.as_mut().and_then(|fields| fields.get_mut(part));
            let Some(fields) = fields.and_then(|part| part.properties.as_mut()) else { continue };
            for name in KUBERNETES_FIELDS {
                if let Some(field) = fields.get_mut(name) {
                    silence_children(field);
                }
            }
            // Of the template only the pod's spec is Kubernetes' own.
            let template = fields.get_mut("podTemplate").and_then(|template| template.properties.as_mut());
            if let Some(spec) = template.and_then(|fields| fields.get_mut("spec")) {
                silence_children(spec);
            }
        }
    }
    crd
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
