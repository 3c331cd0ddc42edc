//! For how long our server may take writes: as long as most of its voters were reached a moment ago. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proto::promises::AGREED_FOR;

use valkey::cluster::voters::Voters;

/// Whoever agreed to another one has forgotten it after so long, and does not agree again while it finds us there.
const FORGOTTEN: Duration = AGREED_FOR.saturating_add(Duration::from_secs(1));

/// The operator keeps its promise for a fixed time, whatever the term of agents is.
const AT_THE_OPERATORS_WORD: Duration = Duration::from_secs(2);

/// For an agent that is new beside a server that leads at the word of others: nobody knows for how long nobody asked them.
const RESUMED: Duration = Duration::from_secs(1);

/// What a voter gave us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Its word.
    Given,
    /// None: it is there, and cannot answer us. It does not agree to anybody while it finds us there; but it may have, before.
    Implied,
}

/// A voter that was reached again and again.
#[derive(Debug)]
struct Contact {
    since: Instant,
    last: Instant,
    /// It gave its word since then.
    given: bool,
    /// When it was last asked, if that counts.
    counts: Option<Instant>,
}

/// When each of the voters was last asked and answered. What counts is when it was asked: whoever answers gives its word after that.
#[derive(Debug)]
pub(super) struct Tenure {
    term: Duration,
    since: Instant,
    voters: HashMap<String, Contact>,
    operator: Option<Instant>,
    /// Until then we had the word of most of them, at least once.
    ended: Option<Instant>,
}

impl Tenure {
    pub(super) fn new(term: Duration, since: Instant) -> Self {
        Self { term, since, voters: HashMap::new(), operator: None, ended: None }
    }

    /// The tenure of a server whose agent had the word of most and is gone: it stops in a moment, if they are not reached before.
    pub(super) fn resumed(term: Duration, since: Instant) -> Self {
        Self { ended: Some(since + RESUMED), ..Self::new(term, since) }
    }

    /// It was reached, and has nothing against us.
    pub(super) fn reached(&mut self, node_id: &str, asked: Instant, word: Word) {
        let begin = || Contact { since: asked, last: asked, given: false, counts: None };
        let contact = self.voters.entry(node_id.to_owned()).or_insert_with(begin);
        if asked.saturating_duration_since(contact.last) > self.term {
            *contact = Contact { counts: contact.counts, ..begin() };
        }
        contact.last = asked;
        contact.given |= word == Word::Given;
        if contact.given || asked.saturating_duration_since(contact.since) >= FORGOTTEN {
            contact.counts = Some(asked);
        }
    }

    /// It says that somebody else is to lead.
    pub(super) fn refused(&mut self, node_id: &str) {
        self.voters.remove(node_id);
    }

    /// The operator was told something then, and took it. What it was told before we began to lead says nothing about that.
    pub(super) fn heard_by_operator(&mut self, asked: Option<Instant>) {
        self.operator = asked.filter(|asked| *asked >= self.since);
    }

    /// Until when our server may take writes; nothing, if most of its voters were never reached: they may have no agents yet, and
    /// without them nobody replaces us.
    pub(super) fn ends(&mut self, voters: &Voters) -> Option<Instant> {
        self.voters.retain(|node_id, _| voters.others.iter().any(|other| other.node_id == *node_id));
        let shorter = self.term.saturating_sub(AT_THE_OPERATORS_WORD);
        let operator = self.operator.filter(|_| voters.operator).and_then(|asked| asked.checked_sub(shorter));
        let counted = self.voters.values().filter_map(|contact| contact.counts);
        let mut asked: Vec<Instant> = counted.chain(operator).collect();
        asked.sort_unstable_by(|one, other| other.cmp(one));
        // We have our own word.
        let last = asked.get(voters.majority().saturating_sub(2)).map(|asked| *asked + self.term);
        self.ended = last.or(self.ended);
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valkey::testing::table;

    const TERM: Duration = Duration::from_secs(2);

    #[test]
    fn the_oldest_word_of_those_who_are_needed_counts() {
        let voters = Voters::of(&table(2, 1), "p0").expect("should have voters");
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut tenure = Tenure::new(TERM, begin);
        tenure.reached("p0r0", at(1), Word::Given);
        assert_eq!(tenure.ends(&voters), None, "two of five");
        tenure.reached("p1", at(2), Word::Given);
        assert_eq!(tenure.ends(&voters), Some(at(3)), "three of five");
        tenure.reached("p1r0", at(5), Word::Given);
        assert_eq!(tenure.ends(&voters), Some(at(4)));
        tenure.heard_by_operator(Some(at(4)));
        assert_eq!(tenure.ends(&voters), Some(at(6)));
        tenure.refused("p1r0");
        assert_eq!(tenure.ends(&voters), Some(at(4)));
        tenure.refused("p1");
        assert_eq!(tenure.ends(&voters), Some(at(3)));
        tenure.refused("p0r0");
        assert_eq!(tenure.ends(&voters), Some(at(3)), "what is over stays over");
    }

    #[test]
    fn what_another_agent_began_is_over_in_a_moment_unless_most_are_reached() {
        let voters = Voters::of(&table(1, 2), "p0").expect("should have voters");
        let begin = Instant::now();
        let mut tenure = Tenure::resumed(TERM, begin);
        assert_eq!(tenure.ends(&voters), Some(begin + RESUMED));
        tenure.reached("p0r1", begin, Word::Implied);
        assert_eq!(tenure.ends(&voters), Some(begin + RESUMED), "it may have agreed to another one");
        tenure.reached("p0r1", begin, Word::Given);
        assert_eq!(tenure.ends(&voters), Some(begin + TERM));
    }

    #[test]
    fn the_operator_counts_only_where_it_has_a_say() {
        let voters = Voters::of(&table(1, 2), "p0").expect("should have voters");
        let mut tenure = Tenure::new(TERM, Instant::now());
        tenure.heard_by_operator(Some(Instant::now()));
        assert_eq!(tenure.ends(&voters), None);
    }

    #[test]
    fn what_the_operator_heard_before_does_not_count() {
        let voters = Voters::of(&table(1, 1), "p0").expect("should have voters");
        let begin = Instant::now();
        let mut tenure = Tenure::new(TERM, begin + TERM);
        tenure.heard_by_operator(Some(begin));
        assert_eq!(tenure.ends(&voters), None);
        tenure.heard_by_operator(Some(begin + TERM));
        assert_eq!(tenure.ends(&voters), Some(begin + TERM + TERM));
    }

    #[test]
    fn who_has_no_say_any_more_does_not_count() {
        let before = Voters::of(&table(1, 2), "p0").expect("should have voters");
        let after = Voters::of(&table(1, 1), "p0").expect("should have voters");
        let now = Instant::now();
        let mut tenure = Tenure::new(TERM, now);
        tenure.reached("p0r1", now, Word::Given);
        assert_eq!(tenure.ends(&before), Some(now + TERM));
        tenure.reached("x", now + TERM, Word::Given);
        assert_eq!(tenure.ends(&after), Some(now + TERM), "over, and nobody else was reached");
    }

    #[test]
    fn whoever_is_only_there_goes_on_to_count_and_begins_to_only_after_a_while() {
        let voters = Voters::of(&table(1, 1), "p0").expect("should have voters");
        let begin = Instant::now();
        let at = |halves: u32| begin + Duration::from_millis(500) * halves;
        let mut tenure = Tenure::new(TERM, begin);
        for half in 0..18 {
            tenure.reached("p0r0", at(half), Word::Implied);
            assert_eq!(tenure.ends(&voters), None, "{half}");
        }
        tenure.reached("p0r0", at(18), Word::Implied);
        assert_eq!(tenure.ends(&voters), Some(at(18) + TERM));
        // It was out of reach for longer than its word counted, and may have agreed to another one.
        tenure.reached("p0r0", at(23), Word::Implied);
        assert_eq!(tenure.ends(&voters), Some(at(18) + TERM));
        tenure.reached("p0r0", at(24), Word::Given);
        tenure.reached("p0r0", at(25), Word::Implied);
        assert_eq!(tenure.ends(&voters), Some(at(25) + TERM));
    }
}
