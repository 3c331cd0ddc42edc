//! Certificates made for one test.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use valkey::Identity;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("should be valid");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("should make a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("should sign itself") }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn issue(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("should be valid");
        // A leaf with the name of its issuer would count as self-signed.
        params.distinguished_name.push(DnType::CommonName, "leaf");
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("should make a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("should sign");
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn client(&self) -> Identity {
        let (certificate_pem, key) = self.issue(&["client"], ExtendedKeyUsagePurpose::ClientAuth);
        Identity { certificate_pem, key_pem: key.into() }
    }

    /// Writes what a server for these names needs, and says so in lines of configuration.
    pub(crate) fn server_conf(&self, directory: &Path, names: &[&str], auth_clients: &str) -> String {
        let (certificate, key) = self.issue(names, ExtendedKeyUsagePurpose::ServerAuth);
        for (file, content) in [("server.crt", certificate), ("server.key", key), ("ca.crt", self.pem())] {
            fs::write(directory.join(file), content).expect("should write");
        }
        let directory = directory.display();
        format!(
            "tls-cert-file {directory}/server.crt\ntls-key-file {directory}/server.key\n\
             tls-ca-cert-file {directory}/ca.crt\ntls-auth-clients {auth_clients}\n"
        )
    }
}
