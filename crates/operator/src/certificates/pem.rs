//! What stands in a Secret, as text.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

pub(crate) const CERTIFICATE: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
pub(crate) const TRUSTED: &str = "ca.crt";

/// What a key of a Secret holds, if it is text and not empty.
pub(crate) fn text(secret: &Secret, key: &str) -> Option<String> {
    let ByteString(value) = secret.data.as_ref()?.get(key)?;
    String::from_utf8(value.clone()).ok().filter(|text| !text.trim().is_empty())
}

/// Which of these keys hold nothing.
pub(super) fn missing(secret: &Secret, keys: &[&str]) -> Vec<String> {
    keys.iter().filter(|key| text(secret, key).is_none()).map(|key| (*key).to_owned()).collect()
}
