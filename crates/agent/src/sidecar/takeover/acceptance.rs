//! Whether an order to take over is followed, and how. Pure.

use std::net::IpAddr;

use pki::{Identity, Role};
use proto::agent::Reason;
use valkey::client::FailoverMode;
use valkey::cluster::Node;

use super::standing::Standing;

/// Who gives an order, and from where. It was believed to be who it is before.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    pub(crate) ip: IpAddr,
}

/// What is ordered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) dead: &'a str,
    pub(super) config_epoch: u64,
}

/// Who says so.
#[derive(Debug, Clone, Copy)]
pub(super) enum Warrant<'a> {
    Caller(&'a Caller),
    /// Most of those who have a say about the primary miss it.
    Majority,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: the server leads in the place of the dead one.
    Done,
    /// Take over.
    Go(Means),
}

/// How to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Means {
    pub(super) first: FailoverMode,
    /// If that does not work.
    pub(super) then: Option<FailoverMode>,
}

/// Judge an order by what the server is just now.
pub(super) fn judge(order: Order<'_>, warrant: Warrant<'_>, standing: &Standing) -> Result<Verdict, Reason> {
    let myself = standing.myself().ok_or(Reason::NoServer)?;
    let dead = standing.table.get(order.dead).ok_or(Reason::NotItsReplica)?;
    let is_certain = match warrant {
        Warrant::Majority => true,
        Warrant::Caller(caller) if caller.identity.role != Role::Sidecar => false,
        Warrant::Caller(caller) if is_beside(caller, dead) => true,
        Warrant::Caller(_) => return Err(Reason::NotItsAgent),
    };
    if standing.leads() {
        let has_succeeded =
            dead.slots.is_empty() && !myself.slots.is_empty() && myself.config_epoch > order.config_epoch;
        return if has_succeeded { Ok(Verdict::Done) } else { Err(Reason::NotItsReplica) };
    }
    if standing.primary_id() != Some(order.dead) {
        return Err(Reason::NotItsReplica);
    }
    if dead.config_epoch != order.config_epoch {
        return Err(Reason::OtherEpoch);
    }
    if !standing.copy_whole() {
        return Err(Reason::CopyNotWhole);
    }
    means(standing, is_certain).map(Verdict::Go)
}

/// How to take over. Without votes only at the word of somebody who knows that the server is dead, because it was beside it: whoever
/// takes over from one that lives makes two who acknowledge writes.
fn means(standing: &Standing, is_certain: bool) -> Result<Means, Reason> {
    let voters =
        standing.table.nodes.iter().filter(|node| node.is_primary() && !node.slots.is_empty()).count();
    let majority = voters / 2 + 1;
    let can_win = voters.saturating_sub(1) >= majority;
    match (can_win, is_certain) {
        (true, true) => Ok(Means { first: FailoverMode::Force, then: Some(FailoverMode::Takeover) }),
        (true, false) => Ok(Means { first: FailoverMode::Force, then: None }),
        (false, true) => Ok(Means { first: FailoverMode::Takeover, then: None }),
        (false, false) => Err(Reason::NoMajority),
    }
}

/// Whether somebody is the agent in the pod of this server: its certificate names the pod whose host the server announced, and it comes
/// from the server's address. A certificate that was carried away is of no use elsewhere, and neither is an address that was handed on.
pub(in crate::sidecar) fn is_beside(caller: &Caller, node: &Node) -> bool {
    let ip = node.address.ip.parse::<IpAddr>().map(|ip| ip.to_canonical());
    let host = node.address.hostname.as_deref().unwrap_or_default();
    ip == Ok(caller.ip.to_canonical()) && is_host_of(&caller.identity, host)
}

/// Whether a server in the pod of this identity announces this host: `<workload>.<namespace>.svc`. The pod is `<workload>-0`; where a
/// Deployment makes it, nobody knows its name before, and it is known by its workload.
fn is_host_of(identity: &Identity, host: &str) -> bool {
    let Identity { namespace, cluster, .. } = identity;
    let Some(workload) = host.strip_suffix(&format!(".{namespace}.svc")) else { return false };
    let Some(node) = workload.strip_prefix(&format!("valkey-{cluster}-")) else { return false };
    let is_pod = identity.pod.as_deref().and_then(|pod| pod.strip_prefix(workload));
    let is_pod = is_pod.is_some_and(|rest| rest.is_empty() || rest == "-0");
    // Shard and index: with fewer or more words, what is left of the pod's name could be read in two ways.
    let is_node = node.split('-').count() == 2 && node.split('-').all(is_number);
    is_pod && is_node
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::standing::tests::{DEAD, replica, standing};
    use super::*;

    const ELECTION: Means = Means { first: FailoverMode::Force, then: Some(FailoverMode::Takeover) };

    fn identity(role: Role, pod: Option<&str>) -> Identity {
        Identity {
            trust_domain: "valkey.local".to_owned(),
            namespace: "team".to_owned(),
            cluster: "cache".to_owned(),
            role,
            pod: pod.map(str::to_owned),
        }
    }

    fn caller(role: Role, pod: Option<&str>, ip: &str) -> Caller {
        Caller { identity: identity(role, pod), ip: ip.parse().expect("should be an address") }
    }

    fn agent() -> Caller {
        caller(Role::Sidecar, Some("valkey-cache-0-0-0"), "10.0.0.1")
    }

    const ORDER: Order<'static> = Order { dead: DEAD, config_epoch: 7 };

    #[test]
    fn an_order_is_followed_only_if_all_that_it_says_is_so() {
        let (info, nodes) = replica(3);
        for (what, order, info, nodes, expected) in [
            ("all is so", ORDER, info.clone(), nodes.clone(), Ok(Verdict::Go(ELECTION))),
            (
                "an older claim",
                Order { config_epoch: 6, ..ORDER },
                info.clone(),
                nodes.clone(),
                Err(Reason::OtherEpoch),
            ),
            (
                "a newer claim",
                Order { config_epoch: 8, ..ORDER },
                info.clone(),
                nodes.clone(),
                Err(Reason::OtherEpoch),
            ),
            (
                "a stranger",
                Order { dead: "x", ..ORDER },
                info.clone(),
                nodes.clone(),
                Err(Reason::NotItsReplica),
            ),
            (
                "a replica of another one",
                ORDER,
                info.clone(),
                nodes.replace("slave dead", "slave p1"),
                Err(Reason::NotItsReplica),
            ),
            (
                "a first copy that never ended",
                ORDER,
                info.replace("since_seconds:0", "since_seconds:-1"),
                nodes.clone(),
                Err(Reason::CopyNotWhole),
            ),
            (
                "one that leads in its place",
                ORDER,
                info.replace("role:slave", "role:master"),
                nodes
                    .replace("connected 0 5-9", "connected")
                    .replace("myself,slave dead 0 0 7 connected", "myself,master - 0 0 9 connected 0 5-9"),
                Ok(Verdict::Done),
            ),
            (
                "one that leads something else",
                ORDER,
                info.replace("role:slave", "role:master"),
                nodes.replace("myself,slave dead 0 0 7 connected", "myself,master - 0 0 9 connected 11"),
                Err(Reason::NotItsReplica),
            ),
        ] {
            assert_eq!(judge(order, Warrant::Caller(&agent()), &standing(&info, &nodes)), expected, "{what}");
        }
    }

    #[test]
    fn votes_are_asked_for_where_they_can_win_and_done_without_only_for_the_agent_of_the_dead() {
        let operator = || caller(Role::Operator, None, "10.9.9.9");
        let go = |first, then| Ok(Verdict::Go(Means { first, then }));
        for (shards, caller, expected) in [
            (1, agent(), go(FailoverMode::Takeover, None)),
            (2, agent(), go(FailoverMode::Takeover, None)),
            (3, agent(), go(FailoverMode::Force, Some(FailoverMode::Takeover))),
            (4, agent(), go(FailoverMode::Force, Some(FailoverMode::Takeover))),
            (1, operator(), Err(Reason::NoMajority)),
            (2, operator(), Err(Reason::NoMajority)),
            (3, operator(), go(FailoverMode::Force, None)),
        ] {
            let (info, nodes) = replica(shards);
            let verdict = judge(ORDER, Warrant::Caller(&caller), &standing(&info, &nodes));
            assert_eq!(verdict, expected, "{shards} shards, {:?}", caller.identity.role);
        }
    }

    #[test]
    fn only_the_agent_beside_the_dead_server_may_say_that_it_is_dead() {
        let (info, nodes) = replica(3);
        for (what, caller) in [
            ("another pod", caller(Role::Sidecar, Some("valkey-cache-1-0-0"), "10.0.0.1")),
            ("another address", caller(Role::Sidecar, Some("valkey-cache-0-0-0"), "10.0.0.9")),
            ("no pod", caller(Role::Sidecar, None, "10.0.0.1")),
        ] {
            let verdict = judge(ORDER, Warrant::Caller(&caller), &standing(&info, &nodes));
            assert_eq!(verdict, Err(Reason::NotItsAgent), "{what}");
        }
        // A listener for both families sees an address in another form.
        let mapped = caller(Role::Sidecar, Some("valkey-cache-0-0-0"), "::ffff:10.0.0.1");
        assert_eq!(
            judge(ORDER, Warrant::Caller(&mapped), &standing(&info, &nodes)),
            Ok(Verdict::Go(ELECTION))
        );
        let nameless = nodes.replace(",valkey-cache-0-0.team.svc", "");
        assert_eq!(
            judge(ORDER, Warrant::Caller(&agent()), &standing(&info, &nameless)),
            Err(Reason::NotItsAgent)
        );
    }

    #[test]
    fn a_pod_is_known_by_the_host_that_its_server_announces() {
        for (pod, host, expected) in [
            ("valkey-cache-0-0-0", "valkey-cache-0-0.team.svc", true),
            ("valkey-cache-0-0", "valkey-cache-0-0.team.svc", true),
            ("valkey-cache-0-0-7d9c5b8f6d-x2x4z", "valkey-cache-0-0.team.svc", false),
            ("valkey-cache-0-10-0", "valkey-cache-0-1.team.svc", false),
            ("valkey-cache-0-1-0", "valkey-cache-0-10.team.svc", false),
            ("valkey-cache-0-0-1", "valkey-cache-0-0.team.svc", false),
            ("valkey-cache-0-0-a-b-c", "valkey-cache-0-0.team.svc", false),
            ("valkey-cache-0-0-", "valkey-cache-0-0.team.svc", false),
            ("valkey-cache-0-0-0", "valkey-cache-0.team.svc", false),
            ("valkey-cache-0-0-0", "valkey-cache-0-0.other.svc", false),
            ("valkey-other-0-0-0", "valkey-other-0-0.team.svc", false),
            ("valkey-cache-0-0-0", "valkey-cache-0-0", false),
            ("valkey-cache-0-0-0", "", false),
        ] {
            let identity = identity(Role::Sidecar, Some(pod));
            assert_eq!(is_host_of(&identity, host), expected, "{pod} at {host}");
        }
    }
}
