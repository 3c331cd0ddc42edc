//! What kubelets may read besides what the node authorizer lets them.
//!
//! That one learns from a watch which claims the pods of a node use. On a busy machine a kubelet is faster: it is refused, and
//! tries again only ten seconds later, so that one pod in ten would start that much later than it could.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::Api;
use serde_json::json;

use crate::own_objects::{self, ApplyError};

const NAME: &str = "devcluster:kubelets";

/// Lets every kubelet read claims.
pub(crate) async fn apply(client: &Client) -> Result<(), ApplyError> {
    let roles = Api::<ClusterRole>::all(client.clone());
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "rules": [{"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get"]}],
    });
    own_objects::apply(&roles, NAME, role).await?;
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    });
    own_objects::apply(&bindings, NAME, binding).await
}
