//! The few ways in which objects are written: server-side apply, removal of foreign list items, deletion with
//! preconditions, one status write. Every call has a deadline.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::core::ApiResource;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snafu::{ResultExt as _, Snafu};

/// Longest time one call to the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why an object could not be written or read.
#[derive(Debug, Snafu)]
#[snafu(visibility(pub))]
pub enum Error {
    /// The API server answered with an error, or the connection failed.
    #[snafu(display("failed to {verb} {kind} {name}"))]
    Call {
        /// What was tried.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// The answer.
        #[snafu(source(from(kube::Error, Box::new)))]
        source: Box<kube::Error>,
    },
    /// No answer within the deadline.
    #[snafu(display("failed to {verb} {kind} {name}: no answer from the API server within {DEADLINE:?}"))]
    Deadline {
        /// What was tried.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
    },
}

impl Error {
    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Call { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Deadline { .. } => None,
        }
    }

    /// Somebody else changed the object in between (409): look again, it is not a failure.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// The object is gone (404).
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The API server will not take this object as it is (invalid, forbidden by quota or policy): its own words.
    pub fn refusal(&self) -> Option<&str> {
        self.status()
            .filter(|status| matches!(status.code, 400 | 403 | 413 | 422))
            .map(|status| status.message.as_str())
    }
}

async fn call<T>(
    verb: &'static str,
    kind: &str,
    name: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(answer) => answer.context(CallSnafu { verb, kind, name }),
        Err(_) => DeadlineSnafu { verb, kind, name }.fail(),
    }
}

/// Objects of one kind in one namespace.
#[derive(Clone)]
pub struct Objects {
    api: Api<DynamicObject>,
    kind: String,
}

impl Objects {
    /// Objects of kind `K` in a namespace.
    pub fn of<K>(client: &Client, namespace: &str) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = ApiResource::erase::<K>(&());
        Self { kind: resource.kind.clone(), api: Api::namespaced_with(client.clone(), namespace, &resource) }
    }

    /// Server-side apply. Only our own fields are taken back by force; without `force`, a field that another manager
    /// holds with another value is a conflict.
    pub async fn apply(
        &self,
        name: &str,
        manager: &str,
        body: &Value,
        force: bool,
    ) -> Result<DynamicObject, Error> {
        let mut parameters = PatchParams::apply(manager);
        parameters.force = force;
        call("apply", &self.kind, name, self.api.patch(name, &parameters, &Patch::Apply(body))).await
    }

    /// Merge a part of an object, only if it still is the one that was read.
    pub async fn merge(&self, name: &str, manager: &str, body: &Value) -> Result<DynamicObject, Error> {
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        call("patch", &self.kind, name, self.api.patch(name, &parameters, &Patch::Merge(body))).await
    }

    /// Take out list items that others added, only if the object still is the one that was read: indices would point
    /// at something else otherwise.
    pub async fn remove_items(
        &self,
        name: &str,
        manager: &str,
        resource_version: &str,
        pointers: &[String],
    ) -> Result<(), Error> {
        let mut operations =
            vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": resource_version})];
        operations.extend(pointers.iter().map(|pointer| json!({"op": "remove", "path": pointer})));
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let patch = JsonPatch(Value::Array(operations));
        call("patch", &self.kind, name, patch.send(&self.api, name, &parameters)).await
    }

    /// Who holds a name, if anybody: only the metadata is read.
    pub async fn holder(&self, name: &str) -> Result<Option<kube::core::ObjectMeta>, Error> {
        let found = call("get", &self.kind, name, self.api.get_metadata_opt(name)).await?;
        Ok(found.map(|object| object.metadata))
    }

    /// Delete exactly this object: not a newer one of the same name, and not one that changed since it was looked at.
    pub async fn delete(&self, name: &str, uid: &str, resource_version: &str) -> Result<(), Error> {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(resource_version.to_owned()),
            }),
            ..DeleteParams::default()
        };
        call("delete", &self.kind, name, self.api.delete(name, &parameters)).await.map(|_| ())
    }
}

/// A JSON patch without the types of another crate: it is built here and nowhere else.
struct JsonPatch(Value);

impl JsonPatch {
    async fn send(self, api: &Api<DynamicObject>, name: &str, parameters: &PatchParams) -> kube::Result<()> {
        let operations = serde_json::from_value(self.0).map_err(kube::Error::SerdeError)?;
        api.patch(name, parameters, &Patch::Json::<()>(operations)).await.map(|_| ())
    }
}

/// Read one object that is not in a cache.
pub async fn get<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    call("get", &K::kind(&()), name, api.get_opt(name)).await
}

/// Write the status, once per pass, and only the caller's view of it: the whole status is ours.
pub async fn write_status<K, S>(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
    manager: &str,
    status: &S,
) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
    S: Serialize + Sync,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    // The uid makes it a conflict instead of a write when a new object of the same name has taken the place.
    let body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name, "uid": uid},
        "status": status,
    });
    let parameters = PatchParams::apply(manager).force();
    call("write status of", &K::kind(&()), name, api.patch_status(name, &parameters, &Patch::Apply(&body)))
        .await
        .map(|_| ())
}
