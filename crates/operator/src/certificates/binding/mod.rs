//! The controller of `ValkeyCertificateBinding`: certificates of one party of a cluster, each in a Secret that holds the key
//! and everybody whom its holder trusts, too: whoever reads it gets all three at once.

mod held;
mod leaf;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use api::ValkeyCertificateBinding;
use api::certificates::{BoundCertificate, BundlePurpose, ValkeyCertificateBindingStatus};
use api::condition::CertificateReason;
use jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use pki::{Expected, Leaf, judge};
use snafu::ResultExt as _;

use super::bundle::{self, Stored};
use super::control::{Controls, Desk};
use super::place::Place;
use super::store::{Unstored, store};
use super::{Caches, events, order, soon, wake};
use crate::objects::{Kind, collision, controlled_by};
use crate::pass::{ActSnafu, Error};
use held::{Held, Numbers};
use leaf::Whose;
use plan::{Deed, Offer};
use status::{Bound, Outcome, Trouble};

/// Name of this controller in metrics.
pub(super) const KIND: &str = "ValkeyCertificateBinding";

/// What the controller works with.
pub(super) struct Bindings {
    pub(super) desk: Desk<ValkeyCertificateBinding>,
    pub(super) caches: Caches,
    pub(super) trust_domain: String,
}

/// What one certificate came to, if not that.
enum Stop {
    Trouble(Trouble),
    Failed(kit::apply::Error),
}

impl Controls for Bindings {
    type Kind = ValkeyCertificateBinding;

    fn desk(&self) -> &Desk<ValkeyCertificateBinding> {
        &self.desk
    }

    async fn pass(&self, binding: &ValkeyCertificateBinding) -> Result<(&'static str, Action), Error> {
        let now = super::now();
        let Some(place) = Place::of(binding, &binding.spec.cluster_ref.name) else {
            return Ok(("unnamed", Action::await_change()));
        };
        let before = binding.status.clone().unwrap_or_default();
        let order = order(binding);
        let mut outcome = Outcome { bound: Vec::new(), unseen: Vec::new(), trouble: None };
        let mut failed = None;
        for wanted in &binding.spec.certificates {
            match self.bind(binding, wanted, &place, order.as_deref(), now).await {
                Ok(bound) => {
                    outcome.bound.push(bound);
                    continue;
                }
                Err(Stop::Trouble(trouble)) => {
                    outcome.trouble.get_or_insert(trouble);
                }
                // What was looked at is not what there is: whatever was found out is not so.
                Err(Stop::Failed(error)) if error.is_conflict() => {
                    return Err(error).context(ActSnafu { kind: KIND, object: place.name });
                }
                Err(Stop::Failed(error)) => {
                    outcome.trouble.get_or_insert_with(|| refused(&error));
                    failed.get_or_insert(error);
                }
            }
            outcome.unseen.push(wanted.component);
        }
        let grace = binding.spec.grace.duration().unwrap_or(SignedDuration::from_hours(1));
        let after = status::status(&outcome, grace, &before, place.generation, now);
        self.report(binding, &before, &after).await?;
        if let Some(error) = failed {
            return Err(error).context(ActSnafu { kind: KIND, object: place.name });
        }
        if outcome.trouble.is_some() {
            return Ok(("waiting", soon()));
        }
        let percent = binding.spec.rotate_before_percent;
        let due = outcome.bound.iter().map(|bound| plan::due(&bound.held, percent));
        let ends_of_grace = after.deprecated.iter().map(|one| one.accept_until.0);
        Ok(("looked", wake(due.chain(ends_of_grace), now)))
    }

    fn forget(&self, namespace: &str, name: &str) {
        self.desk.metrics.certificates.forget(KIND, (namespace, name));
    }
}

/// What a bundle gives to those who have something of it.
struct Issuer {
    stored: Stored,
    purpose: BundlePurpose,
}

impl Issuer {
    fn offer(&self) -> Offer {
        Offer {
            trusted: self.stored.trusted(),
            generation: self.stored.generation(),
            issuing_since: self.stored.issuing_since(),
            ends: self.stored.issuer.authority.certificate().ends,
        }
    }
}

impl Bindings {
    /// Bring one certificate in line.
    async fn bind<'a>(
        &self,
        binding: &ValkeyCertificateBinding,
        wanted: &'a BoundCertificate,
        place: &Place,
        order: Option<&str>,
        now: Timestamp,
    ) -> Result<Bound<'a>, Stop> {
        let issuer = self.issuer(binding, place, wanted).map_err(Stop::Trouble)?;
        let live = self.caches.secret(&place.namespace, &wanted.secret_name);
        if let Some(taken) = live.as_ref().filter(|live| !controlled_by(live.meta(), Some(&place.uid))) {
            return Err(Stop::Trouble(taken_by(&collision(Kind::Secret, &wanted.secret_name, taken.meta()))));
        }
        let whose = Whose {
            trust_domain: &self.trust_domain,
            namespace: &place.namespace,
            cluster: &binding.spec.cluster_ref.name,
        };
        let validity = wanted.validity.duration().unwrap_or_default();
        let leaf = leaf::leaf(wanted, &whose, validity, now);
        let (offer, held) = (issuer.offer(), live.as_deref().and_then(Held::read));
        let percent = binding.spec.rotate_before_percent;
        let deed = plan::plan(held.as_ref(), &leaf, &offer, percent, order, now);
        let held = match (deed, held) {
            (Deed::Keep, Some(held)) => held,
            (Deed::Retrust, Some(held)) => Held {
                trusted: offer.trusted,
                numbers: Numbers { trusts: offer.generation, ..held.numbers },
                ..held
            },
            _ => {
                let component: &'static str = wanted.component.into();
                tracing::info!(binding = %place.name, component, ?deed, "issuing a certificate");
                let made = issue(&issuer.stored, &leaf, &offer, order, now);
                // What was issued before stays, if there is something: it is no worse.
                made.map_err(|why| wrong(CertificateReason::Unusable, format!("{component}: {why}")))?
            }
        };
        let secret = held.secret(place.owned(&wanted.secret_name));
        let is_ours = |meta: &_| controlled_by(meta, Some(&place.uid));
        let stored = store(&self.desk.client, &place.namespace, &secret, live.as_deref(), is_ours).await;
        stored.map_err(|unstored| match unstored {
            Unstored::Taken(collision) => Stop::Trouble(taken_by(&collision)),
            Unstored::Failed(error) => Stop::Failed(error),
            Unstored::Ending => {
                wrong(CertificateReason::Pending, format!("Secret {} is being deleted", wanted.secret_name))
            }
        })?;
        Ok(Bound { wanted, purpose: issuer.purpose, held })
    }

    /// The bundle that signs, or why it does not.
    fn issuer(
        &self,
        binding: &ValkeyCertificateBinding,
        place: &Place,
        wanted: &BoundCertificate,
    ) -> Result<Issuer, Trouble> {
        let name = &wanted.bundle_ref.name;
        let waits = |why: &str| Trouble::WaitsForBundle(format!("ValkeyCertificateBundle {name} {why}"));
        let known = self.caches.bundles.get(&ObjectRef::new(name).within(&place.namespace));
        let known = known.ok_or_else(|| waits("does not exist"))?;
        let bundle = known.0.as_ref().map_err(|_| waits("cannot be read"))?;
        // What it signs is believed by every member of its cluster, and by those of no other.
        if bundle.spec.cluster_ref != binding.spec.cluster_ref {
            let other = &bundle.spec.cluster_ref.name;
            let message = format!("bundleRef: ValkeyCertificateBundle {name} signs for cluster {other}");
            return Err(Trouble::Wrong(CertificateReason::InvalidSpec, message));
        }
        let secret = self.caches.secret(&place.namespace, &bundle::key_secret(bundle));
        let secret = secret.filter(|secret| controlled_by(secret.meta(), bundle.uid().as_deref()));
        let secret = secret.ok_or_else(|| waits("cannot sign yet"))?;
        let stored = Stored::read(&secret).map_err(|why| waits(&format!("cannot sign: {why}")))?;
        Ok(Issuer { stored, purpose: bundle.spec.purpose })
    }

    async fn report(
        &self,
        binding: &ValkeyCertificateBinding,
        before: &ValkeyCertificateBindingStatus,
        after: &ValkeyCertificateBindingStatus,
    ) -> Result<(), Error> {
        let told = &self.desk.metrics.certificates;
        let (namespace, name) = (binding.namespace().unwrap_or_default(), binding.name_any());
        let ends = after.expires_at.as_ref().map(|at| at.0);
        told.seen_of_cluster(
            KIND,
            (&namespace, &name),
            &binding.spec.cluster_ref.name,
            after.phase.map(Into::into),
            ends,
        );
        for _ in status::replaced(before, &after.active) {
            told.rotated(KIND);
        }
        if before == after {
            return Ok(());
        }
        let report = self.desk.report();
        report.write_status(binding, after).await?;
        report.tell(binding, &events::between(&before.conditions, &after.conditions)).await;
        Ok(())
    }
}

/// A new certificate, if those who hold others of the bundle would believe it.
fn issue(
    stored: &Stored,
    leaf: &Leaf,
    offer: &Offer,
    order: Option<&str>,
    now: Timestamp,
) -> Result<Held, String> {
    let signed = stored.issuer.authority.issue(leaf).map_err(|error| kit::telemetry::chain(&error))?;
    let (chain, key) = (signed.0, signed.1.pem());
    let expected = Expected { purposes: leaf.purposes.clone(), hosts: Vec::new() };
    let certificate = judge(&chain, &key, &offer.trusted, &expected, now)
        .map_err(|flaws| flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let numbers = Numbers {
        trusts: offer.generation,
        issued_under: offer.generation,
        rotated_for: order.map(str::to_owned),
    };
    Ok(Held { chain, key, trusted: offer.trusted.clone(), numbers, certificate })
}

fn wrong(reason: CertificateReason, message: String) -> Stop {
    Stop::Trouble(Trouble::Wrong(reason, message))
}

fn taken_by(collision: &crate::objects::Collision) -> Trouble {
    let message = format!("Secret {} belongs to {}", collision.name, collision.holder);
    Trouble::Wrong(CertificateReason::NameCollision, message)
}

/// A refusal of the API server needs somebody; anything else is tried again.
fn refused(error: &kit::apply::Error) -> Trouble {
    match error.refusal() {
        Some(words) if !error.is_namespace_ending() => {
            Trouble::Wrong(CertificateReason::ApplyRefused, words.to_owned())
        }
        _ => Trouble::Wrong(CertificateReason::Pending, "a Secret is being written".to_owned()),
    }
}
