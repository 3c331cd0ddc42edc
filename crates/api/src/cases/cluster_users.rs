//! Rows for `spec.users` of a `ValkeyCluster`.

use serde_json::{Value, json};

use super::{Case, Rows, cluster};

const RESERVED: &str = "usernames starting with '_' are reserved for system users";
const PASSWORDS: &str = "permissions cannot contain passwords";

pub(super) fn cases() -> Vec<Case> {
    let rows = cluster::rows();
    [accepted(&rows), names(&rows), passwords(&rows), permissions(&rows), lists(&rows), updates(&rows)]
        .concat()
}

fn of(users: &Value) -> Value {
    json!({"users": users})
}

/// One user called `app` with these fields.
fn app(fields: &Value) -> Value {
    let mut user = json!({"name": "app"});
    if let (Some(user), Some(fields)) = (user.as_object_mut(), fields.as_object()) {
        user.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    of(&json!([user]))
}

fn called(name: &str) -> Value {
    of(&json!([{"name": name}]))
}

fn accepted(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create(
            "users with everything",
            &of(&json!([
                {
                    "name": "alice",
                    "enabled": true,
                    "passwordSecret": {"name": "passwords", "keys": ["alice-old", "alice-new"]},
                    "commands": {"allow": ["@read", "@write", "config|get", "json.set"], "deny": ["@dangerous", "client|no-evict"]},
                    "keys": {"readWrite": ["app:*", "{tag}:?"], "readOnly": ["shared:*"], "writeOnly": ["log:*"]},
                    "channels": {"patterns": ["news:*"]},
                    "permissions": "+client|setname (+get ~other:*)",
                },
                {"name": "bob", "nopass": true, "permissions": "+@all -@admin ~* &*"},
                {"name": "carol", "enabled": false, "commands": {"allow": ["@read"]}, "keys": {"readOnly": ["*"]}},
                {"name": "dave", "resetpass": true, "nopass": true, "permissions": "+@admin"},
            ])),
            None,
        ),
        rows.create(
            "what a Go program writes for a user without a password",
            &of(&json!([{"name": "a@b", "nopass": true, "passwordSecret": {}, "commands": {}, "keys": {}, "channels": {}}])),
            None,
        ),
        rows.create("the default user", &of(&json!([{"name": "default", "enabled": false}])), None),
        rows.create("a password by convention", &app(&json!({"passwordSecret": {}})), None),
        rows.create("a name with a sign", &of(&json!([{"name": "alice@example.com", "passwordSecret": {"keys": ["alice"]}}])), None),
        rows.create("a name in another script", &called("アリス"), None),
        rows.create("nopass spelled out", &app(&json!({"nopass": false, "passwordSecret": {}})), None),
        rows.create("a pattern with the signs of passwords", &app(&json!({"permissions": "~a>b ~c#d &!e"})), None),
    ]
}

fn names(rows: &Rows) -> Vec<Case> {
    let many: Vec<Value> = (0..129).map(|number| json!({"name": format!("u{number}")})).collect();
    vec![
        rows.create("a system user", &called("_operator"), Some(RESERVED)),
        rows.create("an underscore alone", &called("_"), Some(RESERVED)),
        rows.create("a user without a name", &of(&json!([{"nopass": true}])), Some("users[0].name")),
        rows.create("an empty name", &called(""), Some("users[0].name")),
        rows.create("a name that is too long", &called(&"u".repeat(129)), Some("users[0].name")),
        rows.create("a name with a space", &called("a b"), Some("the name of a user cannot contain spaces")),
        rows.create(
            "a name with another line",
            &called("a\nuser b on"),
            Some("the name of a user cannot contain spaces"),
        ),
        rows.create("a name with a null", &called("a\0"), Some("the name of a user cannot contain spaces")),
        rows.create(
            "the same name twice",
            &of(&json!([{"name": "a"}, {"name": "a"}])),
            Some("spec.users[1]"),
        ),
        rows.create("too many users", &of(&json!(many)), Some("spec.users")),
    ]
}

fn passwords(rows: &Rows) -> Vec<Case> {
    vec![
        rows.create(
            "a password that nobody asks for",
            &app(&json!({"nopass": true, "passwordSecret": {"name": "s"}})),
            Some("nopass and passwordSecret exclude each other"),
        ),
        rows.create(
            "keys that nobody asks for",
            &app(&json!({"nopass": true, "passwordSecret": {"keys": ["k"]}})),
            Some("nopass and passwordSecret exclude each other"),
        ),
        rows.create(
            "a name that is no key",
            &of(&json!([{"name": "alice@example.com", "passwordSecret": {"name": "s"}}])),
            Some("cannot be a key of a Secret"),
        ),
        rows.create(
            "a key that is none",
            &app(&json!({"passwordSecret": {"keys": ["a/b"]}})),
            Some("passwordSecret.keys[0]"),
        ),
        rows.create(
            "a name that no Secret has",
            &app(&json!({"passwordSecret": {"name": "a,metadata.name!=b"}})),
            Some("passwordSecret.name"),
        ),
        rows.create(
            "too many passwords",
            &app(&json!({"passwordSecret": {"keys": vec!["k"; 17]}})),
            Some("passwordSecret.keys"),
        ),
        rows.create(
            "a password in clear",
            &app(&json!({"passwordSecret": "secret"})),
            Some("passwordSecret"),
        ),
    ]
}

fn permissions(rows: &Rows) -> Vec<Case> {
    let with = |permissions: &str| app(&json!({"permissions": permissions}));
    vec![
        rows.create("a password among the permissions", &with("+@all ~* >secret"), Some(PASSWORDS)),
        rows.create("a password before the permissions", &with(">secret +@all"), Some(PASSWORDS)),
        rows.create("a hash among the permissions", &with("+@all #0123"), Some(PASSWORDS)),
        rows.create("a password that is taken away", &with("<secret"), Some(PASSWORDS)),
        rows.create("a hash that is taken away", &with("+get !0123"), Some(PASSWORDS)),
        rows.create(
            "another user below the permissions",
            &with("+get\nuser evil on nopass +@all"),
            Some("one line of ACL rules"),
        ),
        rows.create("a carriage return", &with("+get\r+set"), Some("one line of ACL rules")),
        rows.create("a tab", &with("+get\t>secret"), Some("one line of ACL rules")),
        rows.create(
            "a selector without an end",
            &with("+ping (+get ~*"),
            Some("a selector that is not closed"),
        ),
        rows.create(
            "a selector without an end after one with an end",
            &with("(+get ~a) ( +set ~b"),
            Some("a selector that is not closed"),
        ),
        rows.create(
            "selectors of all kinds",
            &with(" +ping  (+get ~a:*)  ( +set ~b) () (%R~(c (+get) ~d) ~e( "),
            None,
        ),
        rows.create(
            "a word that undoes the others",
            &with("+get RESET"),
            Some("permissions cannot contain reset"),
        ),
        rows.create("words that look like it", &with("+reset -reset resetkeys resetchannels ~reset"), None),
        rows.create(
            "permissions that are too long",
            &with(&"+get ".repeat(1000)),
            Some("users[0].permissions"),
        ),
    ]
}

fn lists(rows: &Rows) -> Vec<Case> {
    let commands = |list: &str, item: &str| app(&json!({"commands": {(list): [item]}}));
    let keys = |list: &str, item: &str| app(&json!({"keys": {(list): ["ok", item]}}));
    vec![
        rows.create("a sign before a command", &commands("allow", "+get"), Some("commands.allow: each item")),
        rows.create(
            "several commands in one",
            &commands("allow", "get set"),
            Some("commands.allow: each item"),
        ),
        rows.create(
            "a password as a command",
            &commands("allow", "get >secret"),
            Some("commands.allow: each item"),
        ),
        rows.create(
            "a sign before a denied command",
            &commands("deny", "-@all"),
            Some("commands.deny: each item"),
        ),
        rows.create("an empty command", &commands("deny", ""), Some("commands.deny[0]")),
        rows.create(
            "a pattern with a space",
            &keys("readWrite", "a b"),
            Some("a pattern of keys cannot contain spaces"),
        ),
        rows.create(
            "a pattern with a newline",
            &keys("readOnly", "a\n"),
            Some("a pattern of keys cannot contain spaces"),
        ),
        rows.create(
            "a pattern with a null",
            &keys("writeOnly", "a\0"),
            Some("a pattern of keys cannot contain spaces"),
        ),
        rows.create("a pattern that is too long", &keys("writeOnly", &"k".repeat(257)), Some("writeOnly[1]")),
        rows.create(
            "a channel with a space",
            &app(&json!({"channels": {"patterns": ["a >secret"]}})),
            Some("a pattern of channels cannot contain spaces"),
        ),
        rows.create(
            "too many patterns",
            &app(&json!({"channels": {"patterns": vec!["a"; 129]}})),
            Some("channels.patterns"),
        ),
    ]
}

fn updates(rows: &Rows) -> Vec<Case> {
    vec![
        rows.update("a user is added", &json!({}), &called("app"), None),
        rows.update("a user is removed", &called("app"), &json!({}), None),
        rows.update("a user gets another name", &called("app"), &called("web"), None),
        rows.update("a user becomes a system user", &called("app"), &called("_app"), Some(RESERVED)),
    ]
}
