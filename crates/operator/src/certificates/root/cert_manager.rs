//! Asking cert-manager for a root: a `Certificate` in the operator's namespace, whose Secret is then like any other that somebody
//! gives. cert-manager renews it there.

use api::certificates::CertManager;
use api::condition::CertificateReason;
use api::{ValkeyCA, keys};
use kit::apply::Objects;
use kube::core::ApiResource;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use super::status::Found;
use super::{Roots, Seen, waiting};
use crate::objects::{controlled_by, holder};

impl Roots {
    /// Make sure that cert-manager knows what is wanted, if it is to make the root. The error is what there is to say instead.
    pub(super) async fn ask_cert_manager(&self, root: &ValkeyCA, secret_name: &str) -> Result<(), Seen> {
        let Some(wanted) = &root.spec.cert_manager else { return Ok(()) };
        let objects = Objects::of_resource(&self.desk.client, &self.namespace, &resource());
        let name = root.name_any();
        let body = certificate(root, wanted, secret_name);
        let asked = match objects.holder(&name).await {
            Ok(Some(meta)) if !controlled_by(&meta, root.uid().as_deref()) => {
                let message = format!(
                    "Certificate {name} in namespace {} belongs to {}",
                    self.namespace,
                    holder(&meta)
                );
                return Err(Found::Wrong { reason: CertificateReason::NameCollision, message }.into());
            }
            Ok(Some(meta))
                if meta.annotations.as_ref().and_then(|all| all.get(keys::APPLIED)).map(String::as_str)
                    == body["metadata"]["annotations"][keys::APPLIED].as_str() =>
            {
                return Ok(());
            }
            Ok(Some(_)) => {
                objects.apply(&name, keys::CERTIFICATES_FIELD_MANAGER, &body, true).await.map(drop)
            }
            Ok(None) => objects.create(&name, keys::CERTIFICATES_FIELD_MANAGER, &body).await,
            Err(error) => Err(error),
        };
        asked.map_err(|error| match error.refusal() {
            // Its CRDs are not there.
            _ if error.is_not_found() => {
                waiting(Vec::new(), "cert-manager is not installed".to_owned()).into()
            }
            Some(words) => {
                Found::Wrong { reason: CertificateReason::ApplyRefused, message: words.to_owned() }.into()
            }
            None => Seen {
                found: waiting(Vec::new(), "cert-manager cannot be asked for the root".to_owned()),
                moments: Vec::new(),
                error: Some(error),
            },
        })
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: "cert-manager.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "cert-manager.io/v1".to_owned(),
        kind: "Certificate".to_owned(),
        plural: "certificates".to_owned(),
    }
}

/// What cert-manager is asked for. It renews by its own clock, with the share of the life that the spec says.
fn certificate(root: &ValkeyCA, wanted: &CertManager, secret_name: &str) -> Value {
    let (name, spec, issuer) = (root.name_any(), &root.spec, &wanted.issuer_ref);
    let hours = 24 * u64::from(spec.valid_for_days);
    let renew_before = hours * u64::from(100 - spec.rotate_before_percent.min(99)) / 100;
    let mut body = json!({
        "apiVersion": "cert-manager.io/v1", "kind": "Certificate",
        "metadata": {
            "name": name,
            "labels": {keys::NAME: keys::NAME_VALUE, keys::MANAGED_BY: keys::MANAGED_BY_VALUE},
            "annotations": {keys::CR: name},
            // A request, not the root: it goes with whoever asked.
            "ownerReferences": [{
                "apiVersion": ValkeyCA::api_version(&()), "kind": ValkeyCA::kind(&()),
                "name": name, "uid": root.uid(), "controller": true, "blockOwnerDeletion": false,
            }],
        },
        "spec": {
            "isCA": true, "commonName": name, "secretName": secret_name,
            "duration": format!("{hours}h"), "renewBefore": format!("{}h", renew_before.max(1)),
            "usages": ["cert sign", "crl sign"],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
        },
    });
    let digest = kit::digest::of_value(&body);
    body["metadata"]["annotations"][keys::APPLIED] = json!(digest);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cert_manager_is_asked_for_an_authority_that_it_renews_in_time() {
        let spec = json!({"source": "External", "validForDays": 100, "certManager": {"issuerRef": {"name": "company"}}});
        let mut root = ValkeyCA::new("root", serde_json::from_value(spec).expect("should be a spec"));
        root.metadata.uid = Some("uid".to_owned());
        let wanted = root.spec.cert_manager.clone().expect("should be there");
        let mut body = certificate(&root, &wanted, "secret");
        let digest = body["metadata"]["annotations"][keys::APPLIED].take();
        assert_eq!(digest, certificate(&root, &wanted, "secret")["metadata"]["annotations"][keys::APPLIED]);
        insta::assert_json_snapshot!(body);
    }
}
