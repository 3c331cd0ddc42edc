//! Slots that move between simulated servers, by the hand of the controller or by the servers themselves, and clients that
//! write meanwhile.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use valkey::SlotRange;
use valkey::client::SetSlot;

use super::super::command::Route;
use super::super::slot_move::{self, End, Ends, Word};
use super::super::topology::Place;
use super::servers::{Server, Servers};

/// Why a move stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The controller died.
    Died,
    /// A server did not obey.
    Refused(String),
}

/// The servers of a move, in a pass that may die after any of its deeds.
struct Hands<'a> {
    servers: RefCell<&'a mut Servers>,
    source: Place,
    route: &'a Route,
    deeds: RefCell<&'a mut usize>,
    /// Deeds until the time of the pass is over.
    time: Cell<usize>,
}

impl Hands<'_> {
    fn begin(&self) -> Result<(), Stopped> {
        let mut deeds = self.deeds.borrow_mut();
        **deeds = deeds.checked_sub(1).ok_or(Stopped::Died)?;
        self.time.set(self.time.get().saturating_sub(1));
        Ok(())
    }
}

impl Ends for Hands<'_> {
    type Error = Stopped;

    async fn tell(&self, end: End, slot: u16, word: Word) -> Result<(), Stopped> {
        let hearing = match end {
            End::Source => vec![self.source],
            End::Target => vec![self.route.to],
            End::Others => self.route.others.clone(),
        };
        for place in hearing {
            self.begin()?;
            let mut servers = self.servers.borrow_mut();
            let [source, target] = [self.source, self.route.to].map(|place| servers[&place].id.clone());
            let word = match word {
                Word::Importing => SetSlot::Importing(&source),
                Word::Migrating => SetSlot::Migrating(&target),
                Word::Moved => SetSlot::Node(&target),
            };
            let server = servers.get_mut(&place).expect("should have answered");
            server.set_slot(slot, word).map_err(Stopped::Refused)?;
        }
        Ok(())
    }

    async fn keys(&self, slot: u16, count: u32) -> Result<Vec<Vec<u8>>, Stopped> {
        let servers = self.servers.borrow();
        let keys = servers[&self.source].keys.get(&slot).into_iter().flatten();
        Ok(keys.take(count as usize).map(|key| encode(slot, *key)).collect())
    }

    async fn send(&self, keys: &[Vec<u8>]) -> Result<Duration, Stopped> {
        self.begin()?;
        let mut servers = self.servers.borrow_mut();
        for (slot, key) in keys.iter().map(|key| decode(key)) {
            let target = servers.get_mut(&self.route.to).expect("should have answered");
            if !target.importing.contains_key(&slot) {
                return Err(Stopped::Refused("MOVED".to_owned()));
            }
            target.keys.entry(slot).or_default().insert(key);
            take_key(servers.get_mut(&self.source).expect("should have answered"), slot, key);
        }
        // Slow enough that a slot takes several of them.
        Ok(Duration::from_secs(1))
    }

    fn has_time(&self) -> bool {
        self.time.get() > 0
    }
}

fn encode(slot: u16, key: u32) -> Vec<u8> {
    [slot.to_be_bytes().as_slice(), key.to_be_bytes().as_slice()].concat()
}

fn decode(bytes: &[u8]) -> (u16, u32) {
    let (slot, key) = bytes.split_at(2);
    let slot = u16::from_be_bytes(slot.try_into().expect("should be two bytes"));
    (slot, u32::from_be_bytes(key.try_into().expect("should be four bytes")))
}

fn take_key(server: &mut Server, slot: u16, key: u32) {
    let keys = server.keys.get_mut(&slot).expect("should hold the slot");
    keys.remove(&key);
    if keys.is_empty() {
        server.keys.remove(&slot);
    }
}

/// The controller moves slots one by one; every word is a deed.
pub(super) fn carry(
    servers: &mut Servers,
    source: Place,
    route: &Route,
    deeds: &mut usize,
    time: usize,
) -> Result<(), Stopped> {
    let hands = Hands {
        servers: RefCell::new(servers),
        source,
        route,
        deeds: RefCell::new(deeds),
        time: Cell::new(time),
    };
    let moved = slot_move::carry(&hands, &route.ranges);
    futures::FutureExt::now_or_never(moved).expect("should wait for nobody")
}

/// A server moves slots by itself, in no time.
pub(super) fn migrate(
    servers: &mut Servers,
    from: Place,
    ranges: &[SlotRange],
    to: &str,
) -> Result<(), String> {
    let target = servers.iter().find(|(_, server)| server.id == to).map(|(place, _)| *place);
    let target = target.ok_or("ERR unknown node")?;
    let source_id = servers[&from].id.clone();
    for slot in ranges.iter().flat_map(|range| range.start()..=range.end()) {
        if !servers[&from].owns(slot) {
            return Err("ERR Slots are not served by this node.".to_owned());
        }
        let keys = servers.get_mut(&from).expect("should be there").keys.remove(&slot);
        let receiver = servers.get_mut(&target).expect("should be there");
        receiver.keys.extend(keys.map(|keys| (slot, keys)));
        receiver.set_slot(slot, SetSlot::Importing(&source_id))?;
        receiver.set_slot(slot, SetSlot::Node(to))?;
        servers.get_mut(&from).expect("should be there").set_slot(slot, SetSlot::Node(to))?;
    }
    Ok(())
}

/// A client whose table is old writes a key: it asks the oldest of those who claim the slot, and goes where that one sends
/// it.
pub(super) fn write(servers: &mut Servers, slot: u16, key: u32) {
    let claims = servers.values_mut().filter(|server| server.follows().is_none() && server.owns(slot));
    let owner = claims.min_by_key(|server| server.epoch()).expect("should have an owner");
    let is_there = owner.keys.get(&slot).is_some_and(|keys| keys.contains(&key));
    let elsewhere = owner.migrating.get(&slot).filter(|_| !is_there).cloned();
    let Some(elsewhere) = elsewhere else {
        owner.keys.entry(slot).or_default().insert(key);
        return;
    };
    let target = servers.values_mut().find(|server| server.id == elsewhere).expect("should be there");
    assert!(target.importing.contains_key(&slot) || target.owns(slot), "a client is sent in circles: {slot}");
    target.keys.entry(slot).or_default().insert(key);
}

/// The keys that clients can reach.
pub(super) fn reachable(servers: &Servers) -> Vec<(u16, u32)> {
    let primaries = servers.values().filter(|server| server.follows().is_none());
    let keys = primaries.flat_map(|server| {
        server
            .keys
            .iter()
            .filter(|(slot, _)| server.owns(**slot))
            .flat_map(|(slot, keys)| keys.iter().map(|key| (*slot, *key)))
    });
    let mut keys: Vec<(u16, u32)> = keys.collect();
    keys.sort_unstable();
    keys
}
