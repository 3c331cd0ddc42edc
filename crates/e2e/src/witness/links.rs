//! One connection to each node, opened ahead of need and again when it breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use valkey::client::Value;
use valkey::{Connection, Deadlines, Error, Target};

use super::trouble::{self, Refusal, Trouble};
use crate::access::{Access, Address};

/// The connections to all nodes.
pub(super) struct Links {
    access: Access,
    seeds: Mutex<BTreeSet<Address>>,
    deadlines: Deadlines,
    open: Mutex<BTreeMap<Address, Arc<Link>>>,
}

impl Links {
    pub(super) fn new(access: Access, deadlines: Deadlines) -> Self {
        let seeds = Mutex::new(access.seeds.iter().cloned().collect());
        Self { access, seeds, deadlines, open: Mutex::default() }
    }

    pub(super) fn seeds(&self) -> BTreeSet<Address> {
        self.seeds.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cluster can be found at these addresses from now on.
    pub(super) fn found_at(&self, seeds: BTreeSet<Address>) {
        *self.seeds.lock().unwrap_or_else(PoisonError::into_inner) = seeds;
    }

    /// The link to a node; it may not be open yet.
    pub(super) fn to(&self, address: &Address) -> Arc<Link> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Link::new(address.clone(), self.access.target(address, self.deadlines)));
        open.entry(address.clone()).or_insert_with(new).clone()
    }

    /// Opens the links to these nodes, and forgets those to others.
    pub(super) async fn keep(&self, nodes: &BTreeSet<Address>) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).retain(|address, _| nodes.contains(address));
        let links: Vec<_> = nodes.iter().map(|address| self.to(address)).collect();
        // A node that is away now is tried again when it is needed.
        futures::future::join_all(links.iter().map(|link| link.connection())).await;
    }
}

/// The connection to one node.
pub(super) struct Link {
    address: Address,
    target: Target,
    state: AsyncMutex<State>,
    /// ASKING holds for the next command on its connection, whoever sends it: these commands go one at a time.
    asking: AsyncMutex<Option<Connection>>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    failed: Option<(Instant, Refusal)>,
}

impl Link {
    fn new(address: Address, target: Target) -> Self {
        Self { address, target, state: AsyncMutex::default(), asking: AsyncMutex::default() }
    }

    /// Sends a command and waits for its answer.
    pub(super) async fn send(&self, command: &[&str]) -> Result<Value, Refusal> {
        let connection = self.connection().await?;
        match connection.raw(command).await {
            Ok(value) => Ok(value),
            Err(error) => {
                if is_broken(&error) {
                    self.discard(&connection).await;
                }
                Err(trouble::read(&error, &self.address))
            }
        }
    }

    /// Sends a command for a slot that is on its way to this node.
    pub(super) async fn ask(&self, command: &[&str]) -> Result<Value, Refusal> {
        let mut asking = self.asking.lock().await;
        // Out of its place while it is used: whoever is interrupted leaves no half-used connection behind.
        let connection = match asking.take() {
            Some(connection) => connection,
            None => Connection::open(&self.target).await.map_err(|error| self.unopened(&error))?,
        };
        let answer = match connection.raw(&["ASKING"]).await {
            // Nothing was asked yet that could have been done.
            Err(error) if is_broken(&error) => return Err(Trouble::Unreachable.into()),
            Err(error) => Err(error),
            Ok(_) => connection.raw(command).await,
        };
        if !answer.as_ref().is_err_and(is_broken) {
            *asking = Some(connection);
        }
        answer.map_err(|error| trouble::read(&error, &self.address))
    }

    /// The open connection. Those who wait while another one dials share what comes of it: a silent host costs all of
    /// them one deadline, not one each.
    async fn connection(&self) -> Result<Arc<Connection>, Refusal> {
        let asked = Instant::now();
        let mut state = self.state.lock().await;
        match &*state {
            State { connection: Some(open), .. } => return Ok(open.clone()),
            State { failed: Some((when, refusal)), .. } if *when >= asked => return Err(refusal.clone()),
            _ => {}
        }
        match Connection::open(&self.target).await {
            Ok(opened) => Ok(state.connection.insert(Arc::new(opened)).clone()),
            Err(error) => {
                let refusal = self.unopened(&error);
                state.failed = Some((Instant::now(), refusal.clone()));
                Err(refusal)
            }
        }
    }

    /// Nothing was sent on a connection that did not open: it is no open question whether the server did it.
    fn unopened(&self, error: &Error) -> Refusal {
        match trouble::read(error, &self.address) {
            Refusal::Trouble(trouble) if trouble.is_ambiguous() => Trouble::Unreachable.into(),
            refusal => refusal,
        }
    }

    async fn discard(&self, broken: &Arc<Connection>) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(|open| Arc::ptr_eq(open, broken)) {
            state.connection = None;
        }
    }
}

fn is_broken(error: &Error) -> bool {
    matches!(error, Error::Disconnected { .. } | Error::Timeout { .. } | Error::Protocol { .. })
}
