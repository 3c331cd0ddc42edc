//! Roots, authorities and certificates as resources.

use std::collections::BTreeMap;
use std::time::Duration;

use api::certificates::{
    BindingPhase, BundlePhase, CaPhase, ValkeyCAStatus, ValkeyCertificateBindingStatus,
    ValkeyCertificateBundleStatus,
};
use api::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle};
use e2e::operator::NAMESPACE;
use e2e::{World, wait, world};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pki::{Authority, Certificate, Expected, Purpose, judge};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(40);

async fn bundle(world: &World, name: &str, root: &str) {
    let policy = json!({"settle": "1s"});
    let spec = json!({"clusterRef": {"name": "cache"}, "caRef": {"name": root}, "rotationPolicy": policy});
    world.create::<ValkeyCertificateBundle>(json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn binding(world: &World, name: &str, bundle: &str, components: &[&str]) {
    let certificates: Vec<Value> = components
        .iter()
        .map(|component| {
            json!({
                "component": component, "bundleRef": {"name": bundle},
                "secretName": format!("{name}-{component}").to_lowercase(),
                "pod": "valkey-cache-0-0-0", "hosts": ["valkey-cache-0-0.team.svc"], "addresses": ["10.0.0.7"],
            })
        })
        .collect();
    let spec = json!({"clusterRef": {"name": "cache"}, "certificates": certificates});
    world.create::<ValkeyCertificateBinding>(json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn bundle_status(world: &World, name: &str) -> ValkeyCertificateBundleStatus {
    world.get::<ValkeyCertificateBundle>(name).await.status.unwrap_or_default()
}

async fn binding_status(world: &World, name: &str) -> ValkeyCertificateBindingStatus {
    world.get::<ValkeyCertificateBinding>(name).await.status.unwrap_or_default()
}

async fn wait_bundle(world: &World, name: &str, phase: BundlePhase) -> ValkeyCertificateBundleStatus {
    wait::until(&format!("bundle {name} is {phase:?}"), PATIENCE, async || {
        let status = bundle_status(world, name).await;
        if status.phase == Some(phase) { Ok(status) } else { Err((status.phase, status.message)) }
    })
    .await
}

async fn wait_binding(world: &World, name: &str, phase: BindingPhase) -> ValkeyCertificateBindingStatus {
    wait::until(&format!("binding {name} is {phase:?}"), PATIENCE, async || {
        let status = binding_status(world, name).await;
        if status.phase == Some(phase) { Ok(status) } else { Err((status.phase, status.message)) }
    })
    .await
}

async fn secret(world: &World, name: &str) -> BTreeMap<String, String> {
    let secret = world.get::<Secret>(name).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("should be text");
    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, text(value.0))).collect()
}

/// The certificate in a Secret, as somebody sees it who trusts `trusted`.
fn believed(parts: &BTreeMap<String, String>, trusted: &str, purposes: &[Purpose]) -> Certificate {
    let expected =
        Expected { purposes: purposes.to_vec(), hosts: vec!["valkey-cache-0-0.team.svc".to_owned()] };
    let key = SecretString::from(parts["tls.key"].clone());
    let judged = judge(&parts["tls.crt"], &key, trusted, &expected, Timestamp::now());
    judged.unwrap_or_else(|flaws| panic!("{flaws:?}"))
}

#[tokio::test]
async fn certificates_come_from_the_root_and_say_until_when() {
    world::run("certificates", async |world| {
        bundle(world, "cache-mtls", "valkey-root-ca").await;
        binding(world, "cache-0-0", "cache-mtls", &["sidecar", "exporter"]).await;
        let status = wait_binding(world, "cache-0-0", BindingPhase::Applied).await;
        assert_eq!(status.active.len(), 2);

        let sidecar = secret(world, "cache-0-0-sidecar").await;
        let certificate = believed(&sidecar, &sidecar["ca.crt"], &[Purpose::Server, Purpose::Client]);
        let identity = format!(
            "spiffe://valkey.local/ns/{}/valkeycluster/cache/sidecar/valkey-cache-0-0-0",
            world.namespace
        );
        assert_eq!(certificate.uris, [identity]);
        assert_eq!(status.active[0].thumbprint, certificate.thumbprint);
        assert_eq!(status.active[0].expires_at.0, certificate.ends);
        let exporter = secret(world, "cache-0-0-exporter").await;
        assert!(believed(&exporter, &exporter["ca.crt"], &[Purpose::Client]).uris.is_empty());
        // Whoever trusts the root believes it, too.
        let public = secret(world, "internal-cache-mtls-ca").await;
        believed(&sidecar, &public["ca.crt"], &[Purpose::Server]);
        assert_eq!(public["ca_bundle.pem"], sidecar["ca.crt"]);
        assert!(!public.values().any(|value| value.contains("PRIVATE KEY")), "it is for everybody");

        let shown =
            world.kubectl(&["get", "valkeyca,valkeycertificatebundle,valkeycertificatebinding"]).await;
        for words in ["valkey-root-ca", "Issued", "mtls", "Applied", &certificate.ends.to_string()] {
            assert!(shown.contains(words), "{words}: {shown}");
        }

        // What others take away or change comes back.
        world.delete::<Secret>("internal-cache-mtls-ca").await;
        world.patch::<Secret>("cache-0-0-exporter", json!({"data": {"ca.crt": null}})).await;
        world.delete::<Secret>("cache-0-0-sidecar").await;
        wait::until("the Secrets are as before", PATIENCE, async || {
            let (public, exporter) = (
                world.find::<Secret>("internal-cache-mtls-ca").await,
                secret(world, "cache-0-0-exporter").await,
            );
            let sidecar = world.find::<Secret>("cache-0-0-sidecar").await;
            let whole = public.is_some() && sidecar.is_some() && exporter.contains_key("ca.crt");
            if whole { Ok(()) } else { Err("not yet") }
        })
        .await;
        let again = secret(world, "cache-0-0-sidecar").await;
        believed(&again, &sidecar["ca.crt"], &[Purpose::Server]);

        // A Secret of somebody else's is never written over.
        let theirs = json!({"metadata": {"name": "cache-0-1-sidecar"}, "stringData": {"tls.crt": "theirs"}});
        world.create::<Secret>(theirs).await;
        binding(world, "cache-0-1", "cache-mtls", &["sidecar"]).await;
        let told = wait_binding(world, "cache-0-1", BindingPhase::Error).await.message.unwrap_or_default();
        assert_eq!(told, "Secret cache-0-1-sidecar belongs to somebody else");
        assert_eq!(secret(world, "cache-0-1-sidecar").await["tls.crt"], "theirs");
        world.delete::<Secret>("cache-0-1-sidecar").await;
        wait_binding(world, "cache-0-1", BindingPhase::Applied).await;
        world.wait_event("cache-0-1", "NameCollision: Secret cache-0-1-sidecar").await;
    })
    .await;
}

#[tokio::test]
async fn an_authority_is_replaced_step_by_step_and_everybody_is_believed_meanwhile() {
    world::run("certificates-order", async |world| {
        bundle(world, "cache-mtls", "valkey-root-ca").await;
        for name in ["cache-0-0", "cache-0-1"] {
            binding(world, name, "cache-mtls", &["sidecar"]).await;
        }
        for name in ["cache-0-0", "cache-0-1"] {
            wait_binding(world, name, BindingPhase::Applied).await;
        }
        let before = wait_bundle(world, "cache-mtls", BundlePhase::Issued).await;
        let order = json!({"metadata": {"annotations": {"valkey.io/rotate": "today"}}});
        world.patch::<ValkeyCertificateBundle>("cache-mtls", order.clone()).await;
        let after = wait::until("the authority is replaced", PATIENCE, async || {
            let (one, two) =
                (secret(world, "cache-0-0-sidecar").await, secret(world, "cache-0-1-sidecar").await);
            believed(&one, &two["ca.crt"], &[Purpose::Client]);
            believed(&two, &one["ca.crt"], &[Purpose::Client]);
            let status = bundle_status(world, "cache-mtls").await;
            let done = status.rotated_for.as_deref() == Some("today")
                && status.phase == Some(BundlePhase::Issued)
                && status.thumbprint != before.thumbprint;
            if done { Ok(status) } else { Err((status.phase, status.message)) }
        })
        .await;
        // Trust, use, forget.
        assert_eq!(after.published, before.published.map(|number| number + 3));
        assert_eq!(after.trusted, after.thumbprint.clone().into_iter().collect::<Vec<_>>());
        let status = binding_status(world, "cache-0-0").await;
        assert_eq!((status.phase, status.deprecated.len()), (Some(BindingPhase::Rotating), 1));

        // A single certificate, too.
        let thumbprint = status.active[0].thumbprint.clone();
        world.patch::<ValkeyCertificateBinding>("cache-0-0", order).await;
        wait::until("the certificate is replaced", PATIENCE, async || {
            let status = binding_status(world, "cache-0-0").await;
            let done =
                status.rotated_for.as_deref() == Some("today") && status.active[0].thumbprint != thumbprint;
            if done { Ok(()) } else { Err(status.message) }
        })
        .await;
    })
    .await;
}

/// A root for one test: it belongs to no namespace.
async fn root(world: &World, spec: Value) -> Api<ValkeyCA> {
    let roots = Api::<ValkeyCA>::all(world.client.clone());
    let body = json!({
        "apiVersion": "valkey.io/v1alpha1", "kind": "ValkeyCA",
        "metadata": {"name": world.namespace}, "spec": spec,
    });
    let body: ValkeyCA = serde_json::from_value(body).expect("should be one");
    roots.create(&PostParams::default(), &body).await.expect("should be created");
    roots
}

async fn root_status(world: &World, roots: &Api<ValkeyCA>) -> ValkeyCAStatus {
    roots.get(&world.namespace).await.expect("should be there").status.unwrap_or_default()
}

#[tokio::test]
async fn a_root_is_known_before_it_signs_and_the_one_before_until_everything_below_follows() {
    world::run("certificates-root", async |world| {
        let name = world.namespace.clone();
        let roots = root(world, json!({"overlap": "3s", "validForDays": 30})).await;
        bundle(world, "cache-tls", &name).await;
        binding(world, "cache-0-0", "cache-tls", &["server"]).await;
        wait_binding(world, "cache-0-0", BindingPhase::Applied).await;
        let before = root_status(world, &roots).await;
        assert_eq!((before.phase, before.trusted.len()), (Some(CaPhase::Ready), 1));
        let order = Patch::Merge(json!({"metadata": {"annotations": {"valkey.io/rotate": "today"}}}));
        roots.patch(&name, &PatchParams::default(), &order).await.expect("should be patched");
        let mut seen = vec![(1, true)];
        let after = wait::until("the root is replaced", PATIENCE, async || {
            // Whoever trusts the roots believes the server at every moment.
            let server = secret(world, "cache-0-0-server").await;
            believed(&server, &secret(world, "internal-cache-tls-ca").await["ca.crt"], &[Purpose::Server]);
            let status = root_status(world, &roots).await;
            let now = (status.trusted.len(), status.thumbprint == before.thumbprint);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            let done = status.phase == Some(CaPhase::Ready) && status.rotated_for.as_deref() == Some("today");
            if done { Ok(status) } else { Err((status.phase, status.message)) }
        })
        .await;
        assert_eq!(seen, [(1, true), (2, true), (2, false), (1, false)], "known, then used, then alone");
        assert_eq!(bundle_status(world, "cache-tls").await.ca_thumbprint, after.thumbprint);

        // A root outlives the object that asked for it, as data does.
        roots.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
        let again = root(world, json!({"overlap": "3s", "validForDays": 30})).await;
        wait::until("the root is found again", PATIENCE, async || {
            let status = root_status(world, &again).await;
            if status.thumbprint == after.thumbprint { Ok(()) } else { Err(status.message) }
        })
        .await;
        again.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
        let secrets = Api::<Secret>::namespaced(world.client.clone(), NAMESPACE);
        secrets.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
    })
    .await;
}

/// As Vault or cert-manager would deliver it: somebody puts it into a Secret, and another one later.
#[tokio::test]
async fn a_given_root_is_waited_for_tried_and_followed() {
    world::run("certificates-given", async |world| {
        let name = world.namespace.clone();
        let secrets = Api::<Secret>::namespaced(world.client.clone(), NAMESPACE);
        let roots = root(world, json!({"source": "External", "caCertSecretRef": {"name": name}})).await;
        let told = async |phase: CaPhase, words: &str| -> ValkeyCAStatus {
            wait::until(&format!("the root is {phase:?}: {words}"), PATIENCE, async || {
                let status = root_status(world, &roots).await;
                let message = status.message.clone().unwrap_or_default();
                let is_so = status.phase == Some(phase) && message.contains(words);
                if is_so { Ok(status) } else { Err((status.phase, message)) }
            })
            .await
        };
        let missing = told(CaPhase::Pending, "does not exist").await.missing_keys;
        assert_eq!(missing, ["tls.crt", "tls.key"]);
        bundle(world, "cache-tls", &name).await;
        wait_bundle(world, "cache-tls", BundlePhase::WaitingForCA).await;

        let make = |called: &str| {
            let month = SignedDuration::from_hours(24 * 30);
            Authority::root(called, Timestamp::now(), month).expect("should be made")
        };
        let put = async |certificate: &str, key: &Authority| {
            let data = json!({"tls.crt": certificate, "tls.key": key.key().pem().expose_secret()});
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
            let somebody = PatchParams::apply("vault").force();
            secrets.patch(&name, &somebody, &Patch::Apply(secret)).await.expect("should be put there");
        };
        let (first, second) = (make("first"), make("second"));
        put(first.anchor(), &second).await;
        told(CaPhase::Error, "the key does not belong to the certificate").await;
        put(first.anchor(), &first).await;
        let ready = told(CaPhase::Ready, "valid until").await;
        assert_eq!(ready.thumbprint, Some(first.certificate().thumbprint.clone()));
        let signed = wait_bundle(world, "cache-tls", BundlePhase::Issued).await;
        assert_eq!(signed.ca_thumbprint, ready.thumbprint);

        // One that cannot be used changes nothing; one that can is followed.
        put("nonsense", &first).await;
        told(CaPhase::Error, "there is no certificate").await;
        assert_eq!(wait_bundle(world, "cache-tls", BundlePhase::Issued).await.thumbprint, signed.thumbprint);
        put(second.anchor(), &second).await;
        told(CaPhase::Ready, "valid until").await;
        wait::until("the bundle follows the new root", PATIENCE, async || {
            let status = bundle_status(world, "cache-tls").await;
            let follows = status.ca_thumbprint == Some(second.certificate().thumbprint.clone());
            let done = follows && status.phase == Some(BundlePhase::Issued);
            if done { Ok(()) } else { Err((status.phase, status.message)) }
        })
        .await;
        roots.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
        secrets.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
    })
    .await;
}

/// The part of cert-manager that users see: its kind. Who issues is the test.
async fn install_cert_manager(world: &World) -> Api<CustomResourceDefinition> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced",
            "names": {"plural": "certificates", "singular": "certificate", "kind": "Certificate"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": anything},
            }}}],
        },
    });
    let crds = Api::<CustomResourceDefinition>::all(world.client.clone());
    let crd = serde_json::from_value(crd).expect("should be a CRD");
    crds.create(&PostParams::default(), &crd).await.expect("should be created");
    crds
}

#[tokio::test]
async fn cert_manager_is_asked_for_a_root_where_it_is_installed() {
    world::run("certificates-manager", async |world| {
        let name = world.namespace.clone();
        let issuer = json!({"issuerRef": {"name": "company"}});
        let roots = root(world, json!({"source": "External", "certManager": issuer})).await;
        let told = async |words: &str| {
            wait::until(&format!("the root says {words:?}"), PATIENCE, async || {
                let message = root_status(world, &roots).await.message.unwrap_or_default();
                if message.contains(words) { Ok(()) } else { Err(message) }
            })
            .await;
        };
        told("cert-manager is not installed").await;
        let crds = install_cert_manager(world).await;
        told(&format!("Secret {name} does not exist")).await;
        let arguments = ["-n", NAMESPACE, "get", "certificates.cert-manager.io", &name, "-o", "json"];
        let asked: Value = serde_json::from_str(&world.kubectl(&arguments).await).expect("should be JSON");
        assert_eq!(asked["spec"]["isCA"], true);
        assert_eq!(asked["spec"]["secretName"], json!(name));
        assert_eq!(asked["spec"]["issuerRef"]["kind"], "ClusterIssuer");

        let month = SignedDuration::from_hours(24 * 30);
        let made = Authority::root("company", Timestamp::now(), month).expect("should be made");
        let data = json!({"tls.crt": made.anchor(), "tls.key": made.key().pem().expose_secret()});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let secrets = Api::<Secret>::namespaced(world.client.clone(), NAMESPACE);
        let cert_manager = PatchParams::apply("cert-manager");
        secrets.patch(&name, &cert_manager, &Patch::Apply(secret)).await.expect("should be put there");
        told("valid until").await;

        roots.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
        secrets.delete(&name, &DeleteParams::default()).await.expect("should be deleted");
        crds.delete("certificates.cert-manager.io", &DeleteParams::default())
            .await
            .expect("should be deleted");
    })
    .await;
}
