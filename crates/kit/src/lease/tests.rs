//! Tests of the election: the decision as a table, and candidates against a small API server that holds one Lease.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{self, Answer, Call, failure, object};

fn held_by(holder: Option<&str>) -> LeaseSpec {
    LeaseSpec {
        holder_identity: holder.map(ToOwned::to_owned),
        lease_duration_seconds: Some(12),
        ..LeaseSpec::default()
    }
}

#[test]
fn a_free_lease_is_taken_and_a_held_one_is_waited_for() {
    let seconds = Duration::from_secs;
    assert_eq!(decide(None, "me", seconds(0)), Decision::Take);
    assert_eq!(decide(Some(&held_by(None)), "me", seconds(0)), Decision::Take);
    assert_eq!(decide(Some(&held_by(Some(""))), "me", seconds(0)), Decision::Take);
    assert_eq!(decide(Some(&held_by(Some("me"))), "me", seconds(99)), Decision::Renew);
    assert_eq!(decide(Some(&held_by(Some("you"))), "me", seconds(5)), Decision::Wait(seconds(7)));
    assert_eq!(decide(Some(&held_by(Some("you"))), "me", seconds(12)), Decision::Take);
}

#[test]
fn the_times_leave_room_for_a_lost_renewal_and_a_slow_answer() {
    assert!(RENEW_EVERY * 2 < HOLDS_FOR, "one lost renewal does not cost the leadership");
    assert!(GIVE_UP_AFTER + DEADLINE <= HOLDS_FOR, "an answer may come as late as the deadline of its call");
    assert!(HOLDS_FOR + DEADLINE <= Duration::from_secs(15), "hand-over after a loss takes 15 s at most");
}

/// One Lease, with versions, and watches that end after one change.
#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    version: Arc<watch::Sender<u64>>,
}

impl Server {
    fn new() -> Self {
        Self { lease: Arc::default(), version: Arc::new(watch::Sender::new(1)) }
    }

    fn candidate(&self, identity: &str) -> Candidate {
        self.flaky_candidate(identity, |_| Trouble::None).0
    }

    /// A candidate whose calls may get lost, and how to bring that about at any time.
    fn flaky_candidate(
        &self,
        identity: &str,
        trouble: impl Fn(&Call) -> Trouble + Send + Sync + 'static,
    ) -> (Candidate, watch::Sender<bool>) {
        let (cut, is_cut) = watch::channel(false);
        let server = self.clone();
        let trouble = Arc::new(trouble);
        let (client, _) = testing::client(move |call| {
            let (server, is_cut) = (server.clone(), is_cut.clone());
            let trouble = if *is_cut.borrow() { Trouble::NoConnection } else { trouble(&call) };
            async move {
                match trouble {
                    Trouble::None => server.answer(call).await,
                    Trouble::NoConnection => std::future::pending().await,
                    Trouble::SlowAnswer(pause) => {
                        let answer = server.answer(call).await;
                        tokio::time::sleep(pause).await;
                        answer
                    }
                }
            }
        });
        (Candidate::new(client, "system", "leader", identity), cut)
    }

    fn holder(&self) -> Option<String> {
        let lease = self.lease.lock().expect("should not be poisoned");
        lease.as_ref()?["spec"]["holderIdentity"].as_str().map(ToOwned::to_owned)
    }

    async fn answer(&self, call: Call) -> Answer {
        match call.method.as_str() {
            "GET" if call.parameter("watch") == Some("true") => self.next_change(&call).await,
            "GET" if call.path.ends_with("/leases") => {
                let items: Vec<Value> = self.stored().into_iter().collect();
                let version = self.version.borrow().to_string();
                object(&json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
                               "metadata": {"resourceVersion": version}, "items": items}))
            }
            "GET" => match self.stored() {
                Some(lease) => object(&lease),
                None => failure(404, "NotFound", "no such lease"),
            },
            _ => self.store(call.body),
        }
    }

    fn stored(&self) -> Option<Value> {
        self.lease.lock().expect("should not be poisoned").clone()
    }

    fn store(&self, mut body: Value) -> Answer {
        let mut lease = self.lease.lock().expect("should not be poisoned");
        let current = lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
        if current.unwrap_or_default() != body["metadata"]["resourceVersion"] {
            return failure(409, "Conflict", "the object has been modified");
        }
        self.version.send_modify(|version| *version += 1);
        body["metadata"]["resourceVersion"] = json!(self.version.borrow().to_string());
        *lease = Some(body.clone());
        object(&body)
    }

    async fn next_change(&self, call: &Call) -> Answer {
        let seen: u64 = call.parameter("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut version = self.version.subscribe();
        version.wait_for(|version| *version > seen).await.expect("should outlive the watch");
        let event = json!({"type": "MODIFIED", "object": self.stored()});
        (200, format!("{event}\n"))
    }
}

/// What happens to a call.
enum Trouble {
    None,
    /// It never arrives, and no answer comes.
    NoConnection,
    /// It arrives at once; the answer comes later.
    SlowAnswer(Duration),
}

fn leading(candidate: Candidate, stop: &CancellationToken) -> JoinHandle<(bool, Instant)> {
    let stop = stop.clone();
    tokio::spawn(async move {
        let kept = candidate.acquire(&stop).await && candidate.hold(&stop).await;
        let ended = Instant::now();
        if kept {
            candidate.release().await;
        }
        (kept, ended)
    })
}

fn acquiring(candidate: Candidate) -> JoinHandle<Instant> {
    tokio::spawn(async move {
        assert!(candidate.acquire(&CancellationToken::new()).await, "should win some day");
        Instant::now()
    })
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_leads_for_as_long_as_it_renews() {
    let server = Server::new();
    let stop = CancellationToken::new();
    let first = leading(server.candidate("first"), &stop);
    let second = leading(server.candidate("second"), &stop);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let leader = server.holder().expect("should have a leader after a second");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(server.holder(), Some(leader));
    stop.cancel();
    let (first, second) = (first.await.expect("should end"), second.await.expect("should end"));
    assert_ne!(first.0, second.0, "exactly one of them led");
    assert_eq!(server.holder(), None, "the leader gave the lease back");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let server = Server::new();
    let stop = CancellationToken::new();
    let first = leading(server.candidate("first"), &stop);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = acquiring(server.candidate("second"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(server.holder().as_deref(), Some("first"));
    stop.cancel();
    let released = Instant::now();
    assert!(first.await.expect("should end").0);
    let taken = second.await.expect("should win");
    assert!(taken - released < Duration::from_millis(100), "{:?}", taken - released);
    assert_eq!(server.holder().as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_connection_gives_up_well_before_another_takes_over() {
    // Whenever the connection is lost between two renewals, and however far a renewal has come.
    for milliseconds in (0..6_000).step_by(250) {
        let server = Server::new();
        let (candidate, cut) = server.flaky_candidate("first", |_| Trouble::None);
        let first = leading(candidate, &CancellationToken::new());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = acquiring(server.candidate("second"));
        tokio::time::sleep(Duration::from_millis(10_000 + milliseconds)).await;
        cut.send_replace(true);
        let lost = Instant::now();
        let (kept, ended) = first.await.expect("should end");
        let taken = second.await.expect("should win");
        assert!(!kept);
        assert!(ended + Duration::from_secs(1) < taken, "cut {milliseconds} ms after a renewal");
        assert!(taken - lost <= Duration::from_secs(15), "handed over after {:?}", taken - lost);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_answers_do_not_make_two_leaders() {
    let server = Server::new();
    let nearly = DEADLINE.checked_sub(Duration::from_millis(100)).expect("should be longer");
    // Each call takes nearly its deadline, until the connection is lost after a renewal that took effect.
    let (candidate, cut) = server.flaky_candidate("first", move |call| match call.method.as_str() {
        "PUT" => Trouble::SlowAnswer(nearly),
        _ => Trouble::None,
    });
    let first = leading(candidate, &CancellationToken::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = acquiring(server.candidate("second"));
    let mut version = server.version.subscribe();
    version.changed().await.expect("should be renewed");
    cut.send_replace(true);
    let (kept, ended) = first.await.expect("should end");
    let taken = second.await.expect("should win");
    assert!(!kept);
    assert!(ended + Duration::from_secs(1) < taken, "ended {ended:?}, taken {taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_away_stops_within_one_renewal() {
    let server = Server::new();
    let first = leading(server.candidate("first"), &CancellationToken::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut taken = server.stored().expect("should be held");
    taken["spec"]["holderIdentity"] = json!("somebody");
    server.store(taken);
    let since = Instant::now();
    let (kept, ended) = first.await.expect("should end");
    assert!(!kept);
    assert!(ended - since <= RENEW_EVERY, "{:?}", ended - since);
    assert_eq!(server.holder().as_deref(), Some("somebody"));
}

#[tokio::test(start_paused = true)]
async fn a_write_in_between_is_not_a_renewal() {
    let server = Server::new();
    let rival = server.clone();
    // Somebody takes the lease between the leader's reading and its writing.
    let (candidate, _cut) = server.flaky_candidate("first", move |call| {
        if call.method == "PUT" && rival.holder().as_deref() == Some("first") {
            let mut taken = rival.stored().expect("should be held");
            taken["spec"]["holderIdentity"] = json!("somebody");
            rival.store(taken);
        }
        Trouble::None
    });
    let started = Instant::now();
    let (kept, ended) = leading(candidate, &CancellationToken::new()).await.expect("should end");
    assert!(!kept);
    assert!(ended - started <= RENEW_EVERY + RETRY_EVERY, "{:?}", ended - started);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_stopped_does_not_lead() {
    let server = Server::new();
    let _first = leading(server.candidate("first"), &CancellationToken::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stop = CancellationToken::new();
    let second = leading(server.candidate("second"), &stop);
    tokio::time::sleep(Duration::from_secs(30)).await;
    stop.cancel();
    assert!(!second.await.expect("should end").0);
    assert_eq!(server.holder().as_deref(), Some("first"));
}
