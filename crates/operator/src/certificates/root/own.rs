//! A root that the operator makes and replaces.

use std::collections::BTreeMap;

use api::condition::CertificateReason;
use api::{ValkeyCA, keys};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;

use super::super::order;
use super::super::store::{Unstored, store};
use super::plan::{self, Deed, Follower};
use super::status::{Found, State};
use super::stored::{self, Contents};
use super::{Roots, Seen, unusable, usable, waiting};

impl Roots {
    /// Take the next step, if there is one, and put back what others changed.
    pub(super) async fn own(
        &self,
        root: &ValkeyCA,
        live: Option<&Secret>,
        secret_name: &str,
        now: Timestamp,
    ) -> Seen {
        let name = root.name_any();
        if live.is_some_and(|secret| !is_ours(&secret.metadata, &name)) {
            return self.taken(secret_name).into();
        }
        let stored = live.and_then(Contents::read);
        if live.is_some_and(|secret| stored::root(secret).is_err()) {
            // Whatever it was, it is not for us to throw away.
            let words =
                "holds no root that can be read; put back what it held, or delete it and a new root is made";
            return unusable(format!("Secret {secret_name} {words}")).into();
        }
        let order = order(root);
        let followers = self.followers(&name);
        let plan = plan::plan(&root.spec, stored.as_ref(), order.as_deref(), &followers, now);
        let days = SignedDuration::from_hours(24 * i64::from(root.spec.valid_for_days));
        let next = match (plan.deed, stored.clone()) {
            (Deed::Make, _) | (_, None) => Contents::first(&name, days, order, now),
            (Deed::Announce, Some(stored)) => stored.announced(&name, days, order, now),
            (Deed::Switch, Some(stored)) => Ok(stored.switched(now)),
            (Deed::Retire, Some(stored)) => Ok(stored.retired(now)),
            (Deed::Date, Some(stored)) => Ok(stored.dated(now)),
            (Deed::Replace, Some(stored)) => {
                stored.announced(&name, days, order, now).map(|announced| announced.switched(now))
            }
            (Deed::Rest, Some(stored)) => Ok(stored),
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => return unusable(kit::telemetry::chain(&error)).into(),
        };
        let secret = next.secret(metadata(secret_name, &name));
        if let Err(why) = usable(&secret, now) {
            return unusable(format!("Secret {secret_name}: {why}")).into();
        }
        if plan.deed != Deed::Rest {
            tracing::info!(root = %name, deed = ?plan.deed, "replacing the root");
        }
        let mut seen =
            Seen { found: found(&next, &followers), moments: plan.wake.into_iter().collect(), error: None };
        // At rest, too: what others change of its labels is put back.
        let is_ours = |meta: &ObjectMeta| is_ours(meta, &name);
        match store(&self.desk.client, &self.namespace, &secret, live, is_ours).await {
            Ok(()) => {}
            Err(Unstored::Taken(_)) => return self.taken(secret_name).into(),
            Err(Unstored::Ending) => {
                return unusable(format!("Secret {secret_name} is being deleted")).into();
            }
            Err(Unstored::Failed(error)) => {
                let before = || stored.as_ref().map_or_else(pending, |stored| found(stored, &followers));
                seen.found = error.refusal().map_or_else(before, |words| Found::Wrong {
                    reason: CertificateReason::ApplyRefused,
                    message: words.to_owned(),
                });
                seen.error = Some(error);
            }
        }
        seen
    }

    fn taken(&self, secret_name: &str) -> Found {
        let message =
            format!("Secret {secret_name} in namespace {} belongs to somebody else", self.namespace);
        Found::Wrong { reason: CertificateReason::NameCollision, message }
    }

    /// The bundles below a root, in every namespace that the operator works in.
    fn followers(&self, root: &str) -> Vec<Follower> {
        let all = self.bundles.iter().flat_map(Store::state);
        let below = all.filter_map(|bundle| {
            let bundle = bundle.0.as_ref().ok()?;
            (bundle.spec.ca_ref.name == root).then(|| Follower {
                name: format!("{}/{}", bundle.namespace().unwrap_or_default(), bundle.name_any()),
                // While it moves, somebody may still show what the one before signed.
                root: bundle
                    .status
                    .as_ref()
                    .filter(|status| status.trusted.len() == 1)
                    .and_then(|status| status.ca_thumbprint.clone()),
            })
        });
        below.collect()
    }
}

fn pending() -> Found {
    waiting(Vec::new(), "the root is being made".to_owned())
}

pub(super) fn found(contents: &Contents, followers: &[Follower]) -> Found {
    let Some(certificate) = contents.certificate() else { return pending() };
    let state = match (contents.is_announced(), contents.is_overlapping()) {
        (true, _) => State::Announced,
        (false, true) => State::Overlapping(plan::lagging(&certificate.thumbprint, followers)),
        (false, false) => State::Settled,
    };
    Found::Root {
        certificate: Box::new(certificate),
        trusted: contents.thumbprints(),
        state,
        rotated_for: contents.rotated_for.clone(),
    }
}

/// A root outlives the object that asked for it, as data does: there is no owner, and whoever makes the object again finds its
/// root again.
pub(super) fn metadata(secret: &str, root: &str) -> ObjectMeta {
    let labels = [(keys::NAME, keys::NAME_VALUE), (keys::MANAGED_BY, keys::MANAGED_BY_VALUE)];
    ObjectMeta {
        name: Some(secret.to_owned()),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        annotations: Some(BTreeMap::from([(keys::CR.to_owned(), root.to_owned())])),
        ..ObjectMeta::default()
    }
}

/// Labels may be lost and are put back; this is put there by nobody else.
pub(super) fn is_ours(meta: &ObjectMeta, root: &str) -> bool {
    meta.annotations.as_ref().and_then(|all| all.get(keys::CR)).is_some_and(|found| found == root)
}
