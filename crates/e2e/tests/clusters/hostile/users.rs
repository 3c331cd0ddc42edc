//! Users and Secrets that cannot be. What the servers know of their users stays as it is.

use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::row::{Input, Reported, user};
use e2e::World;

/// The Secret of the good user of the cluster `people`.
const PASSWORDS: &str = "people-passwords";
/// A Secret whose values are no passwords.
const UNUSABLE: &str = "unusable";
const MISSING: &str = "PasswordSecretMissing";
const REFUSED: &str = "UsersRefused";

/// What the rows name.
pub(super) async fn prepare(world: &World) {
    let texts = json!({
        "empty": "", "newline": "first\nsecond", "null": "a\u{0}b", "hash": format!("#{}", "a".repeat(63)),
        "long": "x".repeat(1_000_000),
    });
    let secret = json!({"metadata": {"name": UNUSABLE}, "stringData": texts, "data": {"binary": "/wCA/w=="}});
    world.create::<Secret>(secret).await;
}

/// The good user and a bad one: neither may change alone.
fn with(bad: Value) -> Input {
    let mut bad = bad;
    bad["name"] = json!("late");
    Input::Spec(json!({"users": [{"name": "app", "nopass": true, "permissions": "+@all ~*"}, bad]}))
}

fn key(key: &str) -> Input {
    with(json!({"passwordSecret": {"name": UNUSABLE, "keys": [key]}}))
}

fn may(permissions: &str) -> Input {
    with(json!({"nopass": true, "permissions": permissions}))
}

pub(super) fn rows() -> Vec<Reported> {
    let passwords = |data: Value| Input::Passwords(json!({"data": data}));
    vec![
        user(
            "no such Secret",
            with(json!({"passwordSecret": {"name": "not-there"}})),
            MISSING,
            &["not-there", "late", "does not exist"],
        ),
        user(
            "the Secret of nobody",
            with(json!({})),
            MISSING,
            &["Secret people-users", "late", "does not exist"],
        ),
        user("no such key", key("nothing"), MISSING, &[UNUSABLE, "no key \"nothing\"", "late"]),
        user("an empty password", key("empty"), MISSING, &[UNUSABLE, "key \"empty\"", "is empty"]),
        user("a password of bytes", key("binary"), MISSING, &[UNUSABLE, "key \"binary\"", "is not text"]),
        user(
            "a password with a null",
            key("null"),
            MISSING,
            &[UNUSABLE, "key \"null\"", "not one line of text"],
        ),
        user(
            "a password of two lines",
            key("newline"),
            MISSING,
            &[UNUSABLE, "key \"newline\"", "not one line of text"],
        ),
        user("a password of a megabyte", key("long"), MISSING, &[UNUSABLE, "key \"long\"", "16384 bytes"]),
        user("nearly a hash", key("hash"), MISSING, &[UNUSABLE, "key \"hash\"", "64 hexadecimal digits"]),
        user(
            "a command nobody knows",
            may("+no-such-command"),
            REFUSED,
            &["user late", "no-such-command", "Unknown command"],
        ),
        user("a category nobody knows", may("+@no-such"), REFUSED, &["user late", "@no-such"]),
        user(
            "a subcommand nobody knows",
            with(json!({"nopass": true, "commands": {"allow": ["config|eat"]}})),
            REFUSED,
            &["user late", "config|eat"],
        ),
        user("a rule that is none", may("gibberish"), REFUSED, &["user late", "gibberish", "Syntax error"]),
        user("a selector in a selector", may("(+get (+set))"), REFUSED, &["user late", "Syntax error"]),
        user("a key beside all keys", may("allkeys ~x"), REFUSED, &["user late", "~x"]),
        user(
            "a password that became empty",
            passwords(json!({"app": ""})),
            MISSING,
            &[PASSWORDS, "\"app\"", "is empty"],
        ),
        user(
            "a password that became bytes",
            passwords(json!({"app": "/wCA/w=="})),
            MISSING,
            &[PASSWORDS, "\"app\"", "is not text"],
        ),
        user(
            "a password that is gone",
            passwords(json!({"app": null})),
            MISSING,
            &[PASSWORDS, "no key \"app\""],
        ),
        user(
            "a Secret that is gone",
            Input::NoPasswords,
            MISSING,
            &[PASSWORDS, "user app", "does not exist"],
        ),
    ]
}
