//! Our own server's lease: asks those who have a say, and stops writes before their word is over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto::agent::{Objection, RenewReply, RenewRequest};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};
use valkey::cluster::voters::{Voter as Member, Voters};

use super::super::health::Figures;
use super::super::peers::{Error, Peers, Talk};
use super::super::voice::Rapport;
use super::Lease;
use super::tenure::{Tenure, Word};
use super::writes::Writes;
use crate::{chain, say};

/// Between two looks at how long we have.
const EVERY: Duration = Duration::from_millis(250);
/// Between two questions to one voter, if it answers in time.
const ASK_EVERY: Duration = Duration::from_millis(700);
/// For an answer: a line that loses packets is slow, and what is on its way need not be asked again.
const PATIENCE: Duration = Duration::from_millis(600);
/// For a new channel, and an answer over it.
const AGAIN: Duration = Duration::from_millis(700);
/// With less than this left, the operator is asked for its word too.
const SHORT: Duration = Duration::from_millis(1200);

/// What became of one question.
enum Asked {
    Reached(Word),
    Refused,
    Nobody,
}

/// An answer: whose, when it was asked for, and the channel it came over.
type Answer = (String, Instant, Asked, Option<Talk>);

struct Holder {
    lease: Arc<Lease>,
    writes: Writes,
    rapport: Rapport,
    figures: Arc<Figures>,
    tenure: Tenure,
    /// Questions that are on their way.
    questions: JoinSet<Answer>,
    voters: HashMap<String, Voter>,
    /// When the operator was last asked.
    asked_operator: Option<Instant>,
    is_stopped: bool,
    /// The agent after us would know that others count on it.
    is_noted: bool,
    complained: bool,
}

/// Somebody who is asked again and again.
#[derive(Default)]
struct Voter {
    asked: Option<Instant>,
    is_asked: bool,
    /// What it was told last.
    holds: bool,
    /// It stays open: to show certificates twice a second would cost more than all the rest.
    talk: Option<Talk>,
}

pub(super) async fn go_on(lease: Arc<Lease>, writes: Writes, rapport: Rapport, figures: Arc<Figures>) {
    let mut holder = Holder {
        tenure: Tenure::new(lease.terms.lease, Instant::now()),
        lease,
        writes,
        rapport,
        figures,
        questions: JoinSet::new(),
        voters: HashMap::new(),
        asked_operator: None,
        is_stopped: false,
        is_noted: false,
        complained: false,
    };
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_there = false;
    loop {
        tokio::select! {
            Some(answer) = holder.questions.join_next() => {
                if let Ok(answer) = answer {
                    holder.note(answer);
                }
                continue;
            }
            _ = ticks.tick() => {}
        }
        let is_there_now = holder.lease.has_server();
        if is_there_now && !was_there {
            // Another agent may have stopped its writes before us. If that cannot be found out, they are let go once more.
            holder.is_stopped = holder.writes.are_stopped().await.unwrap_or(true);
        }
        was_there = is_there_now;
        holder.look().await;
    }
}

impl Holder {
    async fn look(&mut self) {
        let table = self.lease.table();
        let myself = table.myself().filter(|_| self.lease.has_server());
        let Some(voters) = myself.and_then(|myself| Voters::of(&table, &myself.id)) else {
            self.begin(myself.is_some());
            self.questions = JoinSet::new();
            self.voters.clear();
            self.figures.leads(false);
            if self.is_stopped && self.lease.has_server() {
                self.let_go("it leads nothing that somebody else could lead").await;
            }
            return;
        };
        self.tenure.heard_by_operator(self.rapport.heard());
        // First of all: we may have stood still ourselves.
        self.stop_if_over(&voters).await;
        self.ask_all(&voters);
        let is_short = self
            .tenure
            .ends(&voters)
            .is_some_and(|end| end.saturating_duration_since(Instant::now()) < SHORT);
        let is_due = self.asked_operator.is_none_or(|asked| asked.elapsed() >= ASK_EVERY);
        if is_short && is_due && voters.operator {
            self.asked_operator = Some(Instant::now());
            self.rapport.speak_now();
        }
    }

    /// Nothing was asked yet. Whoever was killed after it gave others its word left that to us, for as long as its server may lead.
    fn begin(&mut self, leads_nothing: bool) {
        let (term, now) = (self.lease.terms.lease, Instant::now());
        self.is_noted = self.writes.are_leased();
        if leads_nothing && self.is_noted {
            match self.writes.note_lease(false) {
                Ok(()) => self.is_noted = false,
                Err(error) => self.complain(&chain(&error)),
            }
        }
        self.tenure = if self.is_noted { Tenure::resumed(term, now) } else { Tenure::new(term, now) };
    }

    /// Before anybody is told that we stop in time: whoever comes after us has to do it, if we are killed.
    fn leave_word(&mut self) {
        match self.writes.note_lease(true) {
            Ok(()) => self.is_noted = true,
            Err(error) => self.complain(&chain(&error)),
        }
    }

    /// Stop what must not go on, and let go what may.
    async fn stop_if_over(&mut self, voters: &Voters) {
        let Some(end) = self.tenure.ends(voters) else { return };
        if !self.is_noted {
            self.leave_word();
        }
        // Not over before the next look.
        if Instant::now() + EVERY >= end {
            self.stop().await;
        } else if self.is_stopped {
            self.let_go("most of those who have a say are reached again").await;
        }
    }

    /// Again in every round: others may have undone it.
    async fn stop(&mut self) {
        if !self.is_stopped {
            say(
                "no write is taken any more: most of those who have a say are out of reach, and may replace this server",
            );
        }
        // Before the answer: a server that is slow obeys later, and somebody has to let go again.
        self.is_stopped = true;
        self.figures.writes_stopped(true);
        self.figures.leads(false);
        match self.writes.stop().await {
            Ok(()) => self.complained = false,
            Err(error) => self.complain(&chain(&error)),
        }
    }

    async fn let_go(&mut self, why: &str) {
        match self.writes.let_go().await {
            Ok(()) => {
                self.is_stopped = false;
                self.complained = false;
                self.figures.writes_stopped(false);
                say(&format!("writes are taken again: {why}"));
            }
            Err(error) => self.complain(&chain(&error)),
        }
    }

    fn complain(&mut self, words: &str) {
        if !self.complained {
            say(&format!("the server's writes cannot be stopped or let go: {words}"));
            self.complained = true;
        }
    }

    /// Ask everybody who was not asked of late.
    fn ask_all(&mut self, voters: &Voters) {
        // Those who have no say any more are hung up on.
        self.voters.retain(|node_id, _| voters.others.iter().any(|other| other.node_id == *node_id));
        // Whoever could not stop its server must not say that it will.
        let holds =
            self.tenure.ends(voters).is_some() && self.lease.can_stop() && self.is_noted && !self.complained;
        for member in &voters.others {
            let voter = self.voters.entry(member.node_id.clone()).or_default();
            if voter.is_asked || voter.asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
                continue;
            }
            let asked = Instant::now();
            (voter.asked, voter.is_asked, voter.holds) = (Some(asked), true, holds);
            let talk = voter.talk.take();
            let (peers, member) = (self.lease.peers.clone(), member.clone());
            let request = RenewRequest { node_id: voters.primary.node_id.clone(), holds };
            self.questions.spawn(async move {
                let (asked, answer, talk) = ask(&peers, &member, talk, &request).await;
                (member.node_id, asked, answer, talk)
            });
        }
    }

    fn note(&mut self, (node_id, asked, answer, talk): Answer) {
        let Some(voter) = self.voters.get_mut(&node_id) else { return };
        // It was told by this question that we stop without the word of most.
        let is_told = voter.holds && matches!(answer, Asked::Reached(Word::Given));
        if is_told {
            self.figures.leads(!self.is_stopped);
        }
        (voter.is_asked, voter.talk) = (false, talk);
        match answer {
            Asked::Reached(word) => self.tenure.reached(&node_id, asked, word),
            Asked::Refused => self.tenure.refused(&node_id),
            Asked::Nobody => {}
        }
    }
}

/// Whoever is there and cannot answer has not agreed to anybody either, and does not: it would find us here.
async fn ask(
    peers: &Peers,
    voter: &Member,
    talk: Option<Talk>,
    request: &RenewRequest,
) -> (Instant, Asked, Option<Talk>) {
    let asked = Instant::now();
    if let Some(mut talk) = talk
        && let Ok(Ok(reply)) = timeout(PATIENCE, talk.renew(request)).await
    {
        return (asked, meant(reply), Some(talk));
    }
    let asked = Instant::now();
    let address = peers.beside(voter.ip, voter.port);
    let anew = timeout(AGAIN, async {
        let mut talk = peers.open(address, AGAIN).await?;
        let reply = talk.renew(request).await?;
        Ok::<_, Error>((reply, talk))
    });
    match anew.await {
        Ok(Ok((reply, talk))) => (asked, meant(reply), Some(talk)),
        _ if peers.finds(voter).await => (asked, Asked::Reached(Word::Implied), None),
        _ => (asked, Asked::Nobody, None),
    }
}

fn meant(reply: RenewReply) -> Asked {
    match reply.objection() {
        Objection::Unspecified => Asked::Reached(Word::Given),
        Objection::Agreed | Objection::Replaced => Asked::Refused,
        _ => Asked::Reached(Word::Implied),
    }
}
