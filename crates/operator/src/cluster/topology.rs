//! Who is who among the servers of a cluster, put together from what each of them says. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use api::names;
use valkey::SlotRange;
use valkey::cluster::{Flag, Node};
use valkey::info::{PrimaryLink, ReplicationRole};
use valkey::slots::SLOT_COUNT;

use super::observe::{Observed, ObservedNode};
use super::server::ServerFacts;

/// Shard and index of a node.
pub(super) type Place = (u32, u32);

/// A server that answers.
#[derive(Clone, Debug)]
pub(super) struct Member<'a> {
    pub(super) place: Place,
    pub(super) name: &'a str,
    pub(super) address: &'a str,
    pub(super) terminating: bool,
    pub(super) facts: &'a ServerFacts,
}

impl Member<'_> {
    pub(super) fn id(&self) -> &str {
        &self.facts.id
    }

    pub(super) fn myself(&self) -> Option<&Node> {
        self.facts.nodes.myself()
    }

    pub(super) fn is_replica(&self) -> bool {
        self.myself().is_some_and(Node::is_replica)
    }

    /// Whom it follows.
    pub(super) fn follows(&self) -> Option<&str> {
        self.myself().filter(|node| node.is_replica())?.primary_id.as_deref()
    }

    /// It knows nobody and nobody's slots: a server that was just born.
    pub(super) fn is_blank(&self) -> bool {
        self.is_alone() && self.facts.nodes.slots_of_myself().is_empty() && !self.is_replica()
    }

    /// It knows nobody.
    pub(super) fn is_alone(&self) -> bool {
        self.facts.nodes.nodes.len() == 1
    }

    /// It trusts the other one: not only heard of, not only shaking hands.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.entry(id).is_some()
    }

    fn entry(&self, id: &str) -> Option<&Node> {
        self.facts.nodes.get(id).filter(|node| !node.flags.contains(&Flag::Handshake))
    }

    /// It knows the other one and where it is.
    fn reaches(&self, other: &Member<'_>) -> bool {
        self.entry(other.id()).is_some_and(|node| node.address.ip == other.address)
    }

    /// For how many slots it knows an owner.
    fn known_slots(&self) -> usize {
        self.facts.nodes.nodes.iter().map(|node| count(&node.slots)).sum()
    }

    /// It gives or takes slots that have not moved yet, and may hold keys of slots that it does not own.
    pub(super) fn has_open_slots(&self) -> bool {
        self.facts.open_slots().next().is_some()
    }

    /// It has been a full copy, and is not in the middle of becoming another one: what it has can be served.
    pub(super) fn has_history(&self) -> bool {
        let link = self.link();
        self.offset() > 0 && !link.is_some_and(|link| link.sync_in_progress)
    }

    fn link(&self) -> Option<&PrimaryLink> {
        self.facts.replication.as_ref()?.primary.as_ref()
    }

    /// It receives from its primary just now.
    pub(super) fn is_linked(&self) -> bool {
        self.link().is_some_and(|link| link.link_up)
    }

    /// It had everything that its primary acknowledged until this long ago.
    pub(super) fn followed_until(&self, ago: Duration) -> bool {
        self.link().is_some_and(|link| link.holds_copy() && link.was_up_within(ago.as_secs()))
    }

    /// How much of the history it has.
    pub(super) fn offset(&self) -> u64 {
        let replication = self.facts.replication.as_ref();
        let of_link =
            replication.and_then(|replication| replication.primary.as_ref()).and_then(|link| link.offset);
        of_link.or_else(|| replication.and_then(|replication| replication.offset)).unwrap_or_default()
    }
}

/// Who an identity in the cluster's tables is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A server that answers.
    Member(Place),
    /// The server of this node had it, and came back as somebody else: nobody has it any more.
    Former(Place),
    /// The server of this node probably has it, and does not answer.
    Silent(Place),
    /// A node that does not exist (any more), or one that does not say its name.
    Unknown,
}

/// The cluster as its servers describe it.
#[derive(Clone, Debug)]
pub(super) struct Topology<'a> {
    pub(super) members: BTreeMap<Place, Member<'a>>,
    /// Nodes whose servers do not answer.
    pub(super) silent: BTreeSet<Place>,
    /// Those of them whose agents say that the server has ended, and how long ago.
    pub(super) ended: BTreeMap<Place, Duration>,
    /// Everybody in anybody's table, apart from those that only shake hands.
    pub(super) identities: HashMap<&'a str, Whose>,
    /// The slots of everybody who owns some, by the youngest claims.
    owned: BTreeMap<&'a str, Vec<SlotRange>>,
    unowned: Vec<SlotRange>,
}

/// The agents of a shard have the first word when a server ends: they know it earlier, and two who tell replicas to take over
/// disturb each other. So long after they were told of it, whatever they do has worked or has not.
const TURN_OF_AGENTS: Duration = Duration::from_secs(3);

/// Shards in which agents may be about to let a replica take over.
pub(super) fn in_turn(observed: &Observed) -> impl Iterator<Item = u32> {
    let dying = |node: &&ObservedNode| node.death.is_some_and(|death| death.ago < TURN_OF_AGENTS);
    observed.nodes.values().filter(dying).map(|node| node.shard)
}

fn ended_ago(node: &ObservedNode) -> Option<Duration> {
    let death = node.death.filter(|death| death.lasts && death.ago >= TURN_OF_AGENTS)?;
    Some(death.ago)
}

impl<'a> Topology<'a> {
    pub(super) fn of(observed: &'a Observed, namespace: &str) -> Self {
        let mut members = BTreeMap::new();
        let mut silent = BTreeSet::new();
        for (place, node) in &observed.nodes {
            match (node.server.facts(), node.address()) {
                (Some(facts), Some(address)) => {
                    let terminating = node.pod.as_ref().is_some_and(|pod| pod.terminating);
                    let name = node.name();
                    members.insert(*place, Member { place: *place, name, address, terminating, facts });
                }
                _ => {
                    silent.insert(*place);
                }
            }
        }
        let hosts: HashMap<String, Place> = observed
            .nodes
            .iter()
            .map(|(place, node)| (names::announced_host(node.name(), namespace), *place))
            .collect();
        // While an older pod of a node is not gone, what ran in it may still run.
        let lingering: BTreeSet<Place> = observed
            .nodes
            .iter()
            .filter(|(_, node)| node.another_pod_leaves)
            .map(|(place, _)| *place)
            .collect();
        let ended = silent.difference(&lingering);
        let ended = ended.filter_map(|place| Some((*place, ended_ago(&observed.nodes[place])?))).collect();
        let identities = identities(&members, &silent, &lingering, &hosts);
        let (owned, unowned) = ranges(&owners(&members));
        Self { members, silent, ended, identities, owned, unowned }
    }

    pub(super) fn member_of(&self, id: &str) -> Option<&Member<'a>> {
        match self.identities.get(id)? {
            Whose::Member(place) => self.members.get(place),
            _ => None,
        }
    }

    /// The slots of one owner.
    pub(super) fn slots_of(&self, id: &str) -> &[SlotRange] {
        self.owned.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Who owns a slot.
    pub(super) fn owner_of(&self, slot: u16) -> Option<&'a str> {
        let mut owners = self.owned.iter();
        owners.find(|(_, ranges)| ranges.iter().any(|range| range.contains(slot))).map(|(id, _)| *id)
    }

    /// Slots that nobody claims.
    pub(super) fn unowned(&self) -> &[SlotRange] {
        &self.unowned
    }

    /// How many slots somebody claims.
    pub(super) fn assigned(&self) -> usize {
        self.owned.values().map(|ranges| count(ranges)).sum()
    }

    /// How many slots belong to servers that answer.
    pub(super) fn served(&self) -> usize {
        let answering = self.owned.iter().filter(|(id, _)| self.member_of(id).is_some());
        answering.map(|(_, ranges)| count(ranges)).sum()
    }

    /// Everybody who owns slots.
    pub(super) fn owning_ids(&self) -> BTreeSet<&'a str> {
        self.owned.keys().copied().collect()
    }

    /// The members of a shard.
    pub(super) fn shard(&self, shard: u32) -> impl Iterator<Item = &Member<'a>> {
        self.members.range((shard, 0)..=(shard, u32::MAX)).map(|(_, member)| member)
    }

    /// The member of a shard that owns slots; the one with more of them, should there be two.
    pub(super) fn primary(&self, shard: u32) -> Option<&Member<'a>> {
        self.shard(shard)
            .map(|member| (count(self.slots_of(member.id())), member))
            .filter(|(slots, _)| *slots > 0)
            .max_by_key(|(slots, member)| (*slots, std::cmp::Reverse(member.place)))
            .map(|(_, member)| member)
    }

    /// The primary of a shard; in a shard that owns nothing yet, the one the others follow or should follow. Nobody, where
    /// somebody who does not answer owns slots of the shard: that would be two.
    pub(super) fn leader(&self, shard: u32) -> Option<&Member<'a>> {
        if let Some(primary) = self.primary(shard) {
            return Some(primary);
        }
        if self.is_owned_by_absent(shard) {
            return None;
        }
        let followed = self.shard(shard).find(|member| {
            !member.is_replica() && self.shard(shard).any(|other| other.follows() == Some(member.id()))
        });
        followed.or_else(|| self.shard(shard).find(|member| !member.is_replica()))
    }

    /// Whether slots of a shard belong to one of its nodes that does not answer, or not any more under that name.
    pub(super) fn is_owned_by_absent(&self, shard: u32) -> bool {
        self.owning_ids().iter().any(|id| {
            matches!(self.identities.get(id), Some(Whose::Former(place) | Whose::Silent(place)) if place.0 == shard)
        })
    }

    /// Whether a replica receives everything its primary does.
    pub(super) fn in_sync(primary: &Member<'_>, replica: &Member<'_>) -> bool {
        let Some(replication) = &replica.facts.replication else { return false };
        let linked = replication
            .primary
            .as_ref()
            .is_some_and(|link| link.link_up && !link.sync_in_progress && link.host == primary.address);
        let listed = primary.facts.replication.as_ref().is_some_and(|replication| {
            replication.role == ReplicationRole::Primary
                && replication.replicas.iter().any(|line| line.ip == replica.address && line.is_online())
        });
        replica.follows() == Some(primary.id()) && linked && listed
    }

    /// Whether everybody trusts everybody, at the right address, and all agree on who owns what.
    pub(super) fn is_agreed(&self) -> bool {
        self.members.values().all(|one| {
            let knows_all = self.members.values().all(|other| other.place == one.place || one.reaches(other));
            let same_owners =
                one.facts.nodes.nodes.iter().filter(|node| !node.flags.contains(&Flag::Handshake)).all(
                    |node| {
                        let owned = self.slots_of(&node.id);
                        node.slots.iter().all(|claim| owned.iter().any(|range| is_within(*claim, *range)))
                    },
                );
            knows_all && same_owners && one.known_slots() == self.assigned()
        })
    }

    /// Pairs that should know each other and cannot find each other: neither of the two has the other's right address.
    pub(super) fn apart(&self) -> Vec<(&Member<'a>, &Member<'a>)> {
        let members: Vec<&Member<'a>> = self.members.values().filter(|member| !member.terminating).collect();
        let mut apart = Vec::new();
        for (position, one) in members.iter().enumerate() {
            for other in members.iter().skip(position + 1) {
                if !one.reaches(other) && !other.reaches(one) {
                    apart.push((*one, *other));
                }
            }
        }
        apart
    }

    /// Owners, and who knows them without having heard yet that they own anything.
    pub(super) fn unheard(&self) -> Vec<(&Member<'a>, &Member<'a>)> {
        let owners: Vec<&Member<'a>> = self.owned.keys().filter_map(|id| self.member_of(id)).collect();
        let lacks_slots = |listener: &&Member<'a>| listener.known_slots() < self.assigned();
        let listeners = self.members.values().filter(|member| !member.terminating).filter(lacks_slots);
        listeners
            .flat_map(|listener| {
                let unheard = |owner: &&&Member<'a>| {
                    owner.place != listener.place
                        && owner.reaches(listener)
                        && listener.entry(owner.id()).is_some_and(|entry| entry.slots.is_empty())
                };
                owners.iter().filter(unheard).map(move |owner| (*owner, listener)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The highest epoch anybody has seen.
    pub(super) fn epoch(&self) -> u64 {
        self.members.values().map(|member| member.facts.health.current_epoch).max().unwrap_or_default()
    }
}

fn claims(node: &Node) -> impl Iterator<Item = usize> {
    node.slots.iter().flat_map(|range| usize::from(range.start())..=usize::from(range.end()))
}

fn identities<'a>(
    members: &BTreeMap<Place, Member<'a>>,
    silent: &BTreeSet<Place>,
    lingering: &BTreeSet<Place>,
    hosts: &HashMap<String, Place>,
) -> HashMap<&'a str, Whose> {
    let mut identities: HashMap<&'a str, Whose> = HashMap::new();
    for member in members.values() {
        for node in &member.facts.nodes.nodes {
            if node.flags.contains(&Flag::Handshake) {
                continue;
            }
            let place = node.address.hostname.as_ref().and_then(|host| hosts.get(host)).copied();
            let whose = match place {
                Some(place) if lingering.contains(&place) => Whose::Silent(place),
                Some(place) if members.contains_key(&place) => Whose::Former(place),
                Some(place) if silent.contains(&place) => Whose::Silent(place),
                _ => Whose::Unknown,
            };
            let known = identities.entry(&node.id).or_insert(whose);
            // A member that has not heard the other's name yet knows less than one that has.
            if *known == Whose::Unknown {
                *known = whose;
            }
        }
    }
    // Last: who answers under an identity has it, whatever others say.
    for (place, member) in members {
        identities.insert(&member.facts.id, Whose::Member(*place));
    }
    identities
}

/// The claim with the highest epoch wins, as it does among the servers; between equals, the claimant's own word.
fn owners<'a>(members: &BTreeMap<Place, Member<'a>>) -> Vec<Option<&'a str>> {
    let mut owners: Vec<Option<(u64, bool, &'a str)>> = vec![None; usize::from(SLOT_COUNT)];
    for member in members.values() {
        for node in &member.facts.nodes.nodes {
            let claim = (node.config_epoch, node.flags.contains(&Flag::Myself), node.id.as_str());
            for slot in claims(node) {
                if let Some(owner) = owners.get_mut(slot)
                    && owner.is_none_or(|(epoch, own, _)| (epoch, own) < (claim.0, claim.1))
                {
                    *owner = Some(claim);
                }
            }
        }
    }
    owners.into_iter().map(|owner| owner.map(|(_, _, id)| id)).collect()
}

fn count(ranges: &[SlotRange]) -> usize {
    ranges.iter().map(|range| usize::from(range.count())).sum()
}

fn is_within(inner: SlotRange, outer: SlotRange) -> bool {
    outer.contains(inner.start()) && outer.contains(inner.end())
}

/// The slots of each owner and those of nobody, in as few ranges as there can be.
fn ranges<'a>(owners: &[Option<&'a str>]) -> (BTreeMap<&'a str, Vec<SlotRange>>, Vec<SlotRange>) {
    let mut owned: BTreeMap<&'a str, Vec<SlotRange>> = BTreeMap::new();
    let mut unowned = Vec::new();
    let mut start = 0u16;
    for stretch in owners.chunk_by(|one, other| one == other) {
        let next = start + u16::try_from(stretch.len()).unwrap_or(SLOT_COUNT - start);
        let list = match stretch.first().copied().flatten() {
            Some(id) => owned.entry(id).or_default(),
            None => &mut unowned,
        };
        list.extend(SlotRange::new(start, next - 1));
        start = next;
    }
    (owned, unowned)
}
