//! Certificates as resources. A `ValkeyCA` is the root (`root`), a `ValkeyCertificateBundle` the authority of one cluster for one
//! purpose below it (`bundle`), and a `ValkeyCertificateBinding` holds what that one signed (`binding`). Each controller has the
//! steps of every other: observe, plan, act, status; `control` is what they share around a pass.
//!
//! Whatever is private stands in Secrets only, and each Secret is written whole: there is no moment at which a key is stored
//! without its certificate. Who waits for whom: a binding for its bundles, a bundle for its root, an external root for its
//! Secret. Nobody loses what was issued while another one is waited for.

mod binding;
mod bundle;
mod control;
mod events;
pub(crate) mod pem;
mod place;
mod root;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::{ValkeyCA, ValkeyCertificateBinding, ValkeyCertificateBundle, ValkeyCluster, keys};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kit::metrics::Metrics;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::Recorder;
use kube::runtime::reflector::Store;
use kube::{Resource as _, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use control::Desk;
pub(crate) use root::run as run_roots;

use crate::references::References;
use crate::settings::Settings;
use crate::watch::{Caller, Scope, tell};

/// Nobody sleeps for longer than this: clocks are set, and certificates are looked at again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_hours(12);
/// How long the Secret of a root is watched after somebody asked for it: longer than anybody sleeps.
const KEEP_SECRETS_FOR: Duration = Duration::from_hours(13);

/// How soon something is looked at again that is not as it should be.
const LOOK_SOON: Duration = Duration::from_secs(15);

/// What the controllers of bundles and bindings read.
#[derive(Clone)]
struct Caches {
    roots: Store<DeserializeGuard<ValkeyCA>>,
    bundles: Store<DeserializeGuard<ValkeyCertificateBundle>>,
    bindings: Store<DeserializeGuard<ValkeyCertificateBinding>>,
    secrets: Store<Secret>,
}

impl Caches {
    /// A Secret of ours.
    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(&kube::runtime::reflector::ObjectRef::new(name).within(namespace))
    }

    /// Bindings with a certificate that a bundle signs.
    fn bindings_of(
        &self,
        namespace: &str,
        bundle: &str,
    ) -> Vec<Arc<DeserializeGuard<ValkeyCertificateBinding>>> {
        let signs = |one: &Arc<DeserializeGuard<ValkeyCertificateBinding>>| {
            let Ok(binding) = &one.0 else { return false };
            binding.namespace().as_deref() == Some(namespace)
                && binding.spec.certificates.iter().any(|certificate| certificate.bundle_ref.name == bundle)
        };
        self.bindings.state().into_iter().filter(signs).collect()
    }
}

/// Calls whoever must look again when something changed.
#[derive(Clone)]
pub(crate) struct News {
    cluster: Caller<DeserializeGuard<ValkeyCluster>>,
    bundle: Caller<DeserializeGuard<ValkeyCertificateBundle>>,
    binding: Caller<DeserializeGuard<ValkeyCertificateBinding>>,
    caches: Caches,
}

impl News {
    /// A Secret changed: its owner looks at it, and everybody who has something of a bundle whose key it is.
    pub(crate) fn of_secret(&self, secret: &Secret) {
        let namespace = secret.namespace().unwrap_or_default();
        for owner in secret.owner_references().iter().filter(|owner| owner.controller == Some(true)) {
            if owner.kind == ValkeyCertificateBinding::kind(&()) {
                self.binding.call(&namespace, &owner.name);
            } else if owner.kind == ValkeyCertificateBundle::kind(&()) {
                self.bundle.call(&namespace, &owner.name);
                self.call_bindings_of(&namespace, &owner.name);
            }
        }
    }

    fn of_root(&self, root: &DeserializeGuard<ValkeyCA>) {
        let name = root.name_any();
        for bundle in self.caches.bundles.state() {
            if bundle.0.as_ref().is_ok_and(|bundle| bundle.spec.ca_ref.name == name) {
                self.bundle.call(&bundle.namespace().unwrap_or_default(), &bundle.name_any());
            }
        }
    }

    fn of_bundle(&self, bundle: &DeserializeGuard<ValkeyCertificateBundle>) {
        self.call_cluster(bundle);
        self.call_bindings_of(&bundle.namespace().unwrap_or_default(), &bundle.name_any());
    }

    /// What a party holds is what its bundles wait for.
    fn of_binding(&self, binding: &DeserializeGuard<ValkeyCertificateBinding>) {
        self.call_cluster(binding);
        let namespace = binding.namespace().unwrap_or_default();
        let Ok(binding) = &binding.0 else { return };
        let wanted = binding.spec.certificates.iter().map(|one| &one.bundle_ref);
        // One that it has left waits for it no longer.
        let held = binding.status.iter().flat_map(|status| &status.active).map(|one| &one.bundle_ref);
        for bundle in wanted.chain(held).collect::<BTreeSet<_>>() {
            self.bundle.call(&namespace, &bundle.name);
        }
    }

    /// Whoever made it puts it back if somebody took it away.
    fn call_cluster<K: kube::Resource>(&self, object: &K) {
        for owner in object.owner_references().iter().filter(|owner| owner.controller == Some(true)) {
            if owner.kind == ValkeyCluster::kind(&()) {
                self.cluster.call(&object.namespace().unwrap_or_default(), &owner.name);
            }
        }
    }

    fn call_bindings_of(&self, namespace: &str, bundle: &str) {
        for binding in self.caches.bindings_of(namespace, bundle) {
            self.binding.call(namespace, &binding.name_any());
        }
    }
}

/// The controllers of bundles and bindings of one scope, before they run.
pub(crate) struct Certificates {
    pub(crate) news: News,
    bundles: Arc<bundle::Bundles>,
    bindings: Arc<binding::Bindings>,
    feeds: Feeds,
}

/// What they are fed with.
struct Feeds {
    watches: tokio::task::JoinSet<()>,
    bundles: control::Feed<ValkeyCertificateBundle>,
    bindings: control::Feed<ValkeyCertificateBinding>,
}

impl Certificates {
    /// Start to watch.
    pub(crate) fn prepare(
        scope: &Scope,
        (secrets, references): (Store<Secret>, Arc<References>),
        recorder: &Recorder,
        metrics: &Metrics,
        settings: &Settings,
        cluster: Caller<DeserializeGuard<ValkeyCluster>>,
    ) -> Self {
        let (roots, root_changes) = scope.outside::<ValkeyCA>();
        let (bundles, bundle_changes) = scope.guarded::<ValkeyCertificateBundle>();
        let (bindings, binding_changes) = scope.guarded::<ValkeyCertificateBinding>();
        let caches = Caches { roots, bundles, bindings, secrets };
        let bundle_desk = Desk::new(&scope.client, recorder, metrics, bundle::KIND);
        let binding_desk = Desk::new(&scope.client, recorder, metrics, binding::KIND);
        let news = News {
            cluster,
            bundle: bundle_desk.0.call.clone(),
            binding: binding_desk.0.call.clone(),
            caches: caches.clone(),
        };
        let mut watches = tokio::task::JoinSet::new();
        watches.spawn(tell(root_changes, {
            let news = news.clone();
            move |root| news.of_root(root)
        }));
        let bundle_news = news.clone();
        let binding_news = news.clone();
        let bundle_feed =
            control::feed(bundle_changes, move |one| bundle_news.of_bundle(one), bundle_desk.1, &mut watches);
        let binding_feed = control::feed(
            binding_changes,
            move |one| binding_news.of_binding(one),
            binding_desk.1,
            &mut watches,
        );
        Self {
            news,
            bundles: Arc::new(bundle::Bundles {
                desk: bundle_desk.0,
                caches: caches.clone(),
                references,
                operator_namespace: settings.namespace.clone(),
            }),
            bindings: Arc::new(binding::Bindings {
                desk: binding_desk.0,
                caches,
                trust_domain: settings.trust_domain.clone(),
            }),
            feeds: Feeds { watches, bundles: bundle_feed, bindings: binding_feed },
        }
    }

    /// What is there of both, for whoever makes them.
    pub(crate) fn stores(
        &self,
    ) -> (Store<DeserializeGuard<ValkeyCertificateBundle>>, Store<DeserializeGuard<ValkeyCertificateBinding>>)
    {
        (self.bundles.caches.bundles.clone(), self.bundles.caches.bindings.clone())
    }

    /// Run both until `stop`. Whoever calls this has waited for the cache of Secrets.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let Self { bundles, bindings, feeds, .. } = self;
        let caches = bundles.caches.clone();
        let filled = async {
            // An error here means that the watch has ended with the program.
            let _ = futures::join!(
                caches.roots.wait_until_ready(),
                caches.bundles.wait_until_ready(),
                caches.bindings.wait_until_ready(),
            );
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = filled => {}
        }
        let Feeds { watches: _watches, bundles: bundle_feed, bindings: binding_feed } = feeds;
        futures::join!(
            control::run(bundles, caches.bundles.clone(), bundle_feed, stop.clone()),
            control::run(bindings, caches.bindings.clone(), binding_feed, stop),
        );
    }
}

/// When to look again at something that somebody must mend: not every way to mend it is one that we hear of.
fn soon() -> Action {
    Action::requeue(LOOK_SOON)
}

/// When to look again: at the first of these moments that is to come. What should have been done at one that is over could not
/// be, and whoever can change that calls.
fn wake(moments: impl IntoIterator<Item = Timestamp>, now: Timestamp) -> Action {
    let to_come = moments.into_iter().filter(|moment| *moment > now);
    let first = to_come.map(|moment| moment.duration_since(now)).min().unwrap_or(LOOK_AGAIN);
    let wait = first.clamp(SignedDuration::from_secs(1), LOOK_AGAIN);
    Duration::try_from(wait).map_or_else(|_| soon(), Action::requeue)
}

/// The time, as certificates and statuses have it: what is read back is what was written.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Value of the annotation by which a user asks for a rotation now.
fn order<K: kube::Resource>(object: &K) -> Option<String> {
    object.annotations().get(keys::ROTATE).cloned().filter(|order| !order.is_empty())
}
