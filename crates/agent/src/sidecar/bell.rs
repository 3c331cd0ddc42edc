//! Whom we let in: the operator of our cluster and the agents beside its servers. Nobody else, whoever signed for them.

use std::sync::Arc;

use channel::{Credentials, Doorbell, Peer};
use pki::{Home, Role};

use super::papers::SharedWallet;

/// Answers for our own cluster only, with what is in the wallet at that moment: certificates are replaced while we run.
pub(super) struct Bell(pub(super) SharedWallet);

impl Doorbell for Bell {
    fn credentials(&self, home: &Home) -> Option<Arc<Credentials>> {
        // Without papers of our own we can show nothing, and believe nobody.
        let papers = self.0.papers().ok()?;
        (papers.own.home() == *home).then(|| papers.credentials.clone())
    }

    fn admits(&self, peer: &Peer) -> bool {
        match peer.identity.role {
            Role::Operator => true,
            Role::Sidecar => peer.identity.pod.is_some(),
            Role::Init => false,
        }
    }
}
