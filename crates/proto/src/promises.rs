//! What somebody who has a say about primaries promised: whoever lets one go on agrees to nobody who would replace it, for longer than it
//! may go on at that word. Agents and the operator keep the same promise. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::agent::Objection;

/// For so long nobody but the one we agreed to may lead: longer than it takes.
pub const AGREED_FOR: Duration = Duration::from_secs(8);
/// Questions that are further apart do not count as one absence.
const APART: Duration = Duration::from_secs(2);
/// What is older is forgotten, unless it is asked about.
const KEPT: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy)]
struct Contact {
    at: Instant,
    /// It said that it stops when it does not get the word of most.
    holds: bool,
}

#[derive(Debug)]
struct Absence {
    since: Instant,
    seen: Instant,
}

#[derive(Debug)]
struct Agreement {
    with: String,
    at: Instant,
}

/// By the identity of the primary.
#[derive(Debug)]
pub struct Promises {
    /// What was promised before that, nobody knows.
    since: Instant,
    suspicion: Duration,
    /// Whoever is there and cannot be answered counts on us all the same.
    is_implied: bool,
    contacts: HashMap<String, Contact>,
    absences: HashMap<String, Absence>,
    agreements: HashMap<String, Agreement>,
}

impl Promises {
    /// Nothing was promised yet, by whoever begins now.
    pub fn new(suspicion: Duration, now: Instant) -> Self {
        Self {
            since: now,
            suspicion,
            is_implied: true,
            contacts: HashMap::new(),
            absences: HashMap::new(),
            agreements: HashMap::new(),
        }
    }

    /// The same for somebody on whom nobody counts who was not heard.
    pub fn of_those_who_are_heard(suspicion: Duration, now: Instant) -> Self {
        Self { is_implied: false, ..Self::new(suspicion, now) }
    }

    /// The agent of this primary asks to go on.
    pub fn renew(&mut self, primary: &str, holds: bool, now: Instant) -> Result<(), Objection> {
        self.forget(now);
        if self.agreements.get(primary).is_some_and(|agreement| now - agreement.at < AGREED_FOR) {
            return Err(Objection::Agreed);
        }
        self.met(primary, holds, now);
        // To whom we agreed before we were started, we do not know.
        if now - self.since < AGREED_FOR { Err(Objection::TooEarly) } else { Ok(()) }
    }

    /// When this primary's agent last asked, or its pod was last found to be there; nothing of one that would not stop by itself.
    pub fn contact(&self, primary: &str) -> Option<Instant> {
        self.contacts.get(primary).filter(|contact| contact.holds).map(|contact| contact.at)
    }

    /// Somebody asks to replace it; we have just looked whether it is there.
    pub fn agree(
        &mut self,
        primary: &str,
        successor: &str,
        is_there: bool,
        now: Instant,
    ) -> Result<(), Objection> {
        self.forget(now);
        if is_there {
            let holds = self.contacts.get(primary).is_some_and(|contact| contact.holds);
            self.met(primary, holds, now);
            return Err(Objection::Present);
        }
        let absence = self.absences.entry(primary.to_owned()).or_insert(Absence { since: now, seen: now });
        if now - absence.seen > APART {
            absence.since = now;
        }
        absence.seen = now;
        let absent_for = now - absence.since;
        let was_heard = self.contacts.get(primary).is_some_and(|contact| now - contact.at < self.suspicion);
        // It may have found us there since it was last heard, and counts on that: we have to miss it for as long ourselves.
        let was_there = self.is_implied && absent_for < self.suspicion * 3 / 4;
        if was_heard || was_there || now - self.since < self.suspicion {
            return Err(Objection::TooEarly);
        }
        let other = self.agreements.get(primary).filter(|agreement| agreement.with != successor);
        if other.is_some_and(|agreement| now - agreement.at < AGREED_FOR) {
            return Err(Objection::Agreed);
        }
        self.agreements.insert(primary.to_owned(), Agreement { with: successor.to_owned(), at: now });
        Ok(())
    }

    /// We agreed to this successor, and nothing comes of it. Only whoever carries it out itself knows that: others have to keep their word.
    pub fn withdraw(&mut self, primary: &str, successor: &str) {
        if self.agreements.get(primary).is_some_and(|agreement| agreement.with == successor) {
            self.agreements.remove(primary);
        }
    }

    fn met(&mut self, primary: &str, holds: bool, at: Instant) {
        self.contacts.insert(primary.to_owned(), Contact { at, holds });
        self.absences.remove(primary);
    }

    fn forget(&mut self, now: Instant) {
        self.absences.retain(|_, absence| now - absence.seen < KEPT);
        // Whoever is missed is asked about again and again.
        self.contacts
            .retain(|primary, contact| now - contact.at < KEPT || self.absences.contains_key(primary));
        self.agreements.retain(|_, agreement| now - agreement.at < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const SUSPICION: Duration = Duration::from_secs(3);

    fn after(begin: Instant, milliseconds: u64) -> Instant {
        begin + Duration::from_millis(milliseconds)
    }

    fn promises(begin: Instant) -> Promises {
        Promises::new(SUSPICION, begin)
    }

    /// It is missed, and looked for again and again.
    fn asked(ours: &mut Promises, times: &[Instant]) -> Vec<Result<(), Objection>> {
        times.iter().map(|now| ours.agree("p", "r", false, *now)).collect()
    }

    const EARLY: Result<(), Objection> = Err(Objection::TooEarly);

    #[test]
    fn nobody_is_replaced_who_asked_of_late_or_is_there() {
        let begin = Instant::now();
        let at = |milliseconds| after(begin, milliseconds);
        let mut ours = promises(begin);
        assert_eq!(ours.renew("p", true, at(10_000)), Ok(()));
        assert_eq!(asked(&mut ours, &[at(10_100), at(11_500), at(12_999)]), [EARLY; 3]);
        assert_eq!(ours.agree("p", "r", true, at(13_000)), Err(Objection::Present));
        let times = [at(13_100), at(14_500), at(15_999), at(16_000)];
        assert_eq!(asked(&mut ours, &times), [EARLY, EARLY, EARLY, Ok(())]);
    }

    #[test]
    fn we_have_to_miss_it_ourselves() {
        let begin = Instant::now();
        let at = |milliseconds| after(begin, milliseconds);
        let mut ours = promises(begin);
        // What we promised before we were started, we do not know.
        assert_eq!(asked(&mut ours, &[at(0), at(1500), at(2999), at(3000)]), [EARLY, EARLY, EARLY, Ok(())]);
        let mut ours = promises(begin);
        // Too far apart: it may have been there in between.
        let times = [at(20_000), at(23_000), at(25_000), at(25_249), at(25_250)];
        assert_eq!(asked(&mut ours, &times), [EARLY, EARLY, EARLY, EARLY, Ok(())]);
    }

    #[test]
    fn whoever_counts_on_us_only_when_it_is_heard_is_missed_at_once() {
        let begin = Instant::now();
        let at = |milliseconds| after(begin, milliseconds);
        let mut ours = Promises::of_those_who_are_heard(SUSPICION, begin);
        assert_eq!(ours.agree("p", "r", false, at(2999)), Err(Objection::TooEarly));
        assert_eq!(ours.agree("p", "r", false, at(3000)), Ok(()));
        // To whom somebody before us agreed, we do not know.
        assert_eq!(ours.renew("q", true, at(7999)), Err(Objection::TooEarly));
        assert_eq!(ours.renew("q", true, at(8000)), Ok(()));
        assert_eq!(ours.agree("q", "r", false, at(10_999)), Err(Objection::TooEarly));
        assert_eq!(ours.agree("q", "r", false, at(20_000)), Ok(()));
    }

    #[test]
    fn our_word_is_given_to_one_at_a_time() {
        let begin = Instant::now();
        let at = |milliseconds| after(begin, milliseconds);
        let mut ours = promises(begin);
        assert_eq!(ours.renew("p", true, at(10_000)), Ok(()));
        assert_eq!(ours.agree("p", "r2", false, at(11_600)), EARLY);
        assert_eq!(ours.agree("p", "r2", false, at(12_600)), EARLY);
        assert_eq!(ours.agree("p", "r1", false, at(14_000)), Ok(()));
        assert_eq!(ours.agree("p", "r1", false, at(14_500)), Ok(()), "again");
        assert_eq!(ours.agree("p", "r2", false, at(14_500)), Err(Objection::Agreed));
        assert_eq!(ours.renew("p", true, at(22_499)), Err(Objection::Agreed));
        assert_eq!(ours.renew("q", true, at(22_499)), Ok(()), "another one");
        assert_eq!(ours.renew("p", true, at(22_500)), Ok(()), "nobody took over");
    }

    #[test]
    fn a_word_that_nothing_came_of_can_be_given_to_another() {
        let begin = Instant::now();
        let at = |milliseconds| after(begin, milliseconds);
        let mut ours = promises(begin);
        asked(&mut ours, &[at(3000), at(4500)]);
        assert_eq!(ours.agree("p", "r1", false, at(6000)), Ok(()));
        ours.withdraw("p", "r2");
        assert_eq!(
            ours.agree("p", "r2", false, at(6100)),
            Err(Objection::Agreed),
            "it was not given to that one"
        );
        ours.withdraw("p", "r1");
        assert_eq!(ours.agree("p", "r2", false, at(6200)), Ok(()));
    }

    #[test]
    fn whoever_would_not_stop_by_itself_is_not_missed() {
        let begin = Instant::now();
        let mut ours = promises(begin);
        let now = after(begin, 10_000);
        assert_eq!(ours.renew("p", false, now), Ok(()));
        assert_eq!(ours.contact("p"), None);
        assert_eq!(ours.renew("p", true, now), Ok(()));
        assert_eq!(ours.contact("p"), Some(now));
        // It stays missed for as long as it is asked about.
        let times: Vec<Instant> = (11..200).map(|seconds| after(begin, seconds * 1000)).collect();
        asked(&mut ours, &times);
        assert_eq!(ours.contact("p"), Some(now));
    }
}
