//! Certificates of clusters that speak TLS.

use api::ValkeyCluster;
use k8s_openapi::api::core::v1::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::{Value, json};
use valkey::Tls;
use valkey::client::certificate::name_in_certificate;

use crate::World;

/// An authority that signs certificates for servers, which are clients of each other.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new one.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("should be valid");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("should make a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("should sign itself"))
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The parts of a Secret with a certificate for these names.
    pub fn secret(&self, names: &[&str]) -> Value {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("should be valid");
        params.distinguished_name.push(DnType::CommonName, "server");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("should make a key");
        let certificate = params.signed_by(&key, &self.0).expect("should sign");
        json!({"tls.crt": certificate.pem(), "tls.key": key.serialize_pem(), "ca.crt": self.pem()})
    }
}

impl World {
    /// How the servers of a cluster are spoken to, if they speak TLS.
    pub async fn cluster_tls(&self, cluster: &str) -> Option<Tls> {
        let networking = self.get::<ValkeyCluster>(cluster).await.spec.networking?;
        let secret = networking.tls?.certificates.server.secret_name;
        let data = self.get::<Secret>(&secret).await.data.unwrap_or_default();
        let text = |key: &str| {
            let value = data.get(key).expect("should have its parts");
            String::from_utf8(value.0.clone()).expect("should be text")
        };
        let name = name_in_certificate(&text("tls.crt")).expect("should have a name");
        Some(Tls { ca_pem: text("ca.crt"), client_identity: None, server_name: Some(name) })
    }
}
