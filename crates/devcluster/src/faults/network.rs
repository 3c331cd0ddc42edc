//! Networks that lose packets: between nodes or pods, both ways or one way, on some ports, always or at random.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use snafu::ResultExt;

use super::error::{FaultError, NetworkSnafu, RecordSnafu};
use crate::command;
use crate::layout::NodeLayout;

/// The rules of each fault are in a table of their own, so that removing it undoes them and nothing else.
const TABLE: &str = "vkdev_faults";

/// One end of a network: where its rules go, and whose packets they are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The file of a network namespace that all packets of this side pass: the node's, also for its pods.
    pub namespace: PathBuf,
    /// Addresses or ranges: a node's own and its pods', or one pod's.
    pub addresses: Vec<String>,
}

impl From<&NodeLayout> for Side {
    /// A node with all its pods.
    fn from(node: &NodeLayout) -> Self {
        let addresses = vec![node.address().to_string(), node.pod_range()];
        Self { namespace: node.namespace_file(), addresses }
    }
}

impl Side {
    /// One pod alone, on this node.
    pub fn of_pod(node: &NodeLayout, address: &str) -> Self {
        Self { namespace: node.namespace_file(), addresses: vec![address.to_owned()] }
    }
}

/// Packets that get lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Addresses or ranges the packets come from.
    pub from: Vec<String>,
    /// Addresses or ranges the packets go to.
    pub to: Vec<String>,
    /// Only TCP packets from or to these ports; all packets when empty.
    pub ports: Vec<u16>,
    /// How many of a hundred packets are lost.
    pub percent: u8,
}

/// A network fault: cuts, and the namespace in which they are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// The file of the network namespace.
    pub namespace: PathBuf,
    /// What gets lost.
    pub cuts: Vec<Cut>,
}

impl Partition {
    /// Nothing passes between `one` and `others`.
    pub fn both_ways(one: &Side, others: &[Side]) -> Self {
        let there = Self::one_way_out(one, others);
        let back = Self::one_way_in(one, others);
        Self { cuts: [there.cuts, back.cuts].concat(), ..there }
    }

    /// What `one` sends does not reach `others`; what they send arrives.
    pub fn one_way_out(one: &Side, others: &[Side]) -> Self {
        Self::cut(one, one.addresses.clone(), addresses(others))
    }

    /// What `others` send does not reach `one`; what it sends arrives.
    pub fn one_way_in(one: &Side, others: &[Side]) -> Self {
        Self::cut(one, addresses(others), one.addresses.clone())
    }

    /// Only packets from or to these TCP ports.
    #[must_use]
    pub fn on_ports(mut self, ports: &[u16]) -> Self {
        self.cuts.iter_mut().for_each(|cut| cut.ports = ports.to_vec());
        self
    }

    /// Only so many of a hundred packets, chosen at random.
    #[must_use]
    pub fn losing(mut self, percent: u8) -> Self {
        self.cuts.iter_mut().for_each(|cut| cut.percent = percent.min(100));
        self
    }

    fn cut(at: &Side, from: Vec<String>, to: Vec<String>) -> Self {
        let cut = Cut { from, to, ports: Vec::new(), percent: 100 };
        Self { namespace: at.namespace.clone(), cuts: vec![cut] }
    }

    /// `rules` is where the rules are written for the tool to read.
    pub(super) fn begin(&self, id: &str, rules: &Path) -> Result<(), FaultError> {
        self.load("set", self.rules(id), rules)
    }

    /// A namespace that is gone has taken its rules along.
    pub(super) fn end(&self, id: &str, rules: &Path) -> Result<(), FaultError> {
        if !self.namespace.exists() {
            return Ok(());
        }
        self.load("remove", removal(id), rules)
    }

    fn load(&self, action: &'static str, text: String, rules: &Path) -> Result<(), FaultError> {
        std::fs::write(rules, text).context(RecordSnafu { action: "write", path: rules })?;
        let namespace = &self.namespace;
        let (net, rules) = (format!("--net={}", namespace.display()), rules.display().to_string());
        command::run("nsenter", [&net, "--", "nft", "--file", &rules])
            .map(drop)
            .context(NetworkSnafu { action, namespace })
    }

    /// A packet is looked at when it arrives and when it leaves: before and after a Service's address is replaced by
    /// that of a pod, and whether or not it begins or ends in this namespace.
    fn rules(&self, id: &str) -> String {
        let mut text = removal(id);
        let _ = writeln!(text, "table inet {} {{", table(id));
        for (chain, hook) in
            [("arriving", "prerouting priority raw"), ("leaving", "postrouting priority filter")]
        {
            let _ = writeln!(text, "    chain {chain} {{\n        type filter hook {hook}; policy accept;");
            for rule in self.cuts.iter().flat_map(Cut::rules) {
                let _ = writeln!(text, "        {rule}");
            }
            text.push_str("    }\n");
        }
        text + "}\n"
    }
}

impl Cut {
    fn rules(&self) -> Vec<String> {
        let addresses = format!("ip saddr {} ip daddr {}", set(&self.from), set(&self.to));
        let chance = match self.percent {
            100.. => String::new(),
            percent => format!(" numgen random mod 100 < {percent}"),
        };
        if self.ports.is_empty() {
            return vec![format!("{addresses}{chance} drop")];
        }
        let ports = set(&self.ports);
        let rule = |side| format!("{addresses} tcp {side} {ports}{chance} drop");
        vec![rule("dport"), rule("sport")]
    }
}

/// Deletes the table whether it is there or not: this version of the tool knows no other way to say that.
fn removal(id: &str) -> String {
    let table = table(id);
    format!("table inet {table}\ndelete table inet {table}\n")
}

fn table(id: &str) -> String {
    format!("{TABLE}_{id}")
}

fn addresses(sides: &[Side]) -> Vec<String> {
    sides.iter().flat_map(|side| side.addresses.clone()).collect()
}

fn set<T: ToString>(items: &[T]) -> String {
    format!("{{ {} }}", items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn side(number: u8) -> Side {
        Side::from(&Layout::default().node(number))
    }

    const THERE: &str = "ip saddr { 10.89.0.11, 10.244.1.0/24 } ip daddr { 10.89.0.12, 10.244.2.0/24 }";
    const BACK: &str = "ip saddr { 10.89.0.12, 10.244.2.0/24 } ip daddr { 10.89.0.11, 10.244.1.0/24 }";

    fn rules(partition: &Partition) -> Vec<String> {
        partition.cuts.iter().flat_map(Cut::rules).collect()
    }

    #[test]
    fn a_partition_cuts_both_directions_in_one_namespace() {
        let partition = Partition::both_ways(&side(1), &[side(2)]);
        assert_eq!(partition.namespace, Path::new("/run/netns/vkdev-1"));
        assert_eq!(rules(&partition), [format!("{THERE} drop"), format!("{BACK} drop")]);
    }

    #[test]
    fn one_way_cuts_one_direction() {
        assert_eq!(rules(&Partition::one_way_out(&side(1), &[side(2)])), [format!("{THERE} drop")]);
        assert_eq!(rules(&Partition::one_way_in(&side(1), &[side(2)])), [format!("{BACK} drop")]);
    }

    #[test]
    fn ports_are_cut_for_requests_and_answers() {
        let partition = Partition::one_way_out(&side(1), &[side(2)]).on_ports(&[6379, 16379]);
        let expected = ["dport", "sport"].map(|side| format!("{THERE} tcp {side} {{ 6379, 16379 }} drop"));
        assert_eq!(rules(&partition), expected);
    }

    #[test]
    fn loss_is_random() {
        let partition = Partition::one_way_out(&side(1), &[side(2)]).losing(30);
        assert_eq!(rules(&partition), [format!("{THERE} numgen random mod 100 < 30 drop")]);
    }

    #[test]
    fn every_fault_has_a_table_of_its_own() {
        let text = Partition::both_ways(&side(1), &[side(2)]).rules("a1");
        assert!(
            text.starts_with("table inet vkdev_faults_a1\ndelete table inet vkdev_faults_a1\n"),
            "{text}"
        );
        assert_eq!(text.matches(" drop\n").count(), 4, "{text}");
    }
}
