//! Taking one step: what is made is stored before anybody is told of it.

use std::collections::{BTreeMap, BTreeSet};

use api::ValkeyCertificateBundle;
use api::condition::CertificateReason;
use jiff::{SignedDuration, Timestamp};
use pki::rotation::{self, Next};
use pki::{AuthorityError, Certificate, split};

use super::super::order;
use super::super::pem::{TRUSTED, text};
use super::super::place::Place;
use super::super::root::Root;
use super::super::store::{Unstored, store};
use super::observe::Observed;
use super::plan::{self, Asked, Deed};
use super::stored::{Below, Earlier, Stored};
use super::{Bundles, key_secret, public_secret};
use crate::objects::{Collision, Kind, collision, controlled_by};

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
        let asked = Asked {
            policy: &bundle.spec.rotation_policy,
            order: order.as_deref(),
            root: observed.root.as_ref().ok().map(|root| root.authority.certificate()),
            validity: validity(bundle),
        };
        let deed = plan::plan(&asked, stored.as_ref(), &observed.parties, now);
        let is_step = matches!(deed, Deed::Begin | Deed::Renew | Deed::Publish(_));
        let (waits_for, hint) = match (&deed, &observed.root) {
            (Deed::WaitFor(parties), _) => (parties.clone(), None),
            (Deed::WaitForRoot, Err(why)) => {
                (BTreeSet::new(), Some(format!("another one is wanted, but {why}")))
            }
            (Deed::Rest, _) => {
                (BTreeSet::new(), stored.as_ref().and_then(|stored| late(&asked, stored, now)))
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
                Err(unstored) => return not_stored(unstored, &key_name),
            }
        }
        let public = next.public(place.owned(&public_name), &roots(&next, observed));
        let live = observed.public.as_deref();
        match store(&self.desk.client, &place.namespace, &public, live, is_ours).await {
            Ok(()) => Outcome::Signs { stored: Box::new(next), waits_for, hint },
            Err(unstored) => not_stored(unstored, &public_name),
        }
    }
}

fn not_stored(unstored: Unstored, name: &str) -> Outcome {
    match unstored {
        Unstored::Taken(collision) => taken_by(&collision),
        Unstored::Failed(error) => Outcome::Failed(error),
        Unstored::Ending => {
            Outcome::Wrong(CertificateReason::Pending, format!("Secret {name} is being deleted"))
        }
    }
}

/// How long a new authority is to be valid.
fn validity(bundle: &ValkeyCertificateBundle) -> SignedDuration {
    SignedDuration::from_hours(24 * i64::from(bundle.spec.valid_for_days))
}

/// What to say of an authority that is not replaced although its time has come.
fn late(asked: &Asked<'_>, stored: &Stored, now: Timestamp) -> Option<String> {
    let is_late = !stored.is_moving() && now >= plan::renewal(asked.policy, stored);
    let why = if asked.policy.auto_rotate {
        "its root is over no later, and must be replaced first"
    } else {
        "it is replaced only when somebody asks for it (annotation valkey.io/rotate)"
    };
    is_late.then(|| why.to_owned())
}

/// The roots for those who trust them. One that is replaced stays known for as long as somebody shows what it signed: while the
/// bundle moves, and while its own authority is below that one.
pub(super) fn roots(stored: &Stored, observed: &Observed) -> String {
    let earlier = observed.public.as_deref().and_then(|secret| text(secret, TRUSTED)).unwrap_or_default();
    let Ok(root) = &observed.root else { return earlier };
    let now = split(&root.trusted);
    let is_known =
        |pem: &String| Certificate::read(pem).is_ok_and(|one| one.thumbprint == stored.issuer.root);
    // A given authority below a root is not among those who are trusted; what it signs is below one of them all the same.
    let is_below = stored.issuer.root == root.authority.certificate().thumbprint;
    if !stored.is_moving() && (is_below || now.iter().any(is_known)) {
        return root.trusted.clone();
    }
    let before = split(&earlier).into_iter().filter(|pem| !now.contains(pem));
    before.chain(now.iter().cloned()).collect()
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
        let authority = root.authority.below(&name, now, validity(bundle))?;
        Ok(Below { authority, root: root.authority.certificate().thumbprint.clone() })
    };
    let advanced = match (deed, stored, &observed.root) {
        (Deed::Begin, None, Ok(root)) => {
            let told = bundle.status.as_ref().and_then(|status| status.published);
            let claimed = observed.parties.values().map(|proof| proof.trusts.max(proof.shows)).max();
            let seen = told.and_then(|told| u64::try_from(told).ok()).max(claimed).unwrap_or_default();
            let earlier = Earlier::read(observed.public.as_deref()).at_least(seen);
            Some(Stored::first(fresh(root)?, earlier, order, now))
        }
        (Deed::Renew, Some(stored), Ok(root)) => {
            let next = stored.with_next(fresh(root)?, order);
            // Made and published in one write: nobody ever finds an authority that nobody was told of.
            let step = rotation::next(&next.published(), &next.wanted(), &BTreeMap::new());
            Some(match step {
                Next::Publish(published) => next.after(&published, now),
                Next::Rest | Next::WaitFor(_) => next,
            })
        }
        (Deed::Publish(published), Some(stored), _) => Some(stored.after(&published, now)),
        (_, stored, _) => stored,
    };
    Ok(advanced)
}
