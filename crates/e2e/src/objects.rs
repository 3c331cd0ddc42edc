//! Reading and writing any kind of object in a world's namespace.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::World;

/// What every kind in these tests is.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Serialize
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + Debug
        + Send
        + Sync
        + 'static
{
}

impl World {
    /// Objects of kind `K` in the namespace.
    pub fn api<K: Kind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The object, if it exists.
    pub async fn find<K: Kind>(&self, name: &str) -> Option<K> {
        self.api::<K>().get_opt(name).await.expect("should be able to read")
    }

    /// The object.
    pub async fn get<K: Kind>(&self, name: &str) -> K {
        self.find(name).await.unwrap_or_else(|| panic!("{} {name} should exist", K::kind(&())))
    }

    /// Create an object from JSON.
    pub async fn create<K: Kind>(&self, body: Value) -> K {
        let object: K = serde_json::from_value(body).expect("should be an object of this kind");
        self.api::<K>().create(&PostParams::default(), &object).await.expect("should be created")
    }

    /// Merge a change into an object, as a user would with `kubectl patch`.
    pub async fn patch<K: Kind>(&self, name: &str, change: Value) -> K {
        let user = PatchParams { field_manager: Some("a-user".to_owned()), ..PatchParams::default() };
        self.api::<K>().patch(name, &user, &Patch::Merge(change)).await.expect("should be patched")
    }

    /// Merge a change into an object strategically, as `kubectl set` does.
    pub async fn patch_strategic<K: Kind>(&self, name: &str, change: Value) -> K {
        let user = PatchParams { field_manager: Some("a-user".to_owned()), ..PatchParams::default() };
        self.api::<K>().patch(name, &user, &Patch::Strategic(change)).await.expect("should be patched")
    }

    /// Delete an object.
    pub async fn delete<K: Kind>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::default()).await.expect("should be deleted");
    }
}

/// The uid of an object.
pub fn uid<K: Kind>(object: &K) -> String {
    object.meta().uid.clone().expect("should have a uid")
}
