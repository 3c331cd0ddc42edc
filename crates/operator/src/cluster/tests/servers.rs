//! The servers of a cluster, as far as the operator sees them: each with its own table and its own idea of who owns what,
//! which spread by handshakes and gossip, one hop in a tick.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use valkey::acl::{Listed, SystemUser, hash_password};
use valkey::client::SetSlot;
use valkey::cluster::{Address, ClusterHealth, ClusterNodes, Flag, MovingSlot, Node};
use valkey::info::{PrimaryLink, ReplicaLine, Replication, ReplicationRole};
use valkey::slots::SLOT_COUNT;
use valkey::{SlotRange, Version};

use super::super::command::Order;
use super::super::server::ServerFacts;
use super::super::topology::Place;
use super::claims::Claims;
use super::kubernetes::Mounted;

/// Ticks without an answer after which a server counts as failed.
const FAILED_AFTER: u32 = 3;
/// Ticks after which a handshake that nobody answers is given up.
const HANDSHAKE_FOR: u32 = 4;
/// Ticks during which a forgotten identity is not learned from gossip again.
const FORGOTTEN_FOR: u32 = 60;

pub(super) type Servers = BTreeMap<Place, Server>;

/// What a server knows of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    /// Empty while it is not known.
    address: String,
    /// Told by the other one itself, with the first message after the handshake.
    host: Option<String>,
    epoch: u64,
    follows: Option<String>,
    /// Ticks since it last answered.
    missed: u32,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down,
    Copying,
    Up,
}

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) address: String,
    pub(super) version: Version,
    pub(super) has_keys: bool,
    /// Keys that a test looks at one by one, by slot.
    pub(super) keys: BTreeMap<u16, BTreeSet<u32>>,
    pub(super) users: Listed,
    /// Slots that leave, and for whom.
    pub(super) migrating: BTreeMap<u16, String>,
    /// Slots that come in, and from whom.
    pub(super) importing: BTreeMap<u16, String>,
    /// What it shows its primary.
    pub(super) primaryauth: String,
    /// It does not take another one while it runs.
    pub(super) is_stubborn: bool,
    zone: String,
    host: String,
    run: u32,
    epoch: u64,
    current_epoch: u64,
    follows: Option<String>,
    link: Link,
    /// It has been a full copy of its primary: only then may it take over.
    was_in_sync: bool,
    peers: BTreeMap<String, Peer>,
    claims: Claims,
    /// By address: the ticks that are left.
    handshakes: BTreeMap<String, u32>,
    forgotten: BTreeMap<String, u32>,
}

impl Server {
    /// A server that knows nobody and has nothing.
    pub(super) fn born(number: u32, address: &str, host: &str, mounted: &Mounted) -> Self {
        Self {
            // Ids are random: the order of birth says nothing about their order.
            id: format!("{:08x}{number:032x}", number.wrapping_mul(0x9E37_79B1)),
            address: address.to_owned(),
            version: Version::new(9, 1, 2),
            has_keys: false,
            keys: BTreeMap::new(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            users: mounted.users(),
            primaryauth: mounted.replication.clone(),
            zone: String::new(),
            is_stubborn: false,
            host: host.to_owned(),
            run: number,
            epoch: 0,
            current_epoch: 0,
            follows: None,
            link: Link::Down,
            was_in_sync: false,
            peers: BTreeMap::new(),
            claims: Claims::default(),
            handshakes: BTreeMap::new(),
            forgotten: BTreeMap::new(),
        }
    }

    /// It starts again with its data and its table, and with what is mounted.
    pub(super) fn restarted_at(&mut self, run: u32, address: &str, mounted: &Mounted) {
        address.clone_into(&mut self.address);
        self.users = mounted.users();
        self.primaryauth.clone_from(&mounted.replication);
        self.zone.clear();
        self.run = run;
        self.link = Link::Down;
        self.handshakes.clear();
    }

    /// Its connection to its primary breaks.
    pub(super) fn lose_link(&mut self) {
        self.link = Link::Down;
    }

    /// Whether it has what its primary has.
    pub(super) fn is_linked(&self) -> bool {
        self.follows.is_none() || self.link == Link::Up
    }

    /// Whether a user is let in with a password.
    pub(super) fn lets_in(&self, user: SystemUser, password: &str) -> bool {
        let known = self.users.get(user.name());
        known.is_some_and(|known| known.enabled && known.passwords.contains(&hash_password(&password.into())))
    }

    /// What it says it owns.
    pub(super) fn slots(&self) -> Vec<SlotRange> {
        self.claims.of(&self.id)
    }

    /// Whether it knows an owner of every slot.
    pub(super) fn knows_all_slots(&self) -> bool {
        self.claims.unowned().is_empty()
    }

    /// Whether an identity is in its table.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.peers.contains_key(id)
    }

    /// What a real one would do with a command, or its words against it.
    pub(super) fn obey(&mut self, order: &Order) -> Result<(), String> {
        match order {
            Order::SetEpoch(epoch) => self.set_epoch(*epoch),
            Order::AddSlots(ranges) => self.add_slots(ranges),
            Order::Meet(address) => {
                self.handshakes.entry(address.clone()).or_insert(HANDSHAKE_FOR);
                Ok(())
            }
            Order::Replicate { primary, flush_first } => {
                if *flush_first {
                    self.has_keys = false;
                    self.keys.clear();
                }
                self.replicate(primary)
            }
            Order::Forget(id) => self.forget(id),
            Order::Failover(_) => self.failover(),
            Order::Close(slots) => slots.iter().try_for_each(|slot| {
                if self.importing.contains_key(slot) && self.holds(*slot) {
                    return Err("keys of it came in meanwhile".to_owned());
                }
                self.set_slot(*slot, SetSlot::Stable)
            }),
            Order::GiveUp { slots, owner } => {
                slots.iter().try_for_each(|slot| self.set_slot(*slot, SetSlot::Node(owner)))
            }
            Order::Migrate { .. } | Order::Carry(_) => Err("ERR it takes two to move slots".into()),
            Order::RenewPassword if self.is_stubborn => Err("ERR not now".into()),
            Order::RenewPassword => Ok(()),
            Order::SetZone(zone) => {
                self.zone.clone_from(zone);
                Ok(())
            }
        }
    }

    pub(super) fn follows(&self) -> Option<&str> {
        self.follows.as_deref()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it has keys of a slot.
    pub(super) fn holds(&self, slot: u16) -> bool {
        self.keys.get(&slot).is_some_and(|keys| !keys.is_empty())
    }

    /// Whether it says that it owns a slot.
    pub(super) fn owns(&self, slot: u16) -> bool {
        self.claims.owner(slot) == Some(&self.id)
    }

    pub(super) fn set_slot(&mut self, slot: u16, word: SetSlot<'_>) -> Result<(), String> {
        if self.follows.is_some() {
            return Err("ERR You can use SETSLOT only with masters.".into());
        }
        let known = |id: &str| id == self.id || self.peers.contains_key(id);
        let range = SlotRange::new(slot, slot).expect("should be a slot");
        match word {
            SetSlot::Importing(id) | SetSlot::Migrating(id) | SetSlot::Node(id) if !known(id) => {
                return Err(format!("ERR I don't know about node {id}"));
            }
            SetSlot::Importing(_) if self.owns(slot) => {
                return Err(format!("ERR I'm already the owner of hash slot {slot}"));
            }
            SetSlot::Migrating(_) if !self.owns(slot) => {
                return Err(format!("ERR I'm not the owner of hash slot {slot}"));
            }
            SetSlot::Node(id) if id != self.id && self.owns(slot) && self.holds(slot) => {
                return Err("ERR Can't assign hashslot to a different node while I still hold keys".into());
            }
            SetSlot::Importing(id) => drop(self.importing.insert(slot, id.to_owned())),
            SetSlot::Migrating(id) => drop(self.migrating.insert(slot, id.to_owned())),
            SetSlot::Stable => {
                self.importing.remove(&slot);
                self.migrating.remove(&slot);
            }
            SetSlot::Node(id) => {
                self.migrating.remove(&slot);
                if id == self.id && self.importing.remove(&slot).is_some() {
                    self.bump_epoch();
                }
                self.claims.give(range, Some(id));
            }
        }
        Ok(())
    }

    /// Its claims become the youngest, without a vote.
    fn bump_epoch(&mut self) {
        let highest = self.peers.values().map(|peer| peer.epoch).max().unwrap_or_default();
        if self.epoch <= highest {
            self.current_epoch = self.current_epoch.max(highest) + 1;
            self.epoch = self.current_epoch;
        }
    }

    fn set_epoch(&mut self, epoch: u64) -> Result<(), String> {
        if !self.peers.is_empty() || !self.handshakes.is_empty() {
            return Err(
                "ERR The user can assign a config epoch only when the node does not know any other node."
                    .into(),
            );
        }
        if self.epoch != 0 {
            return Err("ERR Node config epoch is already non-zero".into());
        }
        self.epoch = epoch;
        self.current_epoch = self.current_epoch.max(epoch);
        Ok(())
    }

    fn add_slots(&mut self, ranges: &[SlotRange]) -> Result<(), String> {
        if self.follows.is_some() {
            return Err("ERR a replica cannot own slots".into());
        }
        let mut given = Claims::default();
        for range in ranges {
            if self.claims.is_claimed(*range) {
                return Err(format!("ERR Slot {} is already busy", range.start()));
            }
            if given.is_claimed(*range) {
                return Err(format!("ERR Slot {} specified multiple times", range.start()));
            }
            given.give(*range, Some(&self.id));
        }
        for range in ranges {
            self.claims.give(*range, Some(&self.id));
        }
        Ok(())
    }

    fn replicate(&mut self, primary: &str) -> Result<(), String> {
        if primary == self.id {
            return Err("ERR Can't replicate myself".into());
        }
        let Some(peer) = self.peers.get(primary) else { return Err(format!("ERR Unknown node {primary}")) };
        if peer.follows.is_some() {
            return Err("ERR I can only replicate a master, not a replica.".into());
        }
        if self.follows.is_none() && (!self.slots().is_empty() || self.has_keys || !self.keys.is_empty()) {
            return Err("ERR To set a master the node must be empty and without assigned slots.".into());
        }
        self.follow(primary);
        Ok(())
    }

    fn follow(&mut self, primary: &str) {
        if self.follows.as_deref() != Some(primary) {
            self.follows = Some(primary.to_owned());
            self.link = Link::Down;
            self.was_in_sync = false;
        }
    }

    pub(super) fn forget(&mut self, id: &str) -> Result<(), String> {
        if id == self.id {
            return Err("ERR I tried hard but I can't forget myself...".into());
        }
        if self.follows.as_deref() == Some(id) {
            return Err("ERR Can't forget my master!".into());
        }
        if self.peers.remove(id).is_none() {
            return Err(format!("ERR Unknown node {id}"));
        }
        for range in self.claims.of(id) {
            self.claims.give(range, None);
        }
        self.forgotten.insert(id.to_owned(), FORGOTTEN_FOR);
        Ok(())
    }

    fn failover(&mut self) -> Result<(), String> {
        let Some(primary) = self.follows.take() else {
            return Err("ERR You should send CLUSTER FAILOVER to a replica".into());
        };
        self.current_epoch += 1;
        self.epoch = self.current_epoch;
        self.link = Link::Down;
        for range in self.claims.of(&primary) {
            self.claims.give(range, Some(&self.id));
        }
        Ok(())
    }

    /// It leads a part of its shard from now on, as after a vote that the others of the shard did not hear of.
    pub(super) fn secede(&mut self, ranges: &[SlotRange]) {
        self.follows = None;
        self.link = Link::Down;
        self.current_epoch += 1;
        self.epoch = self.current_epoch;
        for range in ranges {
            self.claims.give(*range, Some(&self.id));
        }
        self.keys.retain(|slot, _| ranges.iter().any(|range| range.contains(*slot)));
    }

    /// As if another one had never told it of its slots.
    pub(super) fn unhear(&mut self, other: &str) {
        for range in self.claims.of(other) {
            self.claims.give(range, None);
        }
    }

    /// It has shaken hands with another one.
    fn learn(&mut self, other: &Self) {
        let peer = self.peers.entry(other.id.clone()).or_insert(Peer {
            address: String::new(),
            host: None,
            epoch: other.epoch,
            follows: other.follows.clone(),
            missed: 0,
        });
        peer.address.clone_from(&other.address);
    }

    /// A message of one that it trusts.
    fn hear(&mut self, from: &Self) {
        let Some(peer) = self.peers.get_mut(&from.id) else { return };
        *peer = Peer {
            address: from.address.clone(),
            host: Some(from.host.clone()),
            epoch: from.epoch,
            follows: from.follows.clone(),
            missed: 0,
        };
        self.current_epoch = self.current_epoch.max(from.current_epoch);
        if from.follows.is_none() {
            self.believe(from);
            // Two primaries with one epoch: the one with the smaller id takes another.
            if self.follows.is_none() && self.epoch == from.epoch && self.id < from.id {
                self.current_epoch += 1;
                self.epoch = self.current_epoch;
            }
        }
        for (id, left) in &from.forgotten {
            if *left + 2 > FORGOTTEN_FOR {
                // Whoever was told to forget tells the others; it may be no news, or their own primary.
                let _ = self.forget(id);
            }
        }
        for (id, peer) in &from.peers {
            let is_news = *id != self.id && !self.peers.contains_key(id) && !self.forgotten.contains_key(id);
            if is_news && !peer.address.is_empty() && peer.missed < FAILED_AFTER {
                self.handshakes.entry(peer.address.clone()).or_insert(HANDSHAKE_FOR);
            }
        }
    }

    /// A younger claim wins; who loses all its slots to another one follows it, and so do its replicas.
    fn believe(&mut self, from: &Self) {
        let source = self.follows.clone().unwrap_or_else(|| self.id.clone());
        let mut lost = 0;
        for range in from.claims.of(&from.id) {
            for (piece, owner) in self.claims.within(range) {
                let older = match owner.as_deref() {
                    None => true,
                    Some(owner) if owner == from.id => false,
                    Some(owner) if owner == self.id => self.epoch < from.epoch,
                    Some(owner) => self.peers.get(owner).is_none_or(|peer| peer.epoch < from.epoch),
                };
                if older {
                    lost += if owner.as_ref() == Some(&source) { piece.count() } else { 0 };
                    self.claims.give(piece, Some(&from.id));
                    if owner.as_ref() == Some(&self.id) {
                        // Keys of a slot that is somebody else's are deleted.
                        self.keys.retain(|slot, _| !piece.contains(*slot));
                        self.migrating.retain(|slot, _| !piece.contains(*slot));
                    }
                }
            }
        }
        // A few slots that move one by one are no reason to follow.
        let all_of_it = from.claims.of(&from.id).iter().map(|range| range.count()).sum::<u16>() == lost;
        if lost > 0 && all_of_it && self.claims.of(&source).is_empty() {
            self.follow(&from.id);
        }
    }

    fn reaches(&self, id: &str) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.missed == 0 && !peer.address.is_empty())
    }

    fn is_lost(&self, id: &str) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.missed >= FAILED_AFTER)
    }

    /// Whether a majority of those who may vote would hear it.
    fn would_be_elected(&self) -> bool {
        let voters = self.claims.owners();
        let reached = voters.iter().filter(|id| self.reaches(id)).count();
        self.was_in_sync && reached * 2 > voters.len()
    }

    fn age(&mut self) {
        for counted in [&mut self.forgotten, &mut self.handshakes] {
            for left in counted.values_mut() {
                *left -= 1;
            }
            counted.retain(|_, left| *left > 0);
        }
    }

    /// What it answers the operator.
    pub(super) fn facts(&self, all: &Servers) -> ServerFacts {
        let nodes = self.table();
        let owners = self.claims.owners();
        let assigned = SLOT_COUNT - self.claims.unowned().iter().map(|range| range.count()).sum::<u16>();
        let lost: u16 = owners
            .iter()
            .filter(|id| self.is_lost(id))
            .flat_map(|id| self.claims.of(id))
            .map(SlotRange::count)
            .sum();
        ServerFacts {
            id: self.id.clone(),
            run_id: format!("run-{}", self.run),
            uptime: Some(Duration::from_secs(1)),
            version: Some(self.version),
            zone: Some(self.zone.clone()),
            migrations: Vec::new(),
            keys_in_open_slots: self.keys_in_open_slots(all),
            health: ClusterHealth {
                state_ok: lost == 0 && assigned == SLOT_COUNT,
                slots_assigned: assigned,
                slots_ok: assigned - lost,
                slots_pfail: 0,
                slots_fail: lost,
                known_nodes: u32::try_from(nodes.nodes.len()).expect("should be few"),
                size: u32::try_from(owners.len()).expect("should be few"),
                current_epoch: self.current_epoch,
                my_epoch: self.epoch,
            },
            nodes,
            replication: Some(self.replication(all)),
            has_keys: self.has_keys || !self.keys.is_empty(),
            users: self.users.clone(),
            by_fallback: false,
            shows_old_password: false,
        }
    }

    /// Whoever asks counts the keys of every slot that is open anywhere.
    fn keys_in_open_slots(&self, all: &Servers) -> BTreeMap<u16, u64> {
        let open = all.values().flat_map(|server| server.migrating.keys().chain(server.importing.keys()));
        let count = |slot: &u16| self.keys.get(slot).map_or(0, |keys| keys.len() as u64);
        open.map(|slot| (*slot, count(slot))).collect()
    }

    fn table(&self) -> ClusterNodes {
        let address = |ip: &str, host: Option<&str>| Address {
            ip: ip.to_owned(),
            port: 6379,
            bus_port: Some(16379),
            hostname: host.map(str::to_owned),
            auxiliary: BTreeMap::new(),
        };
        let role = |follows: Option<&String>| if follows.is_some() { Flag::Replica } else { Flag::Primary };
        let moving = |slots: &BTreeMap<u16, String>| -> Vec<MovingSlot> {
            slots.iter().map(|(slot, id)| MovingSlot { slot: *slot, node_id: id.clone() }).collect()
        };
        let myself = Node {
            id: self.id.clone(),
            address: address(&self.address, Some(&self.host)),
            flags: BTreeSet::from([Flag::Myself, role(self.follows.as_ref())]),
            primary_id: self.follows.clone(),
            config_epoch: self.epoch,
            connected: true,
            slots: self.slots(),
            migrating: moving(&self.migrating),
            importing: moving(&self.importing),
            ..Node::default()
        };
        let peers = self.peers.iter().map(|(id, peer)| Node {
            id: id.clone(),
            address: address(&peer.address, peer.host.as_deref()),
            flags: [
                Some(role(peer.follows.as_ref())),
                (peer.missed >= FAILED_AFTER).then_some(Flag::Failed),
                peer.address.is_empty().then_some(Flag::NoAddress),
            ]
            .into_iter()
            .flatten()
            .collect(),
            primary_id: peer.follows.clone(),
            config_epoch: peer.epoch,
            connected: peer.missed == 0,
            slots: self.claims.of(id),
            ..Node::default()
        });
        // Nobody has the id of a handshake: it is made up until the other one has said its own.
        let handshakes = self.handshakes.keys().map(|ip| Node {
            id: format!("handshake-with-{ip}"),
            address: address(ip, None),
            flags: BTreeSet::from([Flag::Handshake, Flag::Primary]),
            ..Node::default()
        });
        ClusterNodes {
            nodes: std::iter::once(myself).chain(peers).chain(handshakes).collect(),
            unreadable: 0,
        }
    }

    fn replication(&self, all: &Servers) -> Replication {
        let followers = all.values().filter(|other| {
            other.follows.as_ref() == Some(&self.id)
                && other.link != Link::Down
                && other.peers.get(&self.id).is_some_and(|peer| peer.address == self.address)
        });
        let primary = self.follows.as_ref().map(|id| PrimaryLink {
            host: self.peers.get(id).map(|peer| peer.address.clone()).unwrap_or_default(),
            port: 6379,
            link_up: self.link == Link::Up,
            sync_in_progress: self.link == Link::Copying,
            last_io_seconds: None,
            link_down_seconds: None,
            offset: Some(100),
            read_only: true,
        });
        Replication {
            role: if primary.is_some() { ReplicationRole::Replica } else { ReplicationRole::Primary },
            replicas: followers
                .map(|other| ReplicaLine {
                    ip: other.address.clone(),
                    port: 6379,
                    state: if other.link == Link::Up { "online" } else { "wait_bgsave" }.to_owned(),
                    offset: Some(100),
                    lag_seconds: Some(0),
                })
                .collect(),
            primary,
            offset: Some(100),
            replication_id: None,
            failover_state: None,
        }
    }
}

/// Everything that servers do by themselves in a moment: what was sent before it arrives in it.
pub(super) fn tick(servers: &mut Servers) {
    let before = servers.clone();
    let at = |address: &str| before.iter().find(|(_, server)| server.address == address);
    servers.values_mut().for_each(Server::age);
    for (place, server) in &before {
        for address in server.handshakes.keys() {
            if let Some((other_place, other)) = at(address)
                && other_place != place
            {
                shake_hands((place, server), (other_place, other), servers);
            }
        }
        for (id, peer) in &server.peers {
            let found = if peer.address.is_empty() { None } else { at(&peer.address) };
            match found {
                Some((other_place, other)) if other.id == *id => {
                    change(servers, *other_place, |other| other.hear(server));
                    change(servers, *place, |server| server.hear(other));
                }
                // Somebody else has the address now.
                Some(_) => with_peer(servers, *place, id, |peer| {
                    peer.address.clear();
                    peer.missed += 1;
                }),
                None => with_peer(servers, *place, id, |peer| peer.missed += 1),
            }
        }
    }
    copy(&before, servers);
    elect(servers);
}

fn change(servers: &mut Servers, place: Place, change: impl FnOnce(&mut Server)) {
    change(servers.get_mut(&place).expect("should be there"));
}

fn with_peer(servers: &mut Servers, place: Place, id: &str, change: impl FnOnce(&mut Peer)) {
    if let Some(peer) = servers.get_mut(&place).and_then(|server| server.peers.get_mut(id)) {
        change(peer);
    }
}

/// The one that began trusts the other one at once; the other one asks back first, unless it knows the caller.
fn shake_hands(caller: (&Place, &Server), other: (&Place, &Server), servers: &mut Servers) {
    change(servers, *caller.0, |server| {
        server.handshakes.remove(&other.1.address);
        server.learn(other.1);
    });
    change(servers, *other.0, |server| {
        if server.peers.contains_key(&caller.1.id) {
            server.hear(caller.1);
        } else {
            server.handshakes.entry(caller.1.address.clone()).or_insert(HANDSHAKE_FOR);
        }
    });
}

/// A copy takes a tick to begin and one to end.
fn copy(before: &Servers, servers: &mut Servers) {
    for server in servers.values_mut() {
        let Some(primary) = server.follows.clone() else { continue };
        let source = server.peers.get(&primary).and_then(|peer| {
            before.values().find(|other| other.id == primary && other.address == peer.address)
        });
        server.link = match (source, server.link) {
            (None, _) => Link::Down,
            (Some(source), Link::Down) if !source.lets_in(SystemUser::Replication, &server.primaryauth) => {
                Link::Down
            }
            (Some(_), Link::Down) => Link::Copying,
            (Some(source), _) => {
                server.has_keys = source.has_keys;
                server.keys.clone_from(&source.keys);
                server.migrating.clone_from(&source.migrating);
                server.importing.clone_from(&source.importing);
                server.was_in_sync = true;
                Link::Up
            }
        };
    }
}

/// One replica of a failed primary takes over, if those who vote hear it.
fn elect(servers: &mut Servers) {
    let mut replaced = BTreeSet::new();
    for server in servers.values_mut() {
        let Some(primary) = server.follows.clone() else { continue };
        if server.is_lost(&primary) && server.would_be_elected() && replaced.insert(primary) {
            server.failover().expect("should be a replica");
        }
    }
}
