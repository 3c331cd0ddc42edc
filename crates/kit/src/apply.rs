//! The few ways in which objects are written: server-side apply, removal of foreign list items, deletion with
//! preconditions, one status write. Every call has a deadline.

use std::fmt::Debug;
use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
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

    /// The namespace is being deleted: what was in it goes, and nothing new comes.
    pub fn is_namespace_ending(&self) -> bool {
        matches!(self, Self::Call { source, .. } if is_namespace_ending(source))
    }

    /// The API server will not take this object as it is (invalid, forbidden by quota or policy): its own words.
    pub fn refusal(&self) -> Option<&str> {
        self.status()
            .filter(|status| matches!(status.code, 400 | 403 | 413 | 422))
            .map(|status| status.message.as_str())
    }
}

/// Whether a call was refused because the namespace is being deleted.
pub fn is_namespace_ending(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
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
        Self::of_resource(client, namespace, &ApiResource::erase::<K>(&()))
    }

    /// Objects of a kind that we have no type of.
    pub fn of_resource(client: &Client, namespace: &str, resource: &ApiResource) -> Self {
        Self { kind: resource.kind.clone(), api: Api::namespaced_with(client.clone(), namespace, resource) }
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

    /// Create an object of this name; if there is one already, that is a conflict.
    pub async fn create(&self, name: &str, manager: &str, body: &Value) -> Result<(), Error> {
        let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let object = serde_json::from_value(body.clone()).map_err(kube::Error::SerdeError);
        let object = object.context(CallSnafu { verb: "create", kind: &self.kind, name })?;
        call("create", &self.kind, name, self.api.create(&parameters, &object)).await.map(|_| ())
    }

    /// Merge a part of a built-in object, lists by their keys; only if it still is the one that was read.
    pub async fn merge(&self, name: &str, manager: &str, body: &Value) -> Result<DynamicObject, Error> {
        let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        call("patch", &self.kind, name, self.api.patch(name, &parameters, &Patch::Strategic(body))).await
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
            vec![json!({"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version})];
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
        self.delete_within(name, uid, resource_version, None).await
    }

    /// The same, for a pod that has other than its own time to end. Never none: nobody would wait for its end then.
    pub async fn delete_within(
        &self,
        name: &str,
        uid: &str,
        resource_version: &str,
        grace: Option<NonZeroU32>,
    ) -> Result<(), Error> {
        let parameters = DeleteParams {
            grace_period_seconds: grace.map(NonZeroU32::get),
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
    api: &Api<K>,
    name: &str,
    uid: &str,
    manager: &str,
    status: &S,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Serialize + Sync,
{
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Service};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::testing::{self, Call, Calls, failure, object};

    const PODS: &str = "/api/v1/namespaces/team/pods/valkey-alpha-0";

    fn pods_answering(code: u16, reason: &'static str) -> Objects {
        let (client, _) = testing::client(move |_| async move { failure(code, reason, "spec.x: is wrong") });
        Objects::of::<Pod>(&client, "team")
    }

    fn content() -> (Client, Calls) {
        testing::client(|_| async {
            object(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "valkey-alpha-0"}}))
        })
    }

    fn only(calls: &Calls) -> Call {
        let mut all = calls.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[tokio::test]
    async fn an_object_is_applied_under_its_manager_and_by_force_only_when_asked() {
        for (force, parameter) in [(true, Some("true")), (false, None)] {
            let (client, calls) = content();
            let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
            Objects::of::<Service>(&client, "team")
                .apply("s", "me", &body, force)
                .await
                .expect("should be applied");
            let call = only(&calls);
            assert_eq!(
                (call.method.as_str(), call.path.as_str()),
                ("PATCH", "/api/v1/namespaces/team/services/s")
            );
            assert_eq!(call.content_type, "application/apply-patch+yaml");
            assert_eq!(call.parameter("fieldManager"), Some("me"));
            assert_eq!(call.parameter("force"), parameter);
            assert_eq!(call.body, body);
        }
    }

    #[tokio::test]
    async fn an_object_is_created_under_its_manager_and_never_over_another() {
        let (client, calls) = content();
        let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "valkey-alpha-0"}});
        Objects::of::<Pod>(&client, "team")
            .create("valkey-alpha-0", "me", &body)
            .await
            .expect("should be created");
        let call = only(&calls);
        assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/api/v1/namespaces/team/pods"));
        assert_eq!(call.parameter("fieldManager"), Some("me"));
        assert_eq!(call.body["metadata"]["name"], "valkey-alpha-0");
        let there = pods_answering(409, "AlreadyExists").create("valkey-alpha-0", "me", &body).await;
        assert!(there.expect_err("should be refused").is_conflict());
    }

    #[tokio::test]
    async fn a_part_is_merged_under_the_manager_without_force() {
        let (client, calls) = content();
        let body = json!({"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 1}});
        Objects::of::<Pod>(&client, "team")
            .merge("valkey-alpha-0", "me", &body)
            .await
            .expect("should be merged");
        let call = only(&calls);
        assert_eq!((call.method.as_str(), call.path.as_str()), ("PATCH", PODS));
        assert_eq!(call.content_type, "application/strategic-merge-patch+json");
        assert_eq!((call.parameter("fieldManager"), call.parameter("force")), (Some("me"), None));
        assert_eq!(call.body, body);
    }

    #[tokio::test]
    async fn foreign_items_are_removed_only_from_the_version_that_was_read() {
        let (client, calls) = content();
        let pointers = ["/spec/volumes/2".to_owned(), "/spec/volumes/1".to_owned()];
        Objects::of::<Pod>(&client, "team")
            .remove_items("valkey-alpha-0", "me", "7", &pointers)
            .await
            .expect("should be patched");
        let call = only(&calls);
        assert_eq!(call.content_type, "application/json-patch+json");
        assert_eq!(
            call.body,
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "remove", "path": "/spec/volumes/2"},
                {"op": "remove", "path": "/spec/volumes/1"},
            ])
        );
    }

    #[tokio::test]
    async fn a_deletion_names_the_uid_and_the_version_that_were_seen() {
        let (client, calls) = content();
        Objects::of::<Pod>(&client, "team")
            .delete("valkey-alpha-0", "uid-1", "7")
            .await
            .expect("should be deleted");
        let call = only(&calls);
        assert_eq!((call.method.as_str(), call.path.as_str()), ("DELETE", PODS));
        assert_eq!(call.body["preconditions"], json!({"uid": "uid-1", "resourceVersion": "7"}));
    }

    #[tokio::test]
    async fn a_namespace_that_ends_is_told_from_other_refusals() {
        for (cause, ends) in [("NamespaceTerminating", true), ("QuotaExceeded", false)] {
            let (client, _) = testing::client(move |_| async move {
                let (code, status) = failure(403, "Forbidden", "no more of it");
                let mut status: Value = serde_json::from_str(&status).expect("should be JSON");
                status["details"] = json!({"causes": [{"reason": cause, "message": "", "field": ""}]});
                (code, status.to_string())
            });
            let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
            let refused = Objects::of::<Pod>(&client, "team").apply("p", "me", &body, true).await;
            let error = refused.expect_err("should be refused");
            assert_eq!((error.is_namespace_ending(), error.refusal()), (ends, Some("no more of it")));
        }
    }

    #[tokio::test]
    async fn a_status_is_written_to_the_subresource_of_exactly_this_object() {
        let (client, calls) = content();
        let status = json!({"phase": "Running"});
        write_status(&Api::<Pod>::namespaced(client, "team"), "valkey-alpha-0", "uid-1", "me", &status)
            .await
            .expect("should be written");
        let call = only(&calls);
        assert_eq!((call.method.as_str(), call.path), ("PATCH", format!("{PODS}/status")));
        assert_eq!(call.content_type, "application/apply-patch+yaml");
        assert_eq!(call.body["metadata"], json!({"name": "valkey-alpha-0", "uid": "uid-1"}));
        assert_eq!(call.body["status"], status);
    }

    #[tokio::test]
    async fn answers_of_the_api_server_are_told_apart() {
        for (code, reason, not_found, conflict, refused) in [
            (404, "NotFound", true, false, false),
            (409, "Conflict", false, true, false),
            (422, "Invalid", false, false, true),
            (403, "Forbidden", false, false, true),
            (400, "BadRequest", false, false, true),
            (500, "InternalError", false, false, false),
            (429, "TooManyRequests", false, false, false),
        ] {
            let error = pods_answering(code, reason)
                .delete("valkey-alpha-0", "uid-1", "7")
                .await
                .expect_err("should be refused");
            assert_eq!(
                (error.is_not_found(), error.is_conflict(), error.refusal()),
                (not_found, conflict, refused.then_some("spec.x: is wrong")),
                "{code}"
            );
        }
    }

    #[tokio::test]
    async fn nobody_holds_a_name_that_is_not_found() {
        let found = pods_answering(404, "NotFound").holder("valkey-alpha-0").await;
        assert!(found.expect("should be an answer").is_none());
        let (client, calls) = content();
        let found = Objects::of::<Pod>(&client, "team").holder("valkey-alpha-0").await;
        let holder = found.expect("should be an answer").expect("should be held");
        assert_eq!(holder.name.as_deref(), Some("valkey-alpha-0"));
        assert_eq!((only(&calls).method.as_str(), only(&calls).path.as_str()), ("GET", PODS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_api_server_is_given_up_at_the_deadline() {
        let (client, _) = testing::client(|_| std::future::pending());
        let started = tokio::time::Instant::now();
        let error = Objects::of::<Pod>(&client, "team")
            .apply("valkey-alpha-0", "me", &json!({}), true)
            .await
            .expect_err("should be given up");
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
        assert_eq!((error.is_not_found(), error.is_conflict(), error.refusal()), (false, false, None));
        assert_eq!(started.elapsed().as_secs(), DEADLINE.as_secs());
    }
}
