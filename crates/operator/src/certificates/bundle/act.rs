//! Taking one step: what is made is stored before anybody is told of it.

use std::collections::{BTreeMap, BTreeSet};

use api::ValkeyCertificateBundle;
use api::condition::CertificateReason;
use jiff::{SignedDuration, Timestamp};
use pki::AuthorityError;
use pki::rotation::{self, Next};

use super::super::order;
use super::super::pem::{TRUSTED, text};
use super::super::place::Place;
use super::super::root::Root;
use super::super::store::store;
use super::observe::Observed;
use super::plan::{self, Asked, Deed};
use super::stored::{Below, Earlier, Stored};
use super::{Bundles, key_secret, public_secret};
use crate::objects::{Collision, Kind, Stopped, collision, controlled_by};

/// What a pass came to.
pub(super) enum Outcome {
    Signs { stored: Box<Stored>, waits_for: BTreeSet<String>, hint: Option<String> },
    Waits(String),
    Wrong(CertificateReason, String),
    Failed(kit::apply::Error),
}

impl Bundles {
    pub(super) async fn act(
        &self,
        bundle: &ValkeyCertificateBundle,
        place: &Place,
        observed: &Observed,
        now: Timestamp,
    ) -> Outcome {
        let (key_name, public_name) = (key_secret(bundle), public_secret(bundle));
        for (name, secret) in [(&key_name, &observed.key), (&public_name, &observed.public)] {
            let taken = secret.as_ref().filter(|secret| !controlled_by(&secret.metadata, Some(&place.uid)));
            if let Some(secret) = taken {
                return taken_by(&collision(Kind::Secret, name, &secret.metadata));
            }
        }
        let stored = match observed.key.as_deref().map(Stored::read).transpose() {
            Ok(stored) => stored,
            // Whatever it was, it is not for us to throw away.
            Err(why) => {
                let words = "put back what it held, or delete it and a new authority is made";
                let message =
                    format!("Secret {key_name} holds no authority that can be used: {why}; {words}");
                return Outcome::Wrong(CertificateReason::Unusable, message);
            }
        };
        let order = order(bundle);
        let root_thumbprint =
            observed.root.as_ref().ok().map(|root| root.authority.certificate().thumbprint.clone());
        let asked = Asked {
            policy: &bundle.spec.rotation_policy,
            order: order.as_deref(),
            root: root_thumbprint.as_deref(),
        };
        let deed = plan::plan(&asked, stored.as_ref(), &observed.parties, now);
        let is_step = matches!(deed, Deed::Begin | Deed::Renew | Deed::Publish(_));
        let (waits_for, hint) = match (&deed, &observed.root) {
            (Deed::WaitFor(parties), _) => (parties.clone(), None),
            (Deed::WaitForRoot, Err(why)) => {
                (BTreeSet::new(), Some(format!("another one is wanted, but {why}")))
            }
            _ => (BTreeSet::new(), None),
        };
        let next = match advance(deed, stored, bundle, observed, order, now) {
            Ok(Some(next)) => next,
            Ok(None) => {
                return Outcome::Waits(observed.root.as_ref().err().cloned().unwrap_or_default());
            }
            Err(error) => return Outcome::Wrong(CertificateReason::Unusable, kit::telemetry::chain(&error)),
        };
        let is_ours = |meta: &_| controlled_by(meta, Some(&place.uid));
        if is_step {
            let secret = next.secret(place.owned(&key_name));
            let live = observed.key.as_deref();
            match store(&self.desk.client, &place.namespace, &secret, live, is_ours).await {
                Ok(()) => {}
                Err(Stopped::Taken(collision)) => return taken_by(&collision),
                Err(Stopped::Failed(error)) => return Outcome::Failed(error),
            }
        }
        let earlier_roots = observed.public.as_deref().and_then(|secret| text(secret, TRUSTED));
        let roots = observed.root.as_ref().ok().map(|root| root.trusted.clone()).or(earlier_roots);
        let public = next.public(place.owned(&public_name), &roots.unwrap_or_default());
        let live = observed.public.as_deref();
        match store(&self.desk.client, &place.namespace, &public, live, is_ours).await {
            Ok(()) => Outcome::Signs { stored: Box::new(next), waits_for, hint },
            Err(Stopped::Taken(collision)) => taken_by(&collision),
            Err(Stopped::Failed(error)) => Outcome::Failed(error),
        }
    }
}

fn taken_by(collision: &Collision) -> Outcome {
    let message = format!("Secret {} belongs to {}", collision.name, collision.holder);
    Outcome::Wrong(CertificateReason::NameCollision, message)
}

/// What is to be stored after a deed; `None` while there is nothing.
pub(super) fn advance(
    deed: Deed,
    stored: Option<Stored>,
    bundle: &ValkeyCertificateBundle,
    observed: &Observed,
    order: Option<String>,
    now: Timestamp,
) -> Result<Option<Stored>, AuthorityError> {
    let fresh = |root: &Root| -> Result<Below, AuthorityError> {
        let purpose: &'static str = bundle.spec.purpose.into();
        let name = format!("{} {purpose}", bundle.spec.cluster_ref.name);
        let days = SignedDuration::from_hours(24 * i64::from(bundle.spec.valid_for_days));
        let authority = root.authority.below(&name, now, days)?;
        Ok(Below { authority, root: root.authority.certificate().thumbprint.clone() })
    };
    let advanced = match (deed, stored, &observed.root) {
        (Deed::Begin, None, Ok(root)) => {
            Some(Stored::first(fresh(root)?, Earlier::read(observed.public.as_deref()), order))
        }
        (Deed::Renew, Some(stored), Ok(root)) => {
            let next = stored.with_next(fresh(root)?, order);
            // Made and published in one write: nobody ever finds an authority that nobody was told of.
            let step = rotation::next(&next.published(), &next.wanted(), &BTreeMap::new());
            Some(match step {
                Next::Publish(published) => next.after(&published),
                Next::Rest | Next::WaitFor(_) => next,
            })
        }
        (Deed::Publish(published), Some(stored), _) => Some(stored.after(&published)),
        (_, stored, _) => stored,
    };
    Ok(advanced)
}
