//! Private keys in the one form that signs here. Others write theirs in older ones: OpenSSL, Vault and cert-manager do, if nobody
//! tells them otherwise.

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
/// Version 0.
const VERSION: [u8; 3] = [0x02, 0x01, 0x00];
/// rsaEncryption, without parameters.
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// ecPublicKey on the curve P-256.
const P256: &[u8] = &[
    0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];
/// ecPublicKey on the curve P-384.
const P384: &[u8] =
    &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];

/// The key as PKCS#8: as it is, or wrapped. An older form does not say its curve in one place only, so there may be several;
/// only the right one can be read.
pub(crate) fn forms(key: &PrivateKeyDer<'_>) -> Vec<PrivatePkcs8KeyDer<'static>> {
    match key {
        PrivateKeyDer::Pkcs8(key) => vec![key.clone_key()],
        PrivateKeyDer::Pkcs1(key) => vec![wrapped(RSA, key.secret_pkcs1_der())],
        PrivateKeyDer::Sec1(key) => {
            [P256, P384].into_iter().map(|curve| wrapped(curve, key.secret_sec1_der())).collect()
        }
        _ => Vec::new(),
    }
}

fn wrapped(algorithm: &[u8], key: &[u8]) -> PrivatePkcs8KeyDer<'static> {
    let parts = [&VERSION[..], &tagged(SEQUENCE, algorithm), &tagged(OCTET_STRING, key)].concat();
    PrivatePkcs8KeyDer::from(tagged(SEQUENCE, &parts))
}

/// One value of DER: what it is, how long it is, and itself.
fn tagged(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    if let Ok(short @ ..0x80) = u8::try_from(value.len()) {
        der.push(short);
    } else {
        let length: Vec<u8> = value.len().to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        der.push(0x80 | u8::try_from(length.len()).unwrap_or(u8::MAX));
        der.extend(length);
    }
    der.extend(value);
    der
}
