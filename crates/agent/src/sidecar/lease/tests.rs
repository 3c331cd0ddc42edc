//! The whole of it: whatever breaks when, two never lead at the same time.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proto::agent::Objection;
use proto::promises::Promises;

use super::tenure::{Tenure, Word};
use valkey::cluster::voters::Voters;
use valkey::testing::table;

const TERM: Duration = Duration::from_secs(2);
const SUSPICION: Duration = Duration::from_secs(3);

/// One primary, its replica, and others, among whom lines come and go.
struct World {
    voters: Voters,
    tenure: Tenure,
    /// Of the others, the replica first.
    promises: Vec<Promises>,
}

impl World {
    fn new(shards: usize, replicas: usize, begin: Instant) -> Self {
        let voters = Voters::of(&table(shards, replicas), "p0").expect("should have voters");
        let promises = voters.others.iter().map(|_| Promises::new(SUSPICION, begin)).collect();
        Self { voters, tenure: Tenure::new(TERM, begin), promises }
    }

    /// The primary asks everybody whom it reaches; some do not understand it.
    fn renew(&mut self, lines: &[bool], deaf: &[bool], now: Instant) {
        for (number, voter) in self.voters.others.clone().iter().enumerate() {
            if !lines[number] {
                continue;
            }
            if deaf[number] {
                self.tenure.reached(&voter.node_id, now, Word::Implied);
                continue;
            }
            let holds = self.writes_until().is_some();
            match self.promises[number].renew("p0", holds, now) {
                Ok(()) => self.tenure.reached(&voter.node_id, now, Word::Given),
                Err(Objection::TooEarly) => self.tenure.reached(&voter.node_id, now, Word::Implied),
                Err(_) => self.tenure.refused(&voter.node_id),
            }
        }
    }

    fn writes_until(&mut self) -> Option<Instant> {
        self.tenure.ends(&self.voters)
    }

    /// The replica asks everybody whom it reaches: whether most of them agree.
    fn is_replaced(&mut self, lines: &[bool], to_replica: &[bool], now: Instant) -> bool {
        let contact = self.promises[0].contact("p0");
        if contact.is_none_or(|contact| now - contact < SUSPICION / 3) {
            return false;
        }
        let agreed =
            self.promises.iter_mut().enumerate().filter(|(number, _)| *number == 0 || to_replica[*number]);
        let agreed: Vec<usize> = agreed
            .filter_map(|(number, promises)| {
                promises.agree("p0", "p0r0", lines[number], now).ok().map(|()| number)
            })
            .collect();
        agreed.contains(&0) && agreed.len() >= self.voters.majority()
    }
}

/// Which lines there are, from the primary and from its replica, and for how many tenths of a second.
type Times = Vec<([bool; 6], [bool; 6], u32)>;

fn times(shortest: u32) -> impl Strategy<Value = Times> {
    prop::collection::vec((any::<[bool; 6]>(), any::<[bool; 6]>(), shortest..60), 1..12)
}

fn shape() -> impl Strategy<Value = (usize, usize)> {
    prop::sample::select(vec![(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)])
}

fn live((shards, replicas): (usize, usize), times: Times, deaf: [bool; 6]) -> Result<(), TestCaseError> {
    let begin = Instant::now();
    let mut world = World::new(shards, replicas, begin);
    let (mut now, mut step, mut takes_over) = (begin, 0_u32, None);
    for (lines, to_replica, tenths) in times {
        for _ in 0..tenths {
            now += Duration::from_millis(100);
            step += 1;
            if step.is_multiple_of(5) {
                world.renew(&lines, &deaf, now);
            }
            let writes = world.writes_until().is_some_and(|end| now < end);
            if let Some(since) = takes_over
                && now - since < Duration::from_millis(2500)
            {
                prop_assert!(!writes, "{:?} after most agreed", now - since);
            }
            if step.is_multiple_of(7) && world.is_replaced(&lines, &to_replica, now) {
                prop_assert!(!writes, "most agreed while it takes writes");
                takes_over = Some(now);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Whatever lines are cut when: nobody takes over while the primary takes writes, and the primary takes none while somebody takes over.
    #[test]
    fn two_never_lead_at_the_same_time(shape in shape(), times in times(1)) {
        live(shape, times, [false; 6])?;
    }

    /// The same where some cannot answer the primary, and can answer its replica: whoever looks twice a second notices a line that is
    /// there for two.
    #[test]
    fn nor_where_some_cannot_answer(shape in shape(), times in times(20), deaf in any::<[bool; 6]>()) {
        live(shape, times, deaf)?;
    }

    /// The world of this test can tell: if nobody kept a promise, two would lead.
    #[test]
    fn somebody_is_replaced_at_all(shape in prop::sample::select(vec![(1, 2), (3, 2)])) {
        let mut world = World::new(shape.0, shape.1, Instant::now());
        let begin = Instant::now();
        let at = |tenths: u32| begin + Duration::from_millis(100) * tenths;
        // At first it does not know yet whether it has most of them.
        world.renew(&[true; 6], &[false; 6], at(99));
        world.renew(&[true; 6], &[false; 6], at(100));
        for tenths in [109, 110, 121, 132] {
            prop_assert!(!world.is_replaced(&[false; 6], &[true; 6], at(tenths)), "{tenths}");
        }
        prop_assert!(world.is_replaced(&[false; 6], &[true; 6], at(133)));
        prop_assert!(world.writes_until().is_some_and(|end| end <= at(120)));
    }
}
