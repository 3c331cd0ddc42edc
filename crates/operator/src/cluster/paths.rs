//! Where things are inside a pod.

/// The agent's program, copied there by the init-container.
pub(super) const AGENT_DIRECTORY: &str = "/agent";
/// What lives as long as the pod: the rendered configuration, the socket, the agent's notes.
pub(super) const RUN_DIRECTORY: &str = "/run/valkey";
/// The socket by which the agent speaks to its server.
pub(super) const SOCKET: &str = "/run/valkey/valkey.sock";
/// The users file, as the kubelet keeps it.
pub(super) const USERS_DIRECTORY: &str = "/etc/valkey-users";
/// Passwords of the system users that the pod needs.
pub(super) const AGENT_SECRETS: &str = "/etc/valkey-agent";
/// The certificate a user gave.
pub(super) const TLS_DIRECTORY: &str = "/etc/valkey-tls";
/// The identity of a server in its cluster, beside its data.
pub(super) const IDENTITY_FILE: &str = "/data/nodes.conf";
/// The certificate of the agent.
pub(super) const MTLS_DIRECTORY: &str = "/etc/valkey-mtls";
/// The configuration as the node's controller writes it.
pub(super) const BASE_DIRECTORY: &str = "/etc/valkey";
