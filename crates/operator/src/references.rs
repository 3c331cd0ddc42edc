//! Secrets that a spec refers to, watched one by one: nothing else in their namespaces is read. Each remembers who refers to
//! it, so that a change reaches everybody whom it concerns.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long the first answer of a new watch may take.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a Secret.
#[derive(Clone, Debug, Default)]
pub(crate) enum Known {
    /// Its watch has not answered yet.
    #[default]
    NotYet,
    Missing,
    There(Arc<Secret>),
}

/// An object: its kind, its namespace (none for one outside of namespaces) and its name.
pub(crate) type Who = (&'static str, String, String);

/// Somebody who wants to hear of a Secret.
pub(crate) struct Referrer {
    pub(crate) who: Who,
    /// How long the watch is kept if nobody asks again: longer than the referrer sleeps.
    pub(crate) keep: Duration,
    pub(crate) call: Arc<dyn Fn() + Send + Sync>,
}

type Referrers = Arc<Mutex<BTreeMap<Who, Arc<dyn Fn() + Send + Sync>>>>;

/// The watches, by namespace and name.
#[derive(Default)]
pub(crate) struct References(Mutex<HashMap<(String, String), Reference>>);

struct Reference {
    known: watch::Receiver<Known>,
    referrers: Referrers,
    until: Instant,
    task: JoinHandle<()>,
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl References {
    /// What is known of a Secret. From now on the referrer is called when it changes.
    pub(crate) async fn read(
        &self,
        client: &Client,
        (namespace, name): (&str, &str),
        referrer: Referrer,
    ) -> Known {
        let mut known = self.subscribe(client, (namespace, name), referrer);
        let answered = known.wait_for(|known| !matches!(known, Known::NotYet));
        match tokio::time::timeout(FIRST_ANSWER_WITHIN, answered).await {
            Ok(Ok(known)) => known.clone(),
            _ => Known::NotYet,
        }
    }

    fn subscribe(
        &self,
        client: &Client,
        (namespace, name): (&str, &str),
        referrer: Referrer,
    ) -> watch::Receiver<Known> {
        let mut references = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        references.retain(|_, reference| now < reference.until);
        let key = (namespace.to_owned(), name.to_owned());
        let reference = references.entry(key).or_insert_with(|| {
            let (tell, known) = watch::channel(Known::NotYet);
            let referrers = Referrers::default();
            let follow = follow(client.clone(), namespace.to_owned(), name.to_owned(), {
                let referrers = referrers.clone();
                move |news| {
                    let _ = tell.send(news);
                    for call in referrers.lock().unwrap_or_else(PoisonError::into_inner).values() {
                        call();
                    }
                }
            });
            Reference { known, referrers, until: now, task: tokio::spawn(follow) }
        });
        reference.until = reference.until.max(now + referrer.keep);
        let mut referrers = reference.referrers.lock().unwrap_or_else(PoisonError::into_inner);
        referrers.insert(referrer.who, referrer.call);
        reference.known.clone()
    }
}

async fn follow(client: Client, namespace: String, name: String, tell: impl Fn(Known) + Send) {
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(secrets, only).default_backoff().boxed();
    let mut listed = Known::Missing;
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = Known::Missing,
            Ok(watcher::Event::InitApply(secret)) => listed = Known::There(Arc::new(secret)),
            Ok(watcher::Event::InitDone) => tell(listed.clone()),
            Ok(watcher::Event::Apply(secret)) => tell(Known::There(Arc::new(secret))),
            Ok(watcher::Event::Delete(_)) => tell(Known::Missing),
            Err(error) => {
                tracing::warn!(error = %kit::telemetry::chain(&error), secret = %name, "a watch failed and is being restarted");
            }
        }
    }
}
