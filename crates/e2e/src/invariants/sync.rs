//! Replicas hold what their primaries hold.

use super::Violation;
use super::observation::{Observation, View, Wanted};
use super::topology::primary;
use crate::access::Address;

/// Every replica is linked to its primary and at most `behind` bytes of history behind it. After writes have stopped
/// that is 0, but for the pings a primary sends now and then: look again before you call it a failure.
pub fn replicas_in_sync(observation: &Observation, wanted: &Wanted, behind: u64) -> Vec<Violation> {
    let mut violations = Vec::new();
    for members in &wanted.shards {
        // Without one primary there is nobody to be in sync with, which is told elsewhere.
        let Some(primary) = primary(observation, members) else { continue };
        let Some(source) = observation.view(primary) else { continue };
        for replica in members.iter().filter(|member| *member != primary) {
            let Some(view) = observation.view(replica) else { continue };
            if let Some(why) = trouble(source, view, behind) {
                violations.push(out_of_sync(replica, primary, why));
            }
        }
    }
    violations
}

fn out_of_sync(replica: &Address, primary: &Address, why: String) -> Violation {
    Violation::OutOfSync { replica: replica.to_string(), primary: primary.to_string(), why }
}

fn trouble(source: &View, replica: &View, behind: u64) -> Option<String> {
    let Some(link) = replica.replication.as_ref().and_then(|replication| replication.primary.as_ref()) else {
        return Some("it has no link".to_owned());
    };
    if link.sync_in_progress {
        return Some("it receives a full copy".to_owned());
    }
    if !link.link_up {
        return Some("its link is down".to_owned());
    }
    let (Some(there), Some(here)) = (source.offset(), replica.offset()) else {
        return Some("an offset is not known".to_owned());
    };
    // Both were asked one after the other: a replica may well be ahead.
    let missing = there.saturating_sub(here);
    (missing > behind).then(|| format!("it is {missing} bytes behind"))
}

#[cfg(test)]
mod tests {
    use valkey::Info;
    use valkey::cluster::ClusterNodes;

    use super::*;

    fn view(table: &str, replication: &str) -> View {
        View {
            table: ClusterNodes::parse(table),
            replication: Info::parse(replication).replication(),
            state: "ok".to_owned(),
        }
    }

    fn check(replication: &str, behind: u64) -> Vec<String> {
        let servers = [Address::new("10.0.0.1", 6379), Address::new("10.0.0.2", 6379)];
        let primary = view(
            "a 10.0.0.1:6379@1 myself,master - 0 0 1 connected 0-16383",
            "role:master\nmaster_repl_offset:1000",
        );
        let replica = view("b 10.0.0.2:6379@1 myself,slave a 0 0 1 connected", replication);
        let observation =
            Observation { views: vec![(servers[0].clone(), Ok(primary)), (servers[1].clone(), Ok(replica))] };
        let wanted = Wanted { shards: vec![servers.to_vec()] };
        replicas_in_sync(&observation, &wanted, behind).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_replica_is_in_sync_or_it_is_said_why_not() {
        const LINK: &str = "role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\n";
        for (rest, behind, why) in [
            ("master_link_status:up\nslave_repl_offset:1000", 0, None),
            ("master_link_status:up\nslave_repl_offset:1014", 0, None),
            ("master_link_status:up\nslave_repl_offset:900", 100, None),
            ("master_link_status:up\nslave_repl_offset:900", 99, Some("it is 100 bytes behind")),
            ("master_link_status:down\nslave_repl_offset:1000", 0, Some("its link is down")),
            ("master_link_status:down\nmaster_sync_in_progress:1", 0, Some("it receives a full copy")),
        ] {
            let expected: Vec<String> = why
                .map(|why| format!("10.0.0.2:6379 is not in sync with 10.0.0.1:6379: {why}"))
                .into_iter()
                .collect();
            assert_eq!(check(&format!("{LINK}{rest}"), behind), expected, "{rest}");
        }
        assert_eq!(check("role:master", 0).len(), 1);
    }
}
