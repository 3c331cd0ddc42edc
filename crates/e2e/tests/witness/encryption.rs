//! The witness over TLS.

use std::fs;

use e2e::access::{Access, Address};
use e2e::invariants::{self, Observation, Wanted};
use e2e::witness::Witness;
use valkey::testing::{Release, Server};
use valkey::{Connection, SlotRange, Tls};

use crate::measures::{acknowledged, settings};

#[tokio::test]
async fn a_cluster_that_speaks_tls_is_witnessed_by_the_name_in_its_certificate() {
    let certificate =
        rcgen::generate_simple_self_signed(["valkey-demo-client.default.svc".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, content: String| {
        let path = files.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let (public, private) =
        (write("crt", certificate.cert.pem()), write("key", certificate.signing_key.serialize_pem()));
    let conf = format!(
        "cluster-enabled yes\ncluster-announce-ip 127.0.0.1\ntls-auth-clients no\n\
         tls-cert-file {public}\ntls-key-file {private}\ntls-ca-cert-file {public}"
    );
    let server = Server::start_with_tls(Release::V9_1, &conf).unwrap_or_else(|error| panic!("{error}"));
    let plain = Connection::open(&server.target()).await.unwrap();
    plain.cluster_add_slots(&[SlotRange::ALL]).await.unwrap();

    let address = Address::new("127.0.0.1", server.tls_port().unwrap());
    let access = Access::open([address.clone()]).with_tls(Tls {
        ca_pem: certificate.cert.pem(),
        client_identity: None,
        server_name: Some("valkey-demo-client.default.svc".to_owned()),
    });
    let wanted = Wanted { shards: vec![vec![address.clone()]] };
    invariants::eventually("the cluster is whole", crate::PATIENCE, async || {
        invariants::all(&Observation::of(&access, &wanted).await, &wanted)
    })
    .await;
    let witness = Witness::start(settings(access.clone())).await.unwrap();
    acknowledged(&witness, 100).await;
    let verdict = witness.stop().await.verify(&access).await.unwrap();
    verdict.assert_nothing_lost();
    assert_eq!(verdict.report.shards[0].primary, address, "slots are learned with the port that speaks TLS");
}
