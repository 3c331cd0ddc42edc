//! The certificates and keys of a new cluster.

use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};
use snafu::{ResultExt, Snafu};

use crate::files::{self, FileError};
use crate::layout::{API_SERVICE, CLUSTER_DOMAIN, HOST_ADDRESS, Layout, MAX_NODES};

/// The key with which the API server signs the tokens of service accounts.
pub(crate) const SERVICE_ACCOUNTS: &str = "service-accounts";
/// The certificate authority of everything in the cluster.
pub(crate) const AUTHORITY: &str = "ca";
/// The API server's own certificate.
pub(crate) const API_SERVER: &str = "kube-apiserver";
/// The authority of the one certificate with which the API server passes its callers on to API extensions. Apart from
/// the other: whoever it vouches for may speak in anybody's name.
pub(crate) const FRONT_PROXY_AUTHORITY: &str = "front-proxy-ca";
/// That one certificate.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";
/// With which the API server calls kubelets.
pub(crate) const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A certificate could not be made or kept.
#[derive(Debug, Snafu)]
pub enum CertificateError {
    /// Making it failed.
    #[snafu(display("failed to issue the certificate {name}"))]
    Issue {
        /// Its file name.
        name: String,
        /// The cause.
        source: rcgen::Error,
    },
    /// Keeping it failed.
    #[snafu(display("failed to store the certificate {name}"))]
    Store {
        /// Its file name.
        name: String,
        /// The cause.
        source: FileError,
    },
}

/// Who a certificate speaks for, and under which names it serves.
struct Subject {
    file: String,
    user: String,
    group: Option<&'static str>,
    dns: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Subject {
    fn client(file: &str, user: &str, group: Option<&'static str>) -> Self {
        Self { file: file.into(), user: user.into(), group, dns: Vec::new(), addresses: Vec::new() }
    }
}

/// Who may speak in the cluster. The user names are those to which Kubernetes binds its built-in roles.
fn subjects(layout: &Layout) -> Vec<Subject> {
    let mut subjects = vec![
        Subject {
            dns: ["", ".default", ".default.svc", &format!(".default.svc.{CLUSTER_DOMAIN}")]
                .map(|suffix| format!("kubernetes{suffix}"))
                .into(),
            addresses: vec![HOST_ADDRESS.into(), API_SERVICE.into()],
            ..Subject::client(API_SERVER, "kube-apiserver", None)
        },
        Subject::client(KUBELET_CLIENT, "kube-apiserver-kubelet-client", Some("system:masters")),
        Subject::client("admin", "kubernetes-admin", Some("system:masters")),
        Subject::client("kube-controller-manager", "system:kube-controller-manager", None),
        Subject::client("kube-scheduler", "system:kube-scheduler", None),
        Subject::client("kube-proxy", "system:kube-proxy", None),
        Subject::client("coredns", "system:coredns", None),
    ];
    for node in layout.nodes(MAX_NODES) {
        let name = node.name();
        subjects.push(Subject {
            dns: vec![name.clone()],
            addresses: vec![node.address().into()],
            ..Subject::client(&name, &format!("system:node:{name}"), Some("system:nodes"))
        });
    }
    subjects
}

/// Issues everything anew. Nothing that an earlier cluster issued is valid in this one.
pub(crate) fn issue_all(layout: &Layout) -> Result<(), CertificateError> {
    let folder = layout.certificates();
    files::create_private_folder(&folder).context(StoreSnafu { name: AUTHORITY })?;
    let front_proxy = issue_authority(layout, FRONT_PROXY_AUTHORITY)?;
    issue(layout, &front_proxy, &Subject::client(FRONT_PROXY, FRONT_PROXY, None))?;
    let authority = issue_authority(layout, AUTHORITY)?;
    for subject in subjects(layout) {
        issue(layout, &authority, &subject)?;
    }
    let name = SERVICE_ACCOUNTS;
    let key = KeyPair::generate().context(IssueSnafu { name })?;
    store(name, &layout.key(name), &key.serialize_pem())?;
    store(name, &layout.certificates().join(format!("{name}.pub")), &key.public_key_pem())
}

fn issue_authority(
    layout: &Layout,
    name: &str,
) -> Result<CertifiedIssuer<'static, KeyPair>, CertificateError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("devcluster-{name}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().context(IssueSnafu { name })?;
    let authority = CertifiedIssuer::self_signed(params, key).context(IssueSnafu { name })?;
    store(name, &layout.certificate(name), &authority.pem())?;
    store(name, &layout.key(name), &authority.key().serialize_pem())?;
    Ok(authority)
}

fn issue(
    layout: &Layout,
    authority: &CertifiedIssuer<'static, KeyPair>,
    subject: &Subject,
) -> Result<(), CertificateError> {
    let name = &subject.file;
    let mut params = CertificateParams::new(subject.dns.clone()).context(IssueSnafu { name })?;
    params.subject_alt_names.extend(subject.addresses.iter().copied().map(SanType::IpAddress));
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, &subject.user);
    if let Some(group) = subject.group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !subject.addresses.is_empty() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let key = KeyPair::generate().context(IssueSnafu { name })?;
    let certificate = params.signed_by(&key, authority).context(IssueSnafu { name })?;
    store(name, &layout.certificate(name), &certificate.pem())?;
    store(name, &layout.key(name), &key.serialize_pem())
}

fn store(name: &str, path: &Path, pem: &str) -> Result<(), CertificateError> {
    files::write(path, pem).context(StoreSnafu { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_serves_under_its_own_address() {
        let layout = Layout::default();
        let subjects = subjects(&layout);
        let node = subjects.iter().find(|subject| subject.file == "node-2").unwrap();
        assert_eq!(node.user, "system:node:node-2");
        assert_eq!(node.addresses, [IpAddr::from(layout.node(2).address())]);
    }

    #[test]
    fn the_api_server_is_named_as_pods_call_it() {
        let subjects = subjects(&Layout::default());
        let server = subjects.iter().find(|subject| subject.file == API_SERVER).unwrap();
        assert!(server.dns.contains(&"kubernetes.default.svc".to_owned()));
        assert!(server.addresses.contains(&API_SERVICE.into()));
    }
}
