//! Claims and Secrets stay unless the spec asks for their removal.

use std::collections::BTreeMap;

use devcluster::AuditEntry;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::Violation;
use crate::World;
use crate::objects::{Kind, uid};

/// What must be kept, by the plural of its kind in the API.
const KEPT: [&str; 2] = ["persistentvolumeclaims", "secrets"];

/// The claims and Secrets of a namespace at some moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The uid of each object, by `kind/name`.
    pub objects: BTreeMap<String, String>,
}

impl Inventory {
    /// What is there now.
    pub async fn of(world: &World) -> Self {
        let mut objects = BTreeMap::new();
        note::<PersistentVolumeClaim>(world, &mut objects).await;
        note::<Secret>(world, &mut objects).await;
        Self { objects }
    }

    /// What is gone or replaced since this was noted. `asked` names objects (`kind/name`) that may be.
    pub fn changes(&self, now: &Self, asked: &[&str]) -> Vec<Violation> {
        let objects = self.objects.iter().filter(|(name, _)| !asked.contains(&name.as_str()));
        let judge = |(name, before): (&String, &String)| {
            let what = match now.objects.get(name) {
                None => "deleted",
                Some(uid) if uid != before => "replaced",
                Some(_) => return None,
            };
            Some(Violation::NotKept { object: name.clone(), what: what.to_owned() })
        };
        objects.filter_map(judge).collect()
    }
}

async fn note<K: Kind>(world: &World, objects: &mut BTreeMap<String, String>) {
    for object in world.api::<K>().list(&ListParams::default()).await.expect("should list") {
        objects.insert(format!("{}/{}", K::plural(&()), object.name_any()), uid(&object));
    }
}

/// Deletions of claims and Secrets in a namespace that the API server carried out for somebody whose name contains
/// `user`. Unlike an [`Inventory`] this sees an object that was deleted and made again in between.
pub fn deletions(calls: &[AuditEntry], namespace: &str, user: &str, asked: &[&str]) -> Vec<Violation> {
    let matches = |call: &&AuditEntry| {
        call.verb.starts_with("delete")
            && call.code < 300
            && call.namespace == namespace
            && call.user.contains(user)
            && call.subresource.is_empty()
            && KEPT.contains(&call.resource.as_str())
    };
    let deletions =
        calls.iter().filter(matches).map(|call| (format!("{}/{}", call.resource, call.name), call));
    deletions
        .filter(|(object, _)| !asked.contains(&object.as_str()))
        .map(|(object, call)| Violation::NotKept {
            object,
            what: format!("deleted by {} at {}", call.user, call.at),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn what_is_gone_or_replaced_is_told() {
        let inventory = |objects: &[(&str, &str)]| Inventory {
            objects: objects.iter().map(|(name, uid)| ((*name).to_owned(), (*uid).to_owned())).collect(),
        };
        let before = inventory(&[("secrets/a", "1"), ("secrets/b", "2"), ("persistentvolumeclaims/c", "3")]);
        let after = inventory(&[("secrets/a", "1"), ("secrets/b", "9"), ("secrets/new", "4")]);
        let changes = |asked: &[&str]| {
            let changes = before.changes(&after, asked);
            changes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            changes(&[]),
            [
                "persistentvolumeclaims/c was deleted and nobody asked for that",
                "secrets/b was replaced and nobody asked for that"
            ]
        );
        assert_eq!(changes(&["persistentvolumeclaims/c", "secrets/b"]), Vec::<String>::new());
    }

    #[test]
    fn deletions_are_found_in_the_record_of_calls() {
        let call = |verb: &str, resource: &str, user: &str, code| AuditEntry {
            at: Timestamp::UNIX_EPOCH,
            verb: verb.to_owned(),
            user: user.to_owned(),
            user_agent: String::new(),
            group: String::new(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: "here".to_owned(),
            name: "x".to_owned(),
            code,
        };
        let calls = [
            call("delete", "secrets", "the-operator", 200),
            call("delete", "secrets", "a-user", 200),
            call("delete", "secrets", "the-operator", 409),
            call("patch", "secrets", "the-operator", 200),
            call("delete", "pods", "the-operator", 200),
        ];
        assert_eq!(deletions(&calls, "here", "operator", &[]).len(), 1);
        assert_eq!(deletions(&calls, "here", "operator", &["secrets/x"]), []);
        assert_eq!(deletions(&calls, "elsewhere", "operator", &[]), []);
    }
}
