//! Rows for `ValkeyCA`, `ValkeyCertificateBundle` and `ValkeyCertificateBinding`.

use serde_json::{Value, json};

use super::{Case, Rows};

pub(super) fn cases() -> Vec<Case> {
    [authorities(), bundles(), bundle_updates(), bindings(), hosts_and_addresses(), binding_updates()]
        .concat()
}

fn authorities() -> Vec<Case> {
    let rows = Rows { kind: "ValkeyCA", smallest: json!({}) };
    let issuer = json!({"issuerRef": {"name": "company"}});
    let external = |name: &str| json!({"source": "External", "caCertSecretRef": {"name": name}});
    vec![
        rows.create("nothing but a name", &json!({}), None),
        rows.create(
            "a root that the operator makes",
            &json!({"source": "Internal", "validForDays": 30}),
            None,
        ),
        rows.create("a root that somebody gives", &external("vault"), None),
        rows.create("an unknown source", &json!({"source": "Vault"}), Some("source")),
        rows.create(
            "a given root without a Secret",
            &json!({"source": "External"}),
            Some("source External needs caCertSecretRef (a Secret"),
        ),
        rows.create("a Secret without a name", &external(""), Some("caCertSecretRef.name")),
        rows.create("a Secret in capitals", &external("Vault"), Some("caCertSecretRef.name")),
        rows.create("a root of cert-manager's", &json!({"source": "External", "certManager": issuer}), None),
        rows.create(
            "a root of the operator's and of cert-manager's",
            &json!({"certManager": issuer}),
            Some("certManager needs source External"),
        ),
        rows.create(
            "cert-manager without an issuer",
            &json!({"source": "External", "certManager": {}}),
            Some("certManager.issuerRef"),
        ),
        rows.create("no days", &json!({"validForDays": 0}), Some("validForDays")),
        rows.create("two centuries", &json!({"validForDays": 73000}), Some("validForDays")),
        rows.create(
            "replaced after its end",
            &json!({"rotateBeforePercent": 100}),
            Some("rotateBeforePercent"),
        ),
        rows.create("replaced at once", &json!({"rotateBeforePercent": 0}), Some("rotateBeforePercent")),
        rows.create("an overlap of a day", &json!({"overlap": "1d"}), None),
        rows.create("an overlap in weeks", &json!({"overlap": "1w"}), Some("overlap")),
        rows.create("a negative overlap", &json!({"overlap": "-1h"}), Some("overlap")),
        rows.named("longest name", "c".repeat(63), None),
        rows.named("name too long", "c".repeat(64), Some("63 characters at most: it stands in certificates")),
        rows.update("another Secret", &external("one"), &external("two"), None),
        rows.update(
            "another Secret of the operator's own",
            &json!({"caCertSecretRef": {"name": "case-one"}}),
            &json!({"caCertSecretRef": {"name": "case-two"}}),
            Some("caCertSecretRef of a root that the operator makes cannot be changed"),
        ),
        rows.update(
            "from a given root to one of the operator's own, in another Secret",
            &external("one"),
            &json!({"source": "Internal"}),
            None,
        ),
        rows.update(
            "from a given root to one of the operator's own, in the same Secret",
            &external("one"),
            &json!({"source": "Internal", "caCertSecretRef": {"name": "one"}}),
            Some("a change of source needs another Secret"),
        ),
        rows.update(
            "from a given root to one of the operator's own, in the Secret of its name",
            &external("case"),
            &json!({"source": "Internal"}),
            Some("a change of source needs another Secret"),
        ),
        rows.update(
            "from a given root to one of the operator's own, elsewhere",
            &external("one"),
            &json!({"source": "Internal", "caCertSecretRef": {"name": "two"}}),
            None,
        ),
    ]
}

fn bundle_rows() -> Rows {
    // A root that does not exist: nothing is made while the API server is asked.
    let smallest = json!({"clusterRef": {"name": "cache"}, "caRef": {"name": "none"}});
    Rows { kind: "ValkeyCertificateBundle", smallest }
}

fn bundles() -> Vec<Case> {
    let rows = bundle_rows();
    let secrets =
        |cert: &str, key: &str| json!({"certSecretRef": {"name": cert}, "keySecretRef": {"name": key}});
    let policy = |policy: Value| json!({"rotationPolicy": policy});
    vec![
        rows.create("smallest", &json!({}), None),
        rows.create("for servers", &json!({"purpose": "tls"}), None),
        rows.create("for nothing known", &json!({"purpose": "smtp"}), Some("purpose")),
        rows.create("of no cluster", &json!({"clusterRef": null}), Some("clusterRef")),
        rows.create(
            "of a cluster without a name",
            &json!({"clusterRef": {"name": ""}}),
            Some("clusterRef.name"),
        ),
        rows.create("Secrets of its own", &secrets("one", "two"), None),
        rows.create("one Secret for both", &secrets("one", "one"), Some("cannot be the same Secret")),
        rows.create(
            "the key in the Secret for everybody",
            &json!({"certSecretRef": {"name": "internal-case-ca-key"}}),
            Some("cannot be the same Secret"),
        ),
        rows.create(
            "everybody's Secret for the key",
            &json!({"keySecretRef": {"name": "internal-case-ca"}}),
            Some("cannot be the same Secret"),
        ),
        rows.create(
            "a cluster's name that cannot be one",
            &json!({"clusterRef": {"name": "c".repeat(39)}}),
            Some("clusterRef.name"),
        ),
        rows.create(
            "too old when it is made",
            &json!({"validForDays": 30, "rotationPolicy": {"renewBeforeDays": 30}}),
            Some("renewBeforeDays must be less than validForDays"),
        ),
        rows.create("no days", &json!({"validForDays": 0}), Some("validForDays")),
        rows.create("longer than ten years", &json!({"validForDays": 3651}), Some("validForDays")),
        rows.create("never by itself", &policy(json!({"autoRotate": false})), None),
        rows.create("a month before its end", &policy(json!({"renewBeforeDays": 30})), None),
        rows.create("on its last day", &policy(json!({"renewBeforeDays": 0})), Some("renewBeforeDays")),
        rows.create(
            "after its end",
            &policy(json!({"rotateBeforePercent": 101})),
            Some("rotateBeforePercent"),
        ),
        rows.named("longest name", "b".repeat(63), None),
        rows.named("name too long", "b".repeat(64), Some("ValkeyCertificateBundle can have 63 characters")),
    ]
}

fn bundle_updates() -> Vec<Case> {
    let rows = bundle_rows();
    let certificates = json!({"certSecretRef": {"name": "one"}});
    vec![
        rows.update("another length of life", &json!({}), &json!({"validForDays": 7}), None),
        rows.update(
            "another cluster",
            &json!({}),
            &json!({"clusterRef": {"name": "other"}}),
            Some("clusterRef and purpose cannot be changed"),
        ),
        rows.update(
            "another purpose",
            &json!({}),
            &json!({"purpose": "tls"}),
            Some("clusterRef and purpose cannot be changed"),
        ),
        rows.update("the purpose spelled out", &json!({}), &json!({"purpose": "mtls"}), None),
        rows.update(
            "Secrets that move",
            &json!({}),
            &certificates,
            Some("certSecretRef and keySecretRef cannot be changed"),
        ),
        rows.update(
            "a Secret that moves",
            &certificates,
            &json!({"certSecretRef": {"name": "two"}}),
            Some("certSecretRef and keySecretRef cannot be changed"),
        ),
        rows.update("Secrets that stay", &certificates, &certificates, None),
    ]
}

fn certificate(more: &Value) -> Value {
    let mut certificate =
        json!({"component": "sidecar", "bundleRef": {"name": "none"}, "secretName": "cache-sidecar"});
    if let (Some(certificate), Some(more)) = (certificate.as_object_mut(), more.as_object()) {
        certificate.extend(more.clone());
    }
    certificate
}

fn binding_rows() -> Rows {
    let smallest = json!({"clusterRef": {"name": "cache"}, "certificates": [certificate(&json!({}))]});
    Rows { kind: "ValkeyCertificateBinding", smallest }
}

fn of(certificates: &[Value]) -> Value {
    json!({"certificates": certificates})
}

fn bindings() -> Vec<Case> {
    let rows = binding_rows();
    let one = |more: Value| of(&[certificate(&more)]);
    let second = |secret: &str| certificate(&json!({"component": "exporter", "secretName": secret}));
    vec![
        rows.create("smallest", &json!({}), None),
        rows.create("no certificate", &of(&[]), Some("certificates")),
        rows.create("of no cluster", &json!({"clusterRef": null}), Some("clusterRef")),
        rows.create("two certificates", &of(&[certificate(&json!({})), second("other")]), None),
        rows.create(
            "two certificates in one Secret",
            &of(&[certificate(&json!({})), second("cache-sidecar")]),
            Some("each certificate needs a Secret of its own"),
        ),
        rows.create(
            "two of a component",
            &of(&[certificate(&json!({})), certificate(&json!({"secretName": "other"}))]),
            Some("certificates"),
        ),
        rows.create("an unknown component", &one(json!({"component": "browser"})), Some("component")),
        rows.create("for a pod", &one(json!({"pod": "valkey-cache-0-0-0"})), None),
        rows.create("for a pod with a slash", &one(json!({"pod": "a/b"})), Some("pod")),
        rows.create("six hours", &one(json!({"validity": "6h"})), None),
        rows.create("half a minute", &one(json!({"validity": "30s"})), Some("validity")),
        rows.create("for ever", &one(json!({"validity": "ever"})), Some("validity")),
        rows.create("no time", &one(json!({"validity": "0d"})), Some("validity")),
        rows.create(
            "replaced after its end",
            &json!({"rotateBeforePercent": 100}),
            Some("rotateBeforePercent"),
        ),
        rows.create("no grace that is a time", &json!({"grace": "soon"}), Some("grace")),
        rows.named("longest name", "b".repeat(63), None),
        rows.named("name too long", "b".repeat(64), Some("ValkeyCertificateBinding can have 63 characters")),
    ]
}

fn hosts_and_addresses() -> Vec<Case> {
    let rows = binding_rows();
    let one = |more: Value| of(&[certificate(&more)]);
    vec![
        rows.create("hosts", &one(json!({"hosts": ["*.valkey-cache.team.svc", "localhost"]})), None),
        rows.create("a host twice", &one(json!({"hosts": ["a", "a"]})), Some("hosts")),
        rows.create("a host with a space", &one(json!({"hosts": ["a b"]})), Some("hosts")),
        rows.create("a star in the middle", &one(json!({"hosts": ["a.*.b"]})), Some("hosts")),
        rows.create("addresses", &one(json!({"addresses": ["10.0.0.1", "fd00::1"]})), None),
        rows.create(
            "a name as an address",
            &one(json!({"addresses": ["localhost"]})),
            Some("an address must be an IP address"),
        ),
    ]
}

fn binding_updates() -> Vec<Case> {
    let rows = binding_rows();
    vec![
        rows.update(
            "another cluster",
            &json!({}),
            &json!({"clusterRef": {"name": "other"}}),
            Some("clusterRef cannot be changed"),
        ),
        rows.update(
            "another Secret",
            &json!({}),
            &of(&[certificate(&json!({"secretName": "other"}))]),
            Some("secretName cannot be changed"),
        ),
        rows.update(
            "one component more",
            &json!({}),
            &of(&[
                certificate(&json!({})),
                certificate(&json!({"component": "exporter", "secretName": "other"})),
            ]),
            None,
        ),
    ]
}
