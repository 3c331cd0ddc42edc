//! From the references of `spec.access` to a target the client can open. Secrets are read one by one, on demand, and
//! remembered for a minute, so that looking at an idle server costs no call to the API server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::names;
use api::node::{Access, SecretKey};
use k8s_openapi::api::core::v1::Secret;
use secrecy::SecretString;
use snafu::{OptionExt as _, ResultExt as _, Snafu};
use valkey::{Deadlines, Identity, Target, Tls};

use super::context::Context;

const REMEMBER_FOR: Duration = Duration::from_mins(1);

/// Why a server cannot be reached as the spec says. Never holds a secret value.
#[derive(Debug, Snafu)]
pub(super) enum Error {
    #[snafu(display("failed to read Secret {name}"))]
    ReadSecret { name: String, source: kit::apply::Error },
    #[snafu(display("Secret {name} does not exist"))]
    MissingSecret { name: String },
    #[snafu(display("Secret {name} has no key {key:?}"))]
    MissingKey { name: String, key: String },
    #[snafu(display("key {key:?} of Secret {name} is not text"))]
    NotText { name: String, key: String },
}

type Remembered = HashMap<(String, String), (Instant, Arc<Secret>)>;

/// Secrets that were read a short time ago.
#[derive(Default)]
pub(super) struct Secrets(Mutex<Remembered>);

impl Secrets {
    /// Read everything of a namespace anew.
    pub(super) fn forget(&self, namespace: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _), _| known != namespace);
    }

    fn recall(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (since, _)| since.elapsed() < REMEMBER_FOR);
        known.get(&(namespace.to_owned(), name.to_owned())).map(|(_, secret)| secret.clone())
    }

    async fn read(&self, context: &Context, namespace: &str, name: &str) -> Result<Arc<Secret>, Error> {
        if let Some(secret) = self.recall(namespace, name) {
            return Ok(secret);
        }
        let secret = kit::apply::get::<Secret>(&context.client, namespace, name)
            .await
            .context(ReadSecretSnafu { name })?
            .context(MissingSecretSnafu { name })?;
        let secret = Arc::new(secret);
        let entry = (Instant::now(), secret.clone());
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((namespace.to_owned(), name.to_owned()), entry);
        Ok(secret)
    }

    async fn text(&self, context: &Context, namespace: &str, reference: &SecretKey) -> Result<String, Error> {
        let SecretKey { name, key } = reference;
        let secret = self.read(context, namespace, name).await?;
        let value =
            secret.data.as_ref().and_then(|data| data.get(key)).context(MissingKeySnafu { name, key })?;
        String::from_utf8(value.0.clone()).ok().context(NotTextSnafu { name, key })
    }
}

/// How to reach the server at an address.
pub(super) async fn target(
    context: &Context,
    namespace: &str,
    access: Option<&Access>,
    address: &str,
) -> Result<Target, Error> {
    let mut target = Target::tcp(address, names::SERVER_PORT).with_deadlines(Deadlines::default());
    let Some(access) = access else { return Ok(target) };
    if let Some(reference) = &access.password_secret_ref {
        let password = context.secrets.text(context, namespace, reference).await?;
        target = target.with_credentials(access.user.as_deref(), SecretString::from(password));
    }
    if let Some(tls) = &access.tls {
        let authorities = context.secrets.text(context, namespace, &tls.ca).await?;
        let mut client_identity = None;
        if let Some(certificate) = &tls.client_certificate {
            let of = |key: &str| SecretKey { name: certificate.secret_name.clone(), key: key.to_owned() };
            client_identity = Some(Identity {
                certificate_pem: context.secrets.text(context, namespace, &of("tls.crt")).await?,
                key_pem: SecretString::from(context.secrets.text(context, namespace, &of("tls.key")).await?),
            });
        }
        target = target.with_tls(Tls {
            ca_pem: authorities,
            client_identity,
            server_name: tls.server_name.clone(),
        });
    }
    Ok(target)
}
