//! Doing what the plan says, in its order, stopping at the first thing that does not work.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use api::keys;
use futures::StreamExt as _;
use secrecy::ExposeSecret as _;
use valkey::Connection;
use valkey::acl::SystemUser;

use super::build::Identity;
use super::command::{Command, Order, Route, Stage};
use super::context::Context;
use super::observe::{Observed, ObservedNode};
use super::plan::{Deed, Plan, Step};
use super::server::{AVAILABILITY_ZONE, Keys, PRIMARYAUTH};
use super::slot_move::{self, Connected, Party};
use super::topology::Place;
use super::users;
use super::validate::Desired;
use crate::agents::{self, Beside, Unset, takes_orders};
use crate::heartbeats::Reception;
use crate::hooks::AfterCommand;
use crate::objects::{Collision, Kind, Stopped, Writer, controlled_by};

/// Servers spoken to at the same time.
const PARALLEL: usize = 16;

/// Seconds that a server which is not heard of any more has to end: everybody waits for it.
const FENCED_WITHIN: NonZeroU32 = NonZeroU32::new(5).expect("5 is not 0");

/// What came of a plan.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Objects written, as `Kind name`.
    pub(super) written: Vec<String>,
    /// Commands that a server refused or did not take, in words.
    pub(super) refused: Vec<String>,
    /// Everything that was taken: commands, changes of users, deletions.
    pub(super) commands: usize,
    /// What a user should hear of how it went.
    pub(super) deeds: Vec<Deed>,
    /// The commands among it.
    pub(super) obeyed: Vec<Order>,
    pub(super) collision: Option<Collision>,
    /// The first call that failed.
    pub(super) error: Option<kit::apply::Error>,
}

/// Act.
pub(super) async fn act(
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
    server_keys: &Keys,
    context: &Context,
) -> Outcome {
    let mut outcome = Outcome::default();
    let writer = Writer {
        client: &context.client,
        namespace: &desired.identity.namespace,
        manager: keys::CLUSTER_FIELD_MANAGER,
    };
    let ours = |_, meta: &_| controlled_by(meta, Some(&desired.identity.uid));
    let servers = Servers {
        identity: &desired.identity,
        observed,
        keys: server_keys,
        reception: &context.reception,
        after_command: &context.after_command,
    };
    let written = writer.perform_all(&plan.writes, ours, &mut outcome.written).await;
    let is_written = written.is_ok();
    match written {
        Ok(()) => change_users(plan, &servers, &mut outcome).await,
        Err(Stopped::Taken(collision)) => outcome.collision = Some(collision),
        Err(Stopped::Failed(error)) => outcome.error = Some(error),
    }
    if !is_written && !plan.heals {
        return outcome;
    }
    if !servers.command_stages(&plan.stages, &mut outcome).await {
        return outcome;
    }
    if let Some(step) = &plan.step {
        take(&writer, step, &mut outcome).await;
    }
    if is_written {
        servers.command_all(&plan.trifles, &mut outcome).await;
    }
    outcome
}

/// Delete exactly what was looked at.
async fn take(writer: &Writer<'_>, step: &Step, outcome: &mut Outcome) {
    let (kind, name, uid, resource_version) = match step {
        Step::RestartPod { pod, uid, resource_version, .. }
        | Step::FencePod { pod, uid, resource_version, .. } => (Kind::Pod, pod, uid, resource_version),
        Step::RemoveNode { node, uid, resource_version } => (Kind::ValkeyNode, node, uid, resource_version),
        // A command, and given already.
        Step::HandOver { .. } => return,
    };
    tracing::info!(step = %step.describe(), kind = kind.name(), object = %name, "deleting");
    let grace = matches!(step, Step::FencePod { .. }).then_some(FENCED_WITHIN);
    match writer.objects(kind).delete_within(name, uid, resource_version, grace).await {
        Ok(()) => outcome.commands += 1,
        // Somebody else was faster, or it changed: the next pass looks again.
        Err(error) if error.is_not_found() || error.is_conflict() => {}
        Err(error) => drop(outcome.error.get_or_insert(error)),
    }
}

async fn change_users(plan: &Plan, servers: &Servers<'_>, outcome: &mut Outcome) {
    let calls: Vec<_> =
        plan.users.iter().map(|(place, changes)| servers.change_users(*place, changes)).collect();
    let results: Vec<(Place, Result<(), String>)> =
        futures::stream::iter(calls).buffer_unordered(PARALLEL).collect().await;
    for (place, result) in results {
        match result {
            Ok(()) => outcome.commands += 1,
            Err(words) => outcome.refused.push(format!("users of {}: {words}", servers.name(place))),
        }
    }
}

struct Servers<'a> {
    identity: &'a Identity,
    observed: &'a Observed,
    keys: &'a Keys,
    reception: &'a Reception,
    after_command: &'a AfterCommand,
}

impl Servers<'_> {
    fn name(&self, place: Place) -> String {
        self.observed.nodes.get(&place).map(|node| node.name().to_owned()).unwrap_or_default()
    }

    async fn open(&self, place: Place) -> Result<Connection, String> {
        let node = self.observed.nodes.get(&place).ok_or("there is no such node")?;
        let address = node.address().ok_or("its pod has no address")?;
        let opened = self.keys.open(address).await;
        opened.map(|(connection, _)| connection).map_err(|error| kit::telemetry::chain(&error))
    }

    async fn change_users(&self, place: Place, changes: &users::Changes) -> (Place, Result<(), String>) {
        let connection = match self.open(place).await {
            Ok(connection) => connection,
            Err(words) => return (place, Err(words)),
        };
        let applied = users::apply(&connection, changes).await;
        if applied.is_ok() {
            self.after_command.call().await;
        }
        (place, applied.map_err(|error| kit::telemetry::chain(&error)))
    }

    /// Whether all of them were taken. A later stage builds on the one before.
    async fn command_stages(&self, stages: &[Stage], outcome: &mut Outcome) -> bool {
        for stage in stages {
            if !self.command_all(stage, outcome).await {
                return false;
            }
        }
        true
    }

    /// Whether all of them were taken.
    async fn command_all(&self, stage: &Stage, outcome: &mut Outcome) -> bool {
        let calls: Vec<_> = stage.iter().map(|command| self.command(command)).collect();
        let results: Vec<(&Command, Result<(), String>)> =
            futures::stream::iter(calls).buffer_unordered(PARALLEL).collect().await;
        let mut all = true;
        for (command, result) in results {
            let (order, node) = (command.order.name(), self.name(command.at));
            match result {
                Ok(()) => {
                    tracing::info!(order, %node, "told a server");
                    outcome.commands += 1;
                    outcome.obeyed.push(command.order.clone());
                }
                Err(words) => {
                    tracing::warn!(order, %node, %words, "a server did not obey");
                    if let Order::Carry(_) = command.order {
                        outcome.deeds.push(Deed::warning("MigrationFailed", words.clone()).about(&node));
                    }
                    outcome.refused.push(format!("{order} at {node}: {words}"));
                    all = false;
                }
            }
        }
        all
    }

    async fn command<'a>(&self, command: &'a Command) -> (&'a Command, Result<(), String>) {
        let obeyed = match self.directive(&command.order) {
            Some((name, value)) => self.set(command.at, name, value).await,
            None => self.obey(command).await,
        };
        if obeyed.is_ok() {
            self.after_command.call().await;
        }
        (command, obeyed)
    }

    /// What an order sets in the server.
    fn directive<'b>(&'b self, order: &'b Order) -> Option<(&'static str, &'b str)> {
        match order {
            Order::SetZone(zone) => Some((AVAILABILITY_ZONE, zone)),
            Order::RenewPassword => Some((PRIMARYAUTH, self.keys.replication.as_ref()?.expose_secret())),
            _ => None,
        }
    }

    async fn set(&self, place: Place, name: &str, value: &str) -> Result<(), String> {
        let agent = self.observed.nodes.get(&place).and_then(|node| self.agent_beside(node));
        let directives = [(name, value)];
        let directly = async || {
            let set = self.open(place).await?.config_set(&directives).await;
            set.map_err(|error| kit::telemetry::chain(&error))
        };
        let set = agents::set(agent.as_ref(), self.reception, &directives, directly).await;
        set.map_err(|unset| match unset {
            Unset::Agent(error) => kit::telemetry::chain(&error),
            Unset::Directly(words) => words,
        })
    }

    /// The agent that sets directives of a node's server, if there is one.
    fn agent_beside(&self, node: &ObservedNode) -> Option<Beside> {
        let pod = node.pod.as_ref().filter(|_| takes_orders(node.agent, node.obeys))?;
        let home = self.reception.home(&self.identity.namespace, &self.identity.name);
        Beside::new(home, node.name(), &pod.name, &pod.uid, pod.address.as_deref()?)
    }

    async fn obey(&self, command: &Command) -> Result<(), String> {
        let connection = self.open(command.at).await?;
        let obeyed = match &command.order {
            Order::SetEpoch(epoch) => connection.cluster_set_config_epoch(*epoch).await,
            Order::AddSlots(ranges) => connection.cluster_add_slots(ranges).await,
            Order::Meet(address) => connection.cluster_meet(address, api::names::SERVER_PORT).await,
            Order::Replicate { primary, flush_first } => replicate(&connection, primary, *flush_first).await,
            Order::Forget(id) => connection.cluster_forget(id).await,
            Order::Migrate { ranges, to } => {
                connection.cluster_migrate_slots(&[(ranges.clone(), to.clone())]).await
            }
            Order::Carry(route) => return self.carry(connection, command.at, route).await,
            Order::Close(slots) => {
                let closed = slot_move::close(&connection, slots).await;
                return closed.map_err(|error| kit::telemetry::chain(&error));
            }
            Order::GiveUp { slots, owner } => slot_move::give_up(&connection, slots, owner).await,
            Order::Failover(mode) => connection.cluster_failover(*mode).await,
            // They set directives, or there is no password to show.
            Order::SetZone(_) | Order::RenewPassword => Ok(()),
        };
        obeyed.map_err(|error| kit::telemetry::chain(&error))
    }

    async fn carry(&self, source: Connection, from: Place, route: &Route) -> Result<(), String> {
        let address = self.observed.nodes.get(&route.to).and_then(|node| node.address());
        let opened = route.others.iter().map(|other| self.open(*other));
        let others: Vec<Result<Connection, String>> = futures::future::join_all(opened).await;
        let password = self.keys.replication.clone();
        let ends = Connected {
            source: Party { id: self.id(from)?, connection: source },
            target: Party { id: self.id(route.to)?, connection: self.open(route.to).await? },
            target_address: (address.unwrap_or_default().to_owned(), api::names::SERVER_PORT),
            others: others.into_iter().flatten().collect(),
            login: password.map(|password| (SystemUser::Replication.name(), password)),
            until: Connected::pause(),
        };
        slot_move::carry(&ends, &route.ranges).await.map_err(|error| kit::telemetry::chain(&error))
    }

    fn id(&self, place: Place) -> Result<String, String> {
        let facts = self.observed.nodes.get(&place).and_then(|node| node.server.facts());
        facts.map(|facts| facts.id.clone()).ok_or_else(|| "the server did not say who it is".to_owned())
    }
}

async fn replicate(connection: &Connection, primary: &str, flush_first: bool) -> Result<(), valkey::Error> {
    if flush_first {
        connection.flush_all().await?;
    }
    connection.cluster_replicate(primary).await
}
