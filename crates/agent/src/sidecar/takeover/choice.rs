//! Who is to take over, by what all who could say of themselves. Pure.

use std::cmp::Reverse;

use proto::agent::{LookReply, Outcome, Reason, Role, TakeOverReply};

use super::death::{Death, Replica};

/// Who is to take over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// Somebody did already.
    Led(&'a Replica),
    /// These can, the best first; maybe nobody.
    Ask(Vec<&'a Replica>),
}

/// The one that has most comes first, and among equals the one with the smaller identity, so that two who choose choose the same.
pub(super) fn choose<'a>(death: &Death, answers: &[(&'a Replica, LookReply)]) -> Choice<'a> {
    let leads = |(replica, said): &&(&Replica, LookReply)| {
        let is_primary = said.role() == Role::Primary && said.slots > 0;
        said.node_id == replica.node_id && is_primary && said.config_epoch > death.config_epoch
    };
    if let Some((replica, _)) = answers.iter().find(leads) {
        return Choice::Led(replica);
    }
    let is_able = |(replica, said): &&(&Replica, LookReply)| lacks(death, replica, said).is_none();
    let mut able: Vec<_> = answers.iter().filter(is_able).collect();
    able.sort_by_key(|(replica, said)| (Reverse(said.offset), &replica.node_id));
    Choice::Ask(able.into_iter().map(|(replica, _)| *replica).collect())
}

/// Why somebody does not hold what the dead one had, up to its position; nothing, if it does. A position in another history says nothing.
pub(super) fn lacks(death: &Death, replica: &Replica, said: &LookReply) -> Option<&'static str> {
    let is_same_history = !death.replication_id.is_empty() && said.replication_id == death.replication_id;
    match said {
        // At an address that was another pod's a moment ago there is somebody else now.
        _ if said.node_id != replica.node_id => Some("somebody else is in its place"),
        _ if said.role() != Role::Replica || said.primary_id != death.node_id => {
            Some("it follows somebody else")
        }
        _ if said.config_epoch != death.config_epoch => Some("it knows another claim"),
        _ if !said.copy_whole => Some("it holds no whole copy"),
        _ if !is_same_history => Some("what it holds is of another history"),
        _ => None,
    }
}

/// What follows from an answer to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It leads.
    Done,
    /// It does not, and another one may.
    Another,
    /// Nobody else is to be asked.
    Stop,
}

/// Somebody who is at it must not get a rival, and what is wrong with the order is wrong everywhere.
pub(super) fn after(answer: TakeOverReply) -> Next {
    match (answer.outcome(), answer.reason()) {
        (Outcome::Elected | Outcome::Taken | Outcome::Already, _) => Next::Done,
        (Outcome::Refused, Reason::UnderWay | Reason::OtherEpoch | Reason::NotItsAgent)
        // Nobody knows what it did.
        | (Outcome::Unspecified, _) => Next::Stop,
        (Outcome::Refused | Outcome::Failed, _) => Next::Another,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_one_is_asked_only_where_nobody_is_at_it_and_the_order_is_good() {
        for (outcome, reason, expected) in [
            (Outcome::Elected, Reason::Unspecified, Next::Done),
            (Outcome::Taken, Reason::Unspecified, Next::Done),
            (Outcome::Already, Reason::Unspecified, Next::Done),
            (Outcome::Failed, Reason::Unspecified, Next::Another),
            (Outcome::Unspecified, Reason::Unspecified, Next::Stop),
            (Outcome::Refused, Reason::Unspecified, Next::Another),
            (Outcome::Refused, Reason::NotItsReplica, Next::Another),
            (Outcome::Refused, Reason::PrimaryLives, Next::Another),
            (Outcome::Refused, Reason::CopyNotWhole, Next::Another),
            (Outcome::Refused, Reason::NoServer, Next::Another),
            (Outcome::Refused, Reason::NoMajority, Next::Another),
            (Outcome::Refused, Reason::SwitchedOff, Next::Another),
            (Outcome::Refused, Reason::UnderWay, Next::Stop),
            (Outcome::Refused, Reason::OtherEpoch, Next::Stop),
            (Outcome::Refused, Reason::NotItsAgent, Next::Stop),
        ] {
            let answer =
                TakeOverReply { outcome: outcome.into(), reason: reason.into(), took_milliseconds: 0 };
            assert_eq!(after(answer), expected, "{outcome:?}, {reason:?}");
        }
    }

    fn death() -> Death {
        let replica =
            |id: &str, last: u8| Replica { node_id: id.to_owned(), ip: [10, 0, 0, last].into(), port: 6379 };
        Death {
            node_id: "dead".to_owned(),
            config_epoch: 7,
            run_id: "run".to_owned(),
            replication_id: "history".to_owned(),
            replicas: vec![replica("b", 2), replica("a", 3), replica("c", 4)],
        }
    }

    fn said(id: &str, offset: u64) -> LookReply {
        LookReply {
            role: Role::Replica.into(),
            node_id: id.to_owned(),
            primary_id: "dead".to_owned(),
            config_epoch: 7,
            replication_id: "history".to_owned(),
            offset,
            link_up: false,
            copy_whole: true,
            slots: 0,
            ..LookReply::default()
        }
    }

    /// Whom these answers, of the three in their order, lead to.
    fn chosen(answers: [Option<LookReply>; 3]) -> String {
        let death = death();
        let answers: Vec<_> =
            death.replicas.iter().zip(answers).filter_map(|(replica, said)| Some((replica, said?))).collect();
        match choose(&death, &answers) {
            Choice::Led(replica) => format!("led by {}", replica.node_id),
            Choice::Ask(replicas) => replicas.iter().map(|replica| replica.node_id.as_str()).collect(),
        }
    }

    #[test]
    fn the_one_that_has_most_comes_first() {
        let leads =
            |epoch| LookReply { role: Role::Primary.into(), slots: 5, config_epoch: epoch, ..said("c", 9) };
        for (what, answers, expected) in [
            ("different positions", [Some(said("b", 5)), Some(said("a", 7)), Some(said("c", 6))], "acb"),
            ("equal ones", [Some(said("b", 5)), Some(said("a", 5)), Some(said("c", 5))], "abc"),
            ("one is silent", [Some(said("b", 5)), None, Some(said("c", 6))], "cb"),
            ("all are silent", [None, None, None], ""),
            ("one leads already", [Some(said("b", 5)), Some(said("a", 7)), Some(leads(8))], "led by c"),
            ("one led before", [Some(said("b", 5)), None, Some(leads(6))], "b"),
        ] {
            assert_eq!(chosen(answers), expected, "{what}");
        }
    }

    #[test]
    fn nobody_is_asked_who_does_not_hold_what_the_dead_one_had() {
        let best = || said("a", 100);
        for (what, other) in [
            ("its first copy never ended", LookReply { copy_whole: false, ..best() }),
            ("another history", LookReply { replication_id: "other".to_owned(), ..best() }),
            ("another primary", LookReply { primary_id: "p2".to_owned(), ..best() }),
            ("another claim", LookReply { config_epoch: 6, ..best() }),
            ("no answer of its server", LookReply { role: Role::Unspecified.into(), ..best() }),
            ("a primary without slots", LookReply { role: Role::Primary.into(), ..best() }),
            ("somebody else at its address", LookReply { node_id: "x".to_owned(), ..best() }),
        ] {
            assert_eq!(chosen([Some(said("b", 5)), Some(other), None]), "b", "{what}");
        }
        let mut nameless = death();
        nameless.replication_id = String::new();
        let answers = [(&nameless.replicas[0], LookReply { replication_id: String::new(), ..said("b", 5) })];
        assert_eq!(choose(&nameless, &answers), Choice::Ask(vec![]));
    }
}
