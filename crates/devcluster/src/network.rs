//! The cluster's network: a bridge, one namespace per node, and routes that lead nowhere else.

use std::path::Path;

use snafu::{ResultExt, Snafu};

use crate::command::{self, CommandError};
use crate::files::{self, FileError};
use crate::layout::{BRIDGE, HOST_ADDRESS, Layout, MAX_NODES, NodeLayout, POD_RANGE, PREFIX, SERVICE_RANGE};
use crate::process;

/// The network could not be laid or removed.
#[derive(Debug, Snafu)]
pub enum NetworkError {
    /// A list of `ip` commands could not be written.
    #[snafu(display("failed to prepare the network of {part}"))]
    Prepare {
        /// The part of the network.
        part: String,
        /// The cause.
        source: FileError,
    },
    /// A command said no.
    #[snafu(display("failed to set up the network of {part}"))]
    SetUp {
        /// The part of the network.
        part: String,
        /// The cause.
        source: CommandError,
    },
    /// Something could not be listed or removed.
    #[snafu(display("failed to clear the network"))]
    Clear {
        /// The cause.
        source: CommandError,
    },
}

/// Lays the bridge and the root namespace's routes.
pub(crate) fn lay_bridge(layout: &Layout) -> Result<(), NetworkError> {
    batch(layout, None, "the bridge", &bridge_commands(layout))
}

fn bridge_commands(layout: &Layout) -> Vec<String> {
    let mut commands = vec![
        // With an address of its own: it would else take one of its ports', and change it with them, and the nodes
        // would send to the old one for most of a minute.
        format!("link add {BRIDGE} address {} type bridge", link_address(0)),
        format!("addr add {HOST_ADDRESS}/24 dev {BRIDGE}"),
        format!("link set {BRIDGE} up"),
        // Without these a packet for a pod or Service that is gone would follow the machine's default route.
        format!("route add unreachable {POD_RANGE}"),
        format!("route add unreachable {SERVICE_RANGE}"),
    ];
    // The API server calls webhooks, and tests talk to pods, by the pods' own addresses.
    for node in layout.nodes(MAX_NODES) {
        commands.push(format!("route add {} via {} dev {BRIDGE}", node.pod_range(), node.address()));
    }
    commands
}

/// Makes a node's namespace and joins it to the bridge.
pub(crate) fn lay_node(node: &NodeLayout) -> Result<(), NetworkError> {
    let (name, namespace, link) = (node.name(), node.namespace(), node.link());
    let outside = [
        format!("netns add {namespace}"),
        // A node keeps its network card over a reboot: the others still send to its address.
        format!(
            "link add {link} type veth peer name eth0 address {} netns {namespace}",
            link_address(node.number())
        ),
        format!("link set {link} master {BRIDGE} up"),
    ];
    batch(node.cluster(), None, &name, &outside)?;
    batch(node.cluster(), Some(&namespace), &name, &inside_commands(node))?;
    // Pods are reached through their node.
    let forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
    process::run_in(&node.namespace_file(), &forward).context(SetUpSnafu { part: name })?;
    Ok(())
}

fn inside_commands(node: &NodeLayout) -> Vec<String> {
    let address = node.address();
    let mut commands = vec![
        "link set lo up".to_owned(),
        "link set eth0 up".to_owned(),
        format!("addr add {address}/24 dev eth0"),
        // kube-proxy rewrites packets for Services after they were routed, so there must be a route; it leads to a
        // bridge without ports, where a packet that was not rewritten ends.
        "link add services type bridge".to_owned(),
        "link set services up".to_owned(),
        format!("route add {SERVICE_RANGE} dev services src {address}"),
    ];
    for other in node.cluster().nodes(MAX_NODES).iter().filter(|other| *other != node) {
        commands.push(format!("route add {} via {}", other.pod_range(), other.address()));
    }
    commands
}

/// A locally administered link address.
fn link_address(number: u8) -> String {
    format!("02:89:00:00:00:{number:02x}")
}

/// Pulls or plugs the node's network cable.
pub(crate) fn set_link(node: &NodeLayout, up: bool) -> Result<(), NetworkError> {
    let state = if up { "up" } else { "down" };
    let link = node.link();
    command::run("ip", ["link", "set", &link, state]).context(SetUpSnafu { part: node.name() })?;
    Ok(())
}

/// Removes a node's namespace and cable; no process may be left in it.
pub(crate) fn remove_node(node: &NodeLayout) -> Result<(), NetworkError> {
    if links()?.contains(&node.link()) {
        command::run("ip", ["link", "delete", &node.link()]).context(ClearSnafu)?;
    }
    if namespaces().contains(&node.namespace()) {
        command::run("ip", ["netns", "delete", &node.namespace()]).context(ClearSnafu)?;
    }
    Ok(())
}

/// Removes everything of the cluster from the machine's network.
pub(crate) fn clear() -> Result<(), NetworkError> {
    for link in links()? {
        command::run("ip", ["link", "delete", &link]).context(ClearSnafu)?;
    }
    for namespace in namespaces() {
        command::run("ip", ["netns", "delete", &namespace]).context(ClearSnafu)?;
    }
    for route in routes()? {
        let words = ["route", "delete"].into_iter().chain(route.split_whitespace());
        command::run("ip", words).context(ClearSnafu)?;
    }
    for table in tables()? {
        let words = ["delete", "table"].into_iter().chain(table.split_whitespace());
        command::run("nft", words).context(ClearSnafu)?;
    }
    Ok(())
}

/// The cluster's links in the root namespace.
pub(crate) fn links() -> Result<Vec<String>, NetworkError> {
    Ok(parse_links(&list("ip", &["-o", "link", "show"])?))
}

fn parse_links(listed: &str) -> Vec<String> {
    let names = listed.lines().filter_map(|line| line.split(": ").nth(1));
    let names = names.map(|name| name.split('@').next().unwrap_or(name).to_owned());
    names.filter(|name| name.starts_with(PREFIX)).collect()
}

/// The cluster's network namespaces.
pub(crate) fn namespaces() -> Vec<String> {
    let files = files::list(Path::new("/run/netns")).unwrap_or_default();
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    names.filter(|name| name.starts_with(PREFIX)).map(str::to_owned).collect()
}

/// The cluster's routes in the root namespace that do not end with the bridge.
pub(crate) fn routes() -> Result<Vec<String>, NetworkError> {
    Ok(parse_routes(&list("ip", &["route", "show", "type", "unreachable"])?))
}

fn parse_routes(listed: &str) -> Vec<String> {
    let of_cluster = |line: &&str| line.contains(POD_RANGE) || line.contains(SERVICE_RANGE);
    listed.lines().filter(of_cluster).map(|line| line.trim().to_owned()).collect()
}

/// The cluster's nft tables in the root namespace, as `family name`.
pub(crate) fn tables() -> Result<Vec<String>, NetworkError> {
    let listed = list("nft", &["list", "tables"])?;
    let tables = listed.lines().filter_map(|line| line.strip_prefix("table "));
    let of_cluster = |table: &&str| table.split(' ').nth(1).is_some_and(|name| name.starts_with(PREFIX));
    Ok(tables.filter(of_cluster).map(str::to_owned).collect())
}

/// What a program lists. Without the program there is nobody who could have made anything.
fn list(program: &str, arguments: &[&str]) -> Result<String, NetworkError> {
    match command::run(program, arguments) {
        Err(CommandError::Start { .. }) => Ok(String::new()),
        listed => listed.context(ClearSnafu),
    }
}

/// Runs many `ip` commands in one process: a cluster needs about a hundred.
fn batch(
    layout: &Layout,
    namespace: Option<&str>,
    part: &str,
    commands: &[String],
) -> Result<(), NetworkError> {
    let file = layout.run().join(format!("network-{}", namespace.unwrap_or(part).replace(' ', "-")));
    files::write(&file, commands.join("\n") + "\n").context(PrepareSnafu { part })?;
    let file = file.display().to_string();
    let mut arguments = Vec::new();
    if let Some(namespace) = namespace {
        arguments.extend(["-n", namespace]);
    }
    arguments.extend(["-batch", &file]);
    command::run("ip", arguments).context(SetUpSnafu { part })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_no_default_route() {
        let commands = inside_commands(&Layout::default().node(2));
        assert!(commands.iter().all(|command| !command.contains("default")));
        assert!(commands.contains(&"route add 10.244.1.0/24 via 10.89.0.11".to_owned()));
        assert!(commands.iter().all(|command| !command.contains("10.244.2.0/24")));
    }

    #[test]
    fn the_machine_routes_unknown_pods_and_services_nowhere() {
        let commands = bridge_commands(&Layout::default());
        assert!(commands.contains(&"route add unreachable 10.244.0.0/16".to_owned()));
        assert!(commands.contains(&"route add unreachable 10.96.0.0/16".to_owned()));
    }

    #[test]
    fn a_missing_program_lists_nothing_and_a_refusal_is_an_error() {
        assert_eq!(list("no-such-program-as-this", &["link"]).unwrap(), "");
        assert!(list("false", &[]).is_err());
    }

    #[test]
    fn only_links_of_the_cluster_are_listed() {
        let listed = "1: lo: <LOOPBACK> mtu 65536\n7: vkdev0: <BROADCAST> mtu 1500\n\
                      8: vkdev-node1@if2: <BROADCAST> mtu 1500\n9: eth0: <UP>\n";
        assert_eq!(parse_links(listed), ["vkdev0", "vkdev-node1"]);
    }

    #[test]
    fn only_routes_of_the_cluster_are_listed() {
        let listed = "unreachable 10.244.0.0/16 \nunreachable 172.30.0.0/16\n";
        assert_eq!(parse_routes(listed), ["unreachable 10.244.0.0/16"]);
    }
}
