//! What the API server itself accepts and refuses, and that the shipped examples are among the former.

use api::cases::{self, Case};
use api::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, ValkeyNode};
use e2e::{World, world};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DeleteParams, PostParams};
use serde_json::Value;

/// Send the spec as a user would have written it: not through our own types.
async fn verdict(world: &World, case: &Case) -> Result<(), String> {
    let namespaced = |resource| kube::Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let api: kube::Api<kube::core::DynamicObject> = match case.kind {
        "ValkeyNode" => namespaced(ApiResource::erase::<ValkeyNode>(&())),
        "ValkeyCertificateBundle" => namespaced(ApiResource::erase::<ValkeyCertificateBundle>(&())),
        "ValkeyCertificateBinding" => namespaced(ApiResource::erase::<ValkeyCertificateBinding>(&())),
        "ValkeyCA" => kube::Api::all_with(world.client.clone(), &ApiResource::erase::<ValkeyCA>(&())),
        _ => namespaced(ApiResource::erase::<ValkeyCluster>(&())),
    };
    let parse = |value: Value| serde_json::from_value(value).expect("should be an object");
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    let result = match &case.before {
        None => api.create(&rehearsal, &parse(case.object(&case.spec))).await.map(drop),
        Some(before) => {
            let created = api.create(&PostParams::default(), &parse(case.object(before))).await;
            created.expect("the spec before the update should be fine");
            let mut next: kube::core::DynamicObject = parse(case.object(&case.spec));
            let result = loop {
                next.metadata.resource_version =
                    api.get(&case.object_name).await.expect("should be there").metadata.resource_version;
                match api.replace(&case.object_name, &rehearsal, &next).await.map(drop) {
                    // The operator wrote the status in between.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    result => break result,
                }
            };
            api.delete(&case.object_name, &DeleteParams::default()).await.expect("should be deleted");
            result
        }
    };
    result.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    })
}

#[tokio::test]
async fn specs_are_accepted_and_refused_by_the_api_server() {
    world::run("admission", async |world| {
        for case in cases::all() {
            match (case.refused, verdict(world, &case).await) {
                (None, Ok(())) => {}
                (Some(part), Err(said)) if said.contains(part) => {}
                (expected, said) => {
                    panic!("{}, {}: expected {expected:?}, got {said:?}", case.kind, case.name)
                }
            }
        }
        // A root outlives the object that asked for it.
        let left: Api<Secret> = Api::namespaced(world.client.clone(), e2e::operator::NAMESPACE);
        if left.get_opt("case-one").await.expect("should read").is_some() {
            left.delete("case-one", &DeleteParams::default()).await.expect("should be deleted");
        }
    })
    .await;
}

#[tokio::test]
async fn examples_work() {
    world::run("examples", async |world| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        for file in ["valkeynode-minimal.yaml", "valkeynode-full.yaml"] {
            let path = folder.join(file);
            world.kubectl(&["apply", "-f", path.to_str().expect("should be text")]).await;
        }
        world.wait_ready("minimal").await;
        world.wait_ready("full").await;
        assert_eq!(
            world.exec("valkey-full-0", &["valkey-cli", "config", "get", "appendonly"]).await,
            "appendonly\nyes"
        );
    })
    .await;
}
