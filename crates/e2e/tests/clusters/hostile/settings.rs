//! Directives that are refused or not the user's, and specs that cannot be built: no server is touched.

use serde_json::json;

use super::row::{Reported, directive, held_back, unbuildable};

pub(super) fn rows() -> Vec<Reported> {
    const REFUSED: &str = "DirectiveRefused";
    const IGNORED: &str = "DirectiveIgnored";
    let always = json!({"exec": {"command": ["true"]}});
    let sleeps = json!({"name": "valkey", "command": ["sleep", "infinity"]});
    vec![
        directive("a directive nobody knows", json!({"no-such-thing": "1"}), REFUSED, &["no-such-thing"]),
        directive("memory that is no amount", json!({"maxmemory": "lots"}), REFUSED, &["maxmemory"]),
        directive(
            "a policy nobody knows",
            json!({"maxmemory-policy": "sometimes"}),
            REFUSED,
            &["maxmemory-policy"],
        ),
        directive(
            "a number out of range",
            json!({"maxmemory-samples": "0"}),
            REFUSED,
            &["maxmemory-samples"],
        ),
        directive(
            "quotes around another directive",
            json!({"save": "900 1\" \"include /etc/passwd"}),
            REFUSED,
            &["save"],
        ),
        directive(
            "a good one beside a bad one",
            json!({"hz": "20", "maxmemory-samples": "-1"}),
            REFUSED,
            &["maxmemory-samples"],
        ),
        directive("another file", json!({"include": "/etc/passwd"}), IGNORED, &["include"]),
        directive(
            "another name for a command",
            json!({"rename-command": "ACL \"\""}),
            IGNORED,
            &["rename-command"],
        ),
        directive("another password", json!({"requirepass": "x"}), IGNORED, &["requirepass"]),
        directive("another users file", json!({"ACLFile": "/tmp/x"}), IGNORED, &["ACLFile"]),
        directive("another user", json!({"user": "evil on nopass +@all ~*"}), IGNORED, &["user"]),
        directive(
            "no cluster any more",
            json!({"cluster-enabled": "no", "port": "1"}),
            IGNORED,
            &["cluster-enabled", "port"],
        ),
        unbuildable(
            "two spellings",
            json!({"config": {"hz": "10", "HZ": "20"}}),
            "InvalidSpec",
            &["spec.config", "hz", "twice"],
        ),
        unbuildable(
            "another program by way of the template",
            json!({"podTemplate": {"spec": {"containers": [sleeps]}}}),
            "InvalidSpec",
            &["spec.podTemplate.spec.containers[0].command", "cannot be replaced"],
        ),
        unbuildable(
            "no look of ours at the server",
            json!({"containers": [{"name": "server", "startupProbe": always, "readinessProbe": always}]}),
            "InvalidSpec",
            &["spec.containers", "startupProbe and readinessProbe", "cannot both be replaced"],
        ),
        unbuildable(
            "a node that is somebody else's",
            json!({"shards": 2}),
            "NameCollision",
            &["ValkeyNode tuned-1-0", "remove that object"],
        ),
        held_back(
            "a restart that would lose everything",
            json!({"podTemplate": {"metadata": {"labels": {"team": "a"}}}}),
            "NoReplicaInSync",
            &["tuned-0-0", "add a replica", "valkey.io/accept-data-loss"],
        ),
    ]
}
