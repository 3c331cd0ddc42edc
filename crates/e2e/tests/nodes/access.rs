//! Servers that want to know who asks: passwords and TLS.

use e2e::{World, world};
use k8s_openapi::api::core::v1::Secret;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;

#[tokio::test]
async fn a_password_protected_server_is_reached() {
    world::run("password", async |world| {
        world.create::<Secret>(json!({"metadata": {"name": "login"}, "stringData": {"right": "opensesame-42", "wrong": "guess"}})).await;
        let spec = json!({
            "config": {"requirepass": "opensesame-42"},
            "access": {"passwordSecretRef": {"name": "login", "key": "right"}},
        });
        world.ready_node("guarded", spec).await;

        world.change("guarded", json!({"access": {"passwordSecretRef": {"key": "wrong"}}})).await;
        let message = world.wait_condition("guarded", "Ready", "False", "AuthenticationFailed").await;
        assert!(!message.contains("guess"), "no secret in a condition: {message}");
        assert_eq!(world.status("guarded").await.observed_role, None, "no role while it is not ready");
        world.change("guarded", json!({"access": {"passwordSecretRef": {"key": "none"}}})).await;
        let message = world.wait_condition("guarded", "Ready", "False", "AccessUnavailable").await;
        assert!(message.contains("login") && message.contains("none"), "{message}");
        world.change("guarded", json!({"access": {"passwordSecretRef": {"key": "right"}}})).await;
        world.wait_ready("guarded").await;
        let node = serde_json::to_string(&world.status("guarded").await).expect("should be JSON");
        let events = world.events_about("guarded").await.join("\n");
        for text in [node, events] {
            assert!(!text.contains("opensesame-42") && !text.contains("guess"), "{text}");
        }
    })
    .await;
}

/// A CA and a server certificate for `name`, as PEM: CA, certificate, key.
fn certificates(name: &str) -> (String, String, String) {
    let ca_key = KeyPair::generate().expect("should make a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("should be fine");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "test authority");
    let ca_certificate = ca.self_signed(&ca_key).expect("should sign");
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("should make a key");
    let mut leaf = CertificateParams::new(vec![name.to_owned()]).expect("should be fine");
    leaf.distinguished_name.push(DnType::CommonName, name);
    let certificate = leaf.signed_by(&key, &issuer).expect("should sign");
    (ca_certificate.pem(), certificate.pem(), key.serialize_pem())
}

async fn tls_secret(world: &World, name: &str, server: &str) {
    let (ca, certificate, key) = certificates(server);
    let data = json!({"ca.crt": ca, "tls.crt": certificate, "tls.key": key});
    world
        .create::<Secret>(
            json!({"metadata": {"name": name}, "type": "kubernetes.io/tls", "stringData": data}),
        )
        .await;
}

#[tokio::test]
async fn a_tls_server_is_reached() {
    world::run("tls", async |world| {
        tls_secret(world, "server", "valkey.test").await;
        tls_secret(world, "stranger", "valkey.test").await;
        let spec = json!({
            "config": {
                "port": "0", "tls-port": "6379", "tls-cert-file": "/tls/tls.crt", "tls-key-file": "/tls/tls.key",
                "tls-ca-cert-file": "/tls/ca.crt", "tls-auth-clients": "no",
            },
            "podTemplate": {"spec": {
                "containers": [{"name": "valkey", "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": true}]}],
                "volumes": [{"name": "tls", "secret": {"secretName": "server", "defaultMode": 288}}],
            }},
            "access": {"tls": {"ca": {"name": "server", "key": "ca.crt"}, "serverName": "valkey.test"}},
        });
        world.ready_node("secure", spec).await;
        world.change("secure", json!({"access": {"tls": {"ca": {"name": "stranger"}}}})).await;
        world.wait_condition("secure", "Ready", "False", "TlsFailed").await;
        world.change("secure", json!({"access": {"tls": {"ca": {"name": "server"}, "serverName": "other.test"}}})).await;
        world.wait_condition("secure", "Ready", "False", "TlsFailed").await;
        world.change("secure", json!({"access": {"tls": {"serverName": "valkey.test"}}})).await;
        world.wait_ready("secure").await;
    })
    .await;
}
