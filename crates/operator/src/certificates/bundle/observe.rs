//! What a pass looks at: the root, the bundle's own Secrets, and what everybody holds who has something of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::ValkeyCertificateBundle;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::runtime::reflector::ObjectRef;
use pki::rotation::Proof;

use super::super::KEEP_SECRETS_FOR;
use super::super::place::Place;
use super::super::root::{self, Root};
use super::{Bundles, key_secret, public_secret};
use crate::references::Known;

/// What was seen.
pub(super) struct Observed {
    /// The root, or why there is none.
    pub(super) root: Result<Root, String>,
    pub(super) key: Option<Arc<Secret>>,
    pub(super) public: Option<Arc<Secret>>,
    pub(super) parties: BTreeMap<String, Proof>,
}

impl Bundles {
    pub(super) async fn observe(
        &self,
        bundle: &ValkeyCertificateBundle,
        place: &Place,
        now: Timestamp,
    ) -> Observed {
        Observed {
            root: self.root(bundle, place, now).await,
            key: self.caches.secret(&place.namespace, &key_secret(bundle)),
            public: self.caches.secret(&place.namespace, &public_secret(bundle)),
            parties: self.parties(bundle, place),
        }
    }

    /// Whoever is to sign for a new authority. The Secret is read by name in the operator's namespace.
    async fn root(
        &self,
        bundle: &ValkeyCertificateBundle,
        place: &Place,
        now: Timestamp,
    ) -> Result<Root, String> {
        let name = &bundle.spec.ca_ref.name;
        let known = self.caches.roots.get(&ObjectRef::new(name));
        let Some(known) = known else { return Err(format!("ValkeyCA {name} does not exist")) };
        let Ok(root) = &known.0 else { return Err(format!("ValkeyCA {name} cannot be read")) };
        let secret = (self.operator_namespace.as_str(), root::secret_name(root));
        let referrer = self.desk.call.referrer(&place.namespace, &place.name, KEEP_SECRETS_FOR);
        match self.references.read(&self.desk.client, (secret.0, &secret.1), referrer).await {
            Known::There(secret) => {
                root::usable(&secret, now).map_err(|why| format!("ValkeyCA {name} cannot sign: {why}"))
            }
            Known::Missing => Err(format!("ValkeyCA {name} has no root yet")),
            Known::NotYet => Err(format!("the Secret of ValkeyCA {name} cannot be read")),
        }
    }

    /// Everybody who holds something of this bundle, and what of it.
    fn parties(&self, bundle: &ValkeyCertificateBundle, place: &Place) -> BTreeMap<String, Proof> {
        let mut parties = BTreeMap::new();
        for guarded in self.caches.bindings_of(&place.namespace, &place.name) {
            let Ok(binding) = &guarded.0 else { continue };
            // Another cluster's gets nothing, so it is not waited for either.
            if binding.spec.cluster_ref != bundle.spec.cluster_ref {
                continue;
            }
            let active = binding.status.iter().flat_map(|status| &status.active);
            let held: BTreeMap<_, _> = active.map(|one| (one.component, one)).collect();
            let ours = binding.spec.certificates.iter().filter(|one| one.bundle_ref.name == place.name);
            for wanted in ours {
                let component: &'static str = wanted.component.into();
                let number = |number: i64| u64::try_from(number).unwrap_or_default();
                let held = held.get(&wanted.component).filter(|one| one.bundle_ref == wanted.bundle_ref);
                let proof =
                    held.map(|one| Proof { trusts: number(one.trusts), shows: number(one.issued_under) });
                parties.insert(format!("{}/{component}", binding.name_any()), proof.unwrap_or_default());
            }
        }
        parties
    }
}
