//! Objects that the operator owns, whoever of its controllers does: how they should be, how they differ from what is
//! there, and how that difference is written without taking anything from somebody else.

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::apply::Objects;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};

/// ValkeyNodes written at the same time.
const PARALLEL: usize = 8;

/// The kinds of objects the operator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub(crate) enum Kind {
    PersistentVolumeClaim,
    ConfigMap,
    Secret,
    Service,
    PodDisruptionBudget,
    StatefulSet,
    Deployment,
    Pod,
    ValkeyNode,
    ValkeyCertificateBundle,
    ValkeyCertificateBinding,
}

impl Kind {
    /// As users write it.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    fn objects(self, client: &Client, namespace: &str) -> Objects {
        match self {
            Self::PersistentVolumeClaim => Objects::of::<PersistentVolumeClaim>(client, namespace),
            Self::ConfigMap => Objects::of::<ConfigMap>(client, namespace),
            Self::Secret => Objects::of::<Secret>(client, namespace),
            Self::Service => Objects::of::<Service>(client, namespace),
            Self::PodDisruptionBudget => Objects::of::<PodDisruptionBudget>(client, namespace),
            Self::StatefulSet => Objects::of::<StatefulSet>(client, namespace),
            Self::Deployment => Objects::of::<Deployment>(client, namespace),
            Self::Pod => Objects::of::<Pod>(client, namespace),
            Self::ValkeyNode => Objects::of::<api::ValkeyNode>(client, namespace),
            Self::ValkeyCertificateBundle => Objects::of::<api::ValkeyCertificateBundle>(client, namespace),
            Self::ValkeyCertificateBinding => Objects::of::<api::ValkeyCertificateBinding>(client, namespace),
        }
    }
}

/// An object as it should be.
#[derive(Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) body: Value,
}

impl std::fmt::Debug for Wanted {
    /// A Secret is an object too.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Wanted");
        shown.field("kind", &self.kind).field("name", &self.name);
        if self.kind != Kind::Secret {
            shown.field("body", &self.body);
        }
        shown.finish_non_exhaustive()
    }
}

impl Wanted {
    /// Finish an object: its own hash goes into an annotation, because a field that is no longer wanted can only be
    /// noticed by what was applied before.
    pub(crate) fn new<K>(kind: Kind, object: &K) -> Self
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        // These types are plain data with string keys: they always have a JSON form.
        Self::of(kind, object.meta().name.as_deref(), serde_json::to_value(object).unwrap_or_default())
    }

    /// The same of an object of which only some fields are ours: whatever is left out is its user's, or the API server's default.
    pub(crate) fn partial<K>(metadata: &ObjectMeta, kind: Kind, spec: &Value) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let (api_version, of) = (K::api_version(&()), K::kind(&()));
        let body = json!({"apiVersion": api_version, "kind": of, "metadata": metadata, "spec": spec});
        Self::of(kind, metadata.name.as_deref(), body)
    }

    fn of(kind: Kind, name: Option<&str>, mut body: Value) -> Self {
        if let Some(fields) = body.as_object_mut() {
            fields.remove("status");
        }
        let digest = kit::digest::of_value(&body);
        body["metadata"]["annotations"][api::keys::APPLIED] = json!(digest);
        Self { kind, name: name.unwrap_or_default().to_owned(), body }
    }

    /// The hash in the annotation.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.body["metadata"]["annotations"][api::keys::APPLIED].as_str()
    }
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    /// Server-side apply.
    Apply {
        wanted: Wanted,
        /// Nothing of this name was seen: whoever holds it must be looked at first.
        create: bool,
        /// Fields that differ, for the log.
        because: Vec<String>,
    },
    /// Merge some fields: into a workload whose template must not be touched yet, or into a pod that cannot be changed
    /// otherwise.
    Merge { kind: Kind, name: String, body: Value },
    /// Take out list items that somebody added.
    RemoveItems { kind: Kind, name: String, resource_version: String, pointers: Vec<String> },
    /// Delete exactly what was looked at: something of which nothing is left but this.
    Delete { kind: Kind, name: String, uid: String, resource_version: String },
}

impl Write {
    fn kind(&self) -> Kind {
        match self {
            Self::Apply { wanted, .. } => wanted.kind,
            Self::Merge { kind, .. } | Self::RemoveItems { kind, .. } | Self::Delete { kind, .. } => *kind,
        }
    }

    /// The object that is written.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Apply { wanted, .. } => &wanted.name,
            Self::Merge { name, .. } | Self::RemoveItems { name, .. } | Self::Delete { name, .. } => name,
        }
    }

    /// Whether this changes the file the server starts from.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::Apply { wanted, .. } if wanted.kind == Kind::ConfigMap)
    }
}

/// A write if the object is missing, was applied from something else, or was changed by somebody.
pub(crate) fn difference<K>(wanted: Wanted, live: Option<&K>) -> Option<Write>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Some(live) = live else { return Some(Write::Apply { wanted, create: true, because: Vec::new() }) };
    if live.meta().deletion_timestamp.is_some() {
        return None;
    }
    let body = serde_json::to_value(live).unwrap_or_default();
    let pointers = kit::drift::foreign_items(&wanted.body, &body);
    if !pointers.is_empty() {
        return Some(Write::RemoveItems {
            kind: wanted.kind,
            name: wanted.name,
            resource_version: live.meta().resource_version.clone().unwrap_or_default(),
            pointers,
        });
    }
    let mut because = kit::drift::differences(&wanted.body, &body);
    let applied =
        live.meta().annotations.as_ref().and_then(|all| all.get(api::keys::APPLIED)).map(String::as_str);
    if because.is_empty() && applied == wanted.digest() {
        return None;
    }
    because.truncate(8);
    Some(Write::Apply { wanted, create: false, because })
}

/// An object that has a name we need, and belongs to something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collision {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) holder: String,
}

/// Describe who holds a name that we need.
pub(crate) fn collision(kind: Kind, name: &str, meta: &ObjectMeta) -> Collision {
    Collision { kind, name: name.to_owned(), holder: holder(meta) }
}

/// Whom an object belongs to.
pub(crate) fn holder(meta: &ObjectMeta) -> String {
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    owner.map_or_else(|| "somebody else".to_owned(), |owner| format!("{} {}", owner.kind, owner.name))
}

/// Whether this is the controller of an object: the uid decides, because a name can be used again.
pub(crate) fn controlled_by(meta: &ObjectMeta, uid: Option<&str>) -> bool {
    meta.owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
}

/// What came of a write.
enum Performed {
    /// `Kind name`.
    Written(String),
    Taken(Collision),
}

/// What stopped a list of writes.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Somebody else has a name that we need.
    Taken(Collision),
    Failed(kit::apply::Error),
}

/// Who writes, and where.
pub(crate) struct Writer<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) manager: &'static str,
}

impl Writer<'_> {
    /// Write one after the other, ValkeyNodes and certificates at once, up to the first that does not work; `written` gets what was, as
    /// `Kind name`.
    pub(crate) async fn perform_all(
        &self,
        writes: &[Write],
        is_ours: impl Fn(Kind, &ObjectMeta) -> bool,
        written: &mut Vec<String>,
    ) -> Result<(), Stopped> {
        // Of everything else the order counts: passwords are stored before the file with their hashes.
        let independent =
            |write: &Write| matches!(write.kind(), Kind::ValkeyNode | Kind::ValkeyCertificateBinding);
        for alike in writes.chunk_by(|one, next| independent(one) && independent(next)) {
            let calls: Vec<_> = alike.iter().map(|write| self.perform(write, &is_ours)).collect();
            // To the end, also if one fails: a call that is given up may still be obeyed, and nobody would know.
            let performed: Vec<_> = futures::stream::iter(calls).buffered(PARALLEL).collect().await;
            let mut stopped = None;
            for performed in performed {
                match performed {
                    Ok(Performed::Written(what)) => written.push(what),
                    Ok(Performed::Taken(collision)) => {
                        stopped.get_or_insert(Stopped::Taken(collision));
                    }
                    Err(error) => {
                        stopped.get_or_insert(Stopped::Failed(error));
                    }
                }
            }
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Before something is created, whoever has the name is asked for, because the caches hold only objects with
    /// our label; it may be our own object, from which somebody took the label.
    async fn perform(
        &self,
        write: &Write,
        is_ours: impl Fn(Kind, &ObjectMeta) -> bool,
    ) -> Result<Performed, kit::apply::Error> {
        let (kind, name) = match write {
            Write::Apply { wanted, create, because } => {
                let objects = self.objects(wanted.kind);
                let mut force = true;
                if *create {
                    // Without force nothing is taken from anybody who was faster; what is ours is ours by force.
                    match objects.holder(&wanted.name).await? {
                        None => force = false,
                        Some(meta) if is_ours(wanted.kind, &meta) => {}
                        Some(meta) => {
                            return Ok(Performed::Taken(collision(wanted.kind, &wanted.name, &meta)));
                        }
                    }
                }
                objects.apply(&wanted.name, self.manager, &wanted.body, force).await?;
                if !create {
                    tracing::info!(kind = wanted.kind.name(), object = %wanted.name, ?because, "updated");
                }
                (wanted.kind, &wanted.name)
            }
            Write::Merge { kind, name, body } => {
                self.objects(*kind).merge(name, self.manager, body).await?;
                (*kind, name)
            }
            Write::RemoveItems { kind, name, resource_version, pointers } => {
                self.objects(*kind).remove_items(name, self.manager, resource_version, pointers).await?;
                tracing::info!(kind = kind.name(), object = %name, ?pointers, "removed what others had added");
                (*kind, name)
            }
            Write::Delete { kind, name, uid, resource_version } => {
                let deleted = self.objects(*kind).delete(name, uid, resource_version).await;
                // Somebody else was faster, or it changed: the next pass looks again.
                if let Err(error) = deleted.as_ref()
                    && !error.is_not_found()
                    && !error.is_conflict()
                {
                    deleted?;
                }
                tracing::info!(kind = kind.name(), object = %name, "deleted what nobody needs any more");
                (*kind, name)
            }
        };
        Ok(Performed::Written(format!("{} {name}", kind.name())))
    }

    /// Objects of a kind.
    pub(crate) fn objects(&self, kind: Kind) -> Objects {
        kind.objects(self.client, self.namespace)
    }
}
