//! The ACL users of a cluster: what they may do, and where their passwords are.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Rule for patterns: in a users file, anything else would begin another rule or another user.
const ONE_WORD_EACH: &str = r"!self.exists(item, item.matches('[\\x00-\\x20\\x7f]'))";
/// Rule for commands and categories.
const COMMANDS: &str = r"self.all(item, item.matches('^@?[A-Za-z0-9][A-Za-z0-9_.|-]*$'))";
/// Rule for selectors, as servers read them: from a word that begins with a parenthesis to the next that ends with one.
const CLOSED_SELECTORS: &str =
    "self.matches('^ *(([^( ][^ ]*|[(][^ ]*[)]|[(]([^ ]*[^) ])?( +[^ ]*[^) ])* +[^ ]*[)])( +|$))*$')";

/// Where a user's passwords are. A value of the form `#<64 hexadecimal digits>` is taken as the SHA-256 of a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasswordSecret {
    /// Name of the Secret in the cluster's namespace; `<cluster>-users` if not given.
    #[serde(default, deserialize_with = "crate::absent::if_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"))]
    pub name: Option<String>,
    /// Keys of the Secret, one password each: all of them are valid at once. The user's name if not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$")))]
    pub keys: Vec<String>,
}

/// Commands and categories, for example `@read`, `get` or `config|get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserCommands {
    /// What the user may run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = Rule::new(COMMANDS).message("commands.allow: each item is a category, a command or command|subcommand, without +: for example @read, get, config|get"))]
    pub allow: Vec<String>,
    /// What the user may not run, taken from what is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = Rule::new(COMMANDS).message("commands.deny: each item is a category, a command or command|subcommand, without -: for example @read, get, config|get"))]
    pub deny: Vec<String>,
}

/// Patterns of keys, for example `cache:*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserKeys {
    /// Keys the user may read and write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new(ONE_WORD_EACH).message("a pattern of keys cannot contain spaces or control characters; write ? in their place"))]
    pub read_write: Vec<String>,
    /// Keys the user may read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new(ONE_WORD_EACH).message("a pattern of keys cannot contain spaces or control characters; write ? in their place"))]
    pub read_only: Vec<String>,
    /// Keys the user may write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new(ONE_WORD_EACH).message("a pattern of keys cannot contain spaces or control characters; write ? in their place"))]
    pub write_only: Vec<String>,
}

/// Channels of publish and subscribe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserChannels {
    /// Patterns of channels, for example `news:*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(min = 1, max = 256)))]
    #[x_kube(validation = Rule::new(ONE_WORD_EACH).message("a pattern of channels cannot contain spaces or control characters; write ? in their place"))]
    pub patterns: Vec<String>,
}

/// One ACL user. A user without `commands`, `keys`, `channels` or `permissions` may log in and do nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.nopass) || !self.nopass || !has(self.passwordSecret) || ((!has(self.passwordSecret.name) || self.passwordSecret.name == '') && !has(self.passwordSecret.keys))")
    .message("nopass and passwordSecret exclude each other: with nopass any password is accepted"))]
#[x_kube(validation = Rule::new("!has(self.passwordSecret) || (has(self.nopass) && self.nopass) || (has(self.passwordSecret.keys) && self.passwordSecret.keys.size() > 0) || self.name.matches('^[-._a-zA-Z0-9]+$')")
    .message("the name of this user cannot be a key of a Secret: name its keys in passwordSecret.keys"))]
pub struct User {
    /// Name of the user.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("!self.startsWith('_')")
        .message("usernames starting with '_' are reserved for system users"))]
    #[x_kube(validation = Rule::new(r"!self.matches('[\\x00-\\x20\\x7f]')")
        .message("the name of a user cannot contain spaces or control characters"))]
    pub name: String,
    /// Whether the user may log in.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// Where the passwords are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<PasswordSecret>,
    /// Any password is accepted. Not together with a Secret or keys in `passwordSecret`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nopass: bool,
    /// Passwords that the servers have are dropped before those of `passwordSecret` are set. Without `passwordSecret`, or
    /// with `nopass`, the user then has no password, and nobody logs in with one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resetpass: bool,
    /// Which commands the user may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<UserCommands>,
    /// Which keys the user may touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<UserKeys>,
    /// Which channels the user may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<UserChannels>,
    /// ACL rules as the server writes them, for example `+@read ~cache:* &*`; added after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    #[x_kube(validation = Rule::new(r"!self.matches('[\\x00-\\x1f\\x7f]')")
        .message("permissions must be one line of ACL rules with spaces between them"))]
    #[x_kube(validation = Rule::new("!self.matches('(^| )[(]?[><#!]')")
        .message("permissions cannot contain passwords (rules that start with >, <, # or !): keep them in a Secret and name it in passwordSecret"))]
    #[x_kube(validation = Rule::new(CLOSED_SELECTORS)
        .message("permissions has a selector that is not closed: write ) at its end"))]
    #[x_kube(validation = Rule::new("!self.matches('(?i)(^| )reset( |$)')")
        .message("permissions cannot contain reset, which would undo the other fields: leave it out, a user has only what its fields say"))]
    pub permissions: Option<String>,
}

impl Default for User {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            password_secret: None,
            nopass: false,
            resetpass: false,
            commands: None,
            keys: None,
            channels: None,
            permissions: None,
        }
    }
}
