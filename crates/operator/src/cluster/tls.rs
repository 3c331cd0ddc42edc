//! The certificate a user gave: judged before it is used, and what the operator needs of it to speak to the servers.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use valkey::Tls;
use valkey::client::certificate::check_certificate;

use super::context::Context;
use super::validate::Desired;
use crate::references::Known;

/// How to speak TLS with the servers, if they do; the name in their certificate becomes a part of what is desired. The
/// error says what is wrong with the Secret: with a bad one, servers would not start, or not find each other.
pub(super) async fn gather(desired: &mut Desired, context: &Context) -> Result<Option<Tls>, String> {
    let Some(name) = desired.tls_secret.clone() else { return Ok(None) };
    let secret = match context.secret(&desired.identity, &name).await {
        Known::There(secret) => secret,
        Known::Missing => return Err(format!("Secret {name} of networking.tls does not exist")),
        Known::NotYet => return Err(format!("Secret {name} of networking.tls cannot be read")),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let tls = of_secret(&secret, now).map_err(|why| format!("Secret {name} of networking.tls: {why}"))?;
    if let Some(access) = &mut desired.access_tls {
        access.server_name.clone_from(&tls.server_name);
    }
    Ok(Some(tls))
}

fn of_secret(secret: &Secret, since_epoch: Duration) -> Result<Tls, String> {
    let certificate = text(secret, "tls.crt")?;
    let key = SecretString::from(text(secret, "tls.key")?);
    let ca_pem = text(secret, "ca.crt")?;
    let name = check_certificate(&certificate, &key, &ca_pem, since_epoch)
        .map_err(|error| kit::telemetry::chain(&error))?;
    Ok(Tls { ca_pem, client_identity: None, server_name: Some(name) })
}

fn text(secret: &Secret, key: &str) -> Result<String, String> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let value = value.ok_or_else(|| format!("there is no key {key:?}"))?;
    String::from_utf8(value.0.clone()).map_err(|_| format!("key {key:?} is not text"))
}
