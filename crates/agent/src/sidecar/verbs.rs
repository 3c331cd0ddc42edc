//! What callers can ask of us: the verbs of `proto/valkey/agent/v1/agent.proto`.

use std::sync::Arc;

use pki::Role;
use proto::agent::agent_server::Agent;
use proto::agent::{
    AgreeReply, AgreeRequest, LoadUsersReply, LoadUsersRequest, LookReply, LookRequest, RenewReply,
    RenewRequest, SetDirectivesReply, SetDirectivesRequest, TakeOverReply, TakeOverRequest,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status, async_trait};

use super::complaints::Complaints;
use super::health::Figures;
use super::lease::Lease;
use super::steward::Steward;
use super::takeover::{Caller, Successor};

/// How it is counted that somebody else gave an order of the operator's.
const NOT_THE_OPERATOR: &str = "notTheOperator";

/// Answers for our server.
pub(super) struct Verbs {
    pub(super) successor: Arc<Successor>,
    pub(super) lease: Arc<Lease>,
    pub(super) steward: Steward,
    pub(super) figures: Arc<Figures>,
    pub(super) complaints: Complaints,
}

impl Verbs {
    /// Some orders are the operator's alone: agents of the cluster are let in, and have no business with each other's servers.
    fn only_for_the_operator<T>(&self, verb: &str, request: Request<T>) -> Result<T, Status> {
        let caller = caller(&request)?;
        if caller.identity.role == Role::Operator {
            return Ok(request.into_inner());
        }
        self.figures.refused(NOT_THE_OPERATOR);
        self.complaints.about(NOT_THE_OPERATOR, Instant::now(), || {
            format!("{} at {} was refused {verb}, which is for the operator", caller.identity, caller.ip)
        });
        Err(Status::permission_denied("this is for the operator of the cluster"))
    }
}

/// Whoever came in was given a name at the door.
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Status::unauthenticated("nobody knows who you are"))
}

#[async_trait]
impl Agent for Verbs {
    async fn look(&self, _: Request<LookRequest>) -> Result<Response<LookReply>, Status> {
        Ok(Response::new(self.successor.look().await))
    }

    async fn take_over(&self, request: Request<TakeOverRequest>) -> Result<Response<TakeOverReply>, Status> {
        let caller = caller(&request)?;
        Ok(Response::new(self.successor.take_over(&caller, request.into_inner()).await))
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewReply>, Status> {
        let caller = caller(&request)?;
        Ok(Response::new(self.lease.renew(&caller, request.get_ref())))
    }

    async fn agree(&self, request: Request<AgreeRequest>) -> Result<Response<AgreeReply>, Status> {
        let caller = caller(&request)?;
        Ok(Response::new(self.lease.agree(&caller, request.get_ref()).await))
    }

    async fn set_directives(
        &self,
        request: Request<SetDirectivesRequest>,
    ) -> Result<Response<SetDirectivesReply>, Status> {
        let request = self.only_for_the_operator("SetDirectives", request)?;
        Ok(Response::new(self.steward.set(&request).await))
    }

    async fn load_users(
        &self,
        request: Request<LoadUsersRequest>,
    ) -> Result<Response<LoadUsersReply>, Status> {
        let LoadUsersRequest {} = self.only_for_the_operator("LoadUsers", request)?;
        Ok(Response::new(self.steward.load_users().await))
    }
}
