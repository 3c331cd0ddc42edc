//! Secrets of users, watched one by one because a spec refers to them. Nothing else in their namespaces is read.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::context::Guarded;
use crate::watch::Caller;

/// A watch that nobody asked for during this time ends.
const KEEP_FOR: Duration = Duration::from_mins(5);
/// How long the first answer of a new watch may take.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a Secret.
#[derive(Clone, Debug, Default)]
pub(super) enum Known {
    /// Its watch has not answered yet.
    #[default]
    NotYet,
    Missing,
    There(Arc<Secret>),
}

/// The watches, by namespace and name.
#[derive(Default)]
pub(super) struct References(Mutex<HashMap<(String, String), Reference>>);

struct Reference {
    known: watch::Receiver<Known>,
    interested: Arc<Mutex<BTreeSet<String>>>,
    used: Instant,
    task: JoinHandle<()>,
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl References {
    /// What is known of a Secret. From now on the cluster is called when it changes.
    pub(super) async fn read(
        &self,
        client: &Client,
        call: &Caller<Guarded>,
        (namespace, cluster): (&str, &str),
        name: &str,
    ) -> Known {
        let mut known = self.subscribe(client, call, (namespace, cluster), name);
        let answered = known.wait_for(|known| !matches!(known, Known::NotYet));
        match tokio::time::timeout(FIRST_ANSWER_WITHIN, answered).await {
            Ok(Ok(known)) => known.clone(),
            _ => Known::NotYet,
        }
    }

    fn subscribe(
        &self,
        client: &Client,
        call: &Caller<Guarded>,
        (namespace, cluster): (&str, &str),
        name: &str,
    ) -> watch::Receiver<Known> {
        let mut references = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        references.retain(|_, reference| reference.used.elapsed() < KEEP_FOR);
        let key = (namespace.to_owned(), name.to_owned());
        let reference = references.entry(key).or_insert_with(|| {
            let (tell, known) = watch::channel(Known::NotYet);
            let interested: Arc<Mutex<BTreeSet<String>>> = Arc::default();
            let follow = follow(client.clone(), namespace.to_owned(), name.to_owned(), {
                let (interested, call, namespace) = (interested.clone(), call.clone(), namespace.to_owned());
                move |news| {
                    let _ = tell.send(news);
                    for cluster in interested.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                        call.call(&namespace, cluster);
                    }
                }
            });
            Reference { known, interested, used: Instant::now(), task: tokio::spawn(follow) }
        });
        reference.used = Instant::now();
        reference.interested.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.to_owned());
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
