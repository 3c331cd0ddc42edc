//! A packet for an address that the cluster does not have stays on the machine.

use devcluster::Cluster;
use devcluster::command::run;

/// An address of the internet, of a pod that no node can have, and of a Service that does not exist.
const ELSEWHERE: &str = "192.0.2.1";
const NO_POD: &str = "10.244.200.1";
const NO_SERVICE: &str = "10.96.7.7";

fn has_route(prefix: &[&str], address: &str) -> bool {
    run("ip", prefix.iter().chain(&["route", "get", address])).is_ok()
}

#[test]
fn nothing_finds_a_way_out() {
    let cluster = Cluster::find().expect("the record can be read").expect("a cluster is up");
    for node in cluster.nodes() {
        let namespace = node.layout().namespace();
        let inside = ["-n", namespace.as_str()];
        let neighbour = cluster.nodes().into_iter().find(|other| other.name() != node.name());
        let known = neighbour.unwrap_or_else(|| node.clone()).layout().address().to_string();
        assert!(has_route(&inside, &known), "{} does not reach {known}", node.name());
        for address in [ELSEWHERE, NO_POD] {
            assert!(!has_route(&inside, address), "{} has a route to {address}", node.name());
        }
    }
    for address in [NO_POD, NO_SERVICE] {
        assert!(!has_route(&[], address), "the machine has a route to {address}");
    }
}
