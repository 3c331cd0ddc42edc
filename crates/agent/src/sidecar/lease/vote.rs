//! Answering others who ask for our word. Whoever asks is known by its certificate and its address.

use std::time::Instant;

use proto::agent::{AgreeReply, AgreeRequest, Objection, RenewReply, RenewRequest};
use valkey::cluster::Node;

use super::super::takeover::{Caller, is_beside};
use super::Lease;
use valkey::cluster::voters::Voters;

impl Lease {
    /// The agent beside a primary asks to go on.
    pub(in crate::sidecar) fn renew(&self, caller: &Caller, request: &RenewRequest) -> RenewReply {
        let objection = self.renewed(caller, &request.node_id, request.holds).err().unwrap_or_default();
        // Whoever has just begun to lead is not in our table yet: it must not wait for the next look.
        if matches!(objection, Objection::Unknown | Objection::Replaced) {
            self.stir();
        }
        RenewReply { objection: objection.into() }
    }

    fn renewed(&self, caller: &Caller, node_id: &str, holds: bool) -> Result<(), Objection> {
        // Whoever never agrees to another one has no word to give, and none to take back.
        if !self.is_on {
            return Err(Objection::SwitchedOff);
        }
        let table = self.table();
        let node = table.get(node_id).filter(|node| is_beside(caller, node)).ok_or(Objection::Unknown)?;
        if !leads(node) {
            return Err(Objection::Replaced);
        }
        self.promises().renew(node_id, holds, Instant::now())
    }

    /// The agent beside a replica asks to have its primary replaced.
    pub(in crate::sidecar) async fn agree(&self, caller: &Caller, request: &AgreeRequest) -> AgreeReply {
        let AgreeRequest { primary_id, node_id } = request;
        let table = self.table();
        let is_its_replica = |node: &&Node| {
            is_beside(caller, node) && table.get(primary_id).is_some_and(|primary| node.follows(primary))
        };
        let objection = match table.get(node_id).filter(is_its_replica).and(Voters::of(&table, primary_id)) {
            _ if !self.is_on => Err(Objection::SwitchedOff),
            None => Err(Objection::Unknown),
            Some(voters) => self.agreed(&voters, node_id).await,
        };
        AgreeReply { objection: objection.err().unwrap_or_default().into() }
    }

    /// The same for our own server.
    pub(super) async fn agreed(&self, voters: &Voters, successor: &str) -> Result<(), Objection> {
        let is_there = self.peers.finds(&voters.primary).await;
        self.promises().agree(&voters.primary.node_id, successor, is_there, Instant::now())
    }
}

fn leads(node: &Node) -> bool {
    node.is_primary() && !node.slots.is_empty()
}
