//! Whatever happens while authorities are replaced, and whoever is cut off: everybody can talk to everybody at any moment.

use std::collections::BTreeMap;

use pki::rotation::{Next, Proof, Published, next};
use proptest::prelude::*;

/// What a party really holds. It proves it later, if ever.
#[derive(Clone, Debug)]
struct Party {
    trusts: Vec<String>,
    /// Who signed what it shows.
    shows: String,
    holds: Proof,
    proven: Proof,
}

impl Party {
    fn new(published: &Published) -> Self {
        let holds = Proof { trusts: published.generation, shows: published.generation };
        Self {
            trusts: published.trusted.clone(),
            shows: published.issuer.clone(),
            holds,
            proven: Proof::default(),
        }
    }

    fn understands(&self, other: &Self) -> bool {
        self.trusts.contains(&other.shows)
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// The user, or time, wants another authority: one of few, so that some come back.
    Want(u8),
    /// The operator looks and acts. What it keeps in memory does not matter: it has nothing but what was published.
    Look,
    /// What was published reaches a party: whom to trust and what to show come by different ways.
    Trust(usize),
    Show(usize),
    /// A party tells what it holds.
    Prove(usize),
    Join,
    Leave(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        1 => (0u8..4).prop_map(Event::Want),
        6 => Just(Event::Look),
        4 => (0usize..6).prop_map(Event::Trust),
        4 => (0usize..6).prop_map(Event::Show),
        6 => (0usize..6).prop_map(Event::Prove),
        1 => Just(Event::Join),
        1 => (0usize..6).prop_map(Event::Leave),
    ];
    proptest::collection::vec(event, 0..200)
}

struct World {
    wanted: String,
    published: Published,
    parties: BTreeMap<usize, Party>,
    born: usize,
}

impl World {
    fn new() -> Self {
        let published = Published::first("authority 0".to_owned());
        let parties = (0..3).map(|number| (number, Party::new(&published))).collect();
        Self { wanted: "authority 0".to_owned(), published, parties, born: 3 }
    }

    fn happens(&mut self, event: &Event) {
        let published = self.published.clone();
        let which = |number: &usize| self.parties.keys().nth(*number % self.parties.len().max(1)).copied();
        match event {
            Event::Want(number) => self.wanted = format!("authority {number}"),
            Event::Look => {
                let proofs =
                    self.parties.iter().map(|(number, party)| (number.to_string(), party.proven)).collect();
                if let Next::Publish(more) = next(&self.published, &self.wanted, &proofs) {
                    self.published = more;
                }
            }
            Event::Trust(number) => {
                if let Some(party) = which(number).and_then(|number| self.parties.get_mut(&number)) {
                    party.trusts = published.trusted;
                    party.holds.trusts = published.generation;
                }
            }
            Event::Show(number) => {
                if let Some(party) = which(number).and_then(|number| self.parties.get_mut(&number)) {
                    party.shows = published.issuer;
                    party.holds.shows = published.generation;
                }
            }
            Event::Prove(number) => {
                if let Some(party) = which(number).and_then(|number| self.parties.get_mut(&number)) {
                    party.proven = party.holds;
                }
            }
            Event::Join => {
                self.parties.insert(self.born, Party::new(&published));
                self.born += 1;
            }
            Event::Leave(number) => {
                if let Some(number) = which(number) {
                    self.parties.remove(&number);
                }
            }
        }
    }

    fn misunderstanding(&self) -> Option<(usize, usize)> {
        let pairs = self.parties.iter().flat_map(|one| self.parties.iter().map(move |other| (one, other)));
        pairs
            .filter(|((_, one), (_, other))| !one.understands(other))
            .map(|((one, _), (other, _))| (*one, *other))
            .next()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nobody_is_ever_shut_out(events in events()) {
        let mut world = World::new();
        for (position, event) in events.iter().enumerate() {
            world.happens(event);
            prop_assert_eq!(world.misunderstanding(), None, "after {} ({:?})", position, event);
        }
    }

    /// From wherever it was cut off, it ends with one authority: the one that was wanted last.
    #[test]
    fn it_ends_where_it_should(events in events()) {
        let mut world = World::new();
        for event in &events {
            world.happens(event);
        }
        for _ in 0..6 {
            let all = 0..world.parties.len();
            let everywhere = all.flat_map(|number| [Event::Trust(number), Event::Show(number), Event::Prove(number)]);
            for event in everywhere.collect::<Vec<_>>() {
                world.happens(&event);
            }
            world.happens(&Event::Look);
            prop_assert_eq!(world.misunderstanding(), None);
        }
        prop_assert_eq!(&world.published.trusted, &vec![world.wanted.clone()]);
        prop_assert_eq!(&world.published.issuer, &world.wanted);
    }
}

#[test]
fn each_step_waits_for_the_proof_of_the_one_before() {
    let mut published = Published::first("old".to_owned());
    let mut parties =
        BTreeMap::from([("a".to_owned(), Proof::default()), ("b".to_owned(), Proof::default())]);
    let mut told = Vec::new();
    for _ in 0..20 {
        match next(&published, "new", &parties) {
            Next::Rest => break,
            Next::WaitFor(names) => {
                let name = names.into_iter().next().expect("should wait for somebody");
                told.push(format!("wait for {name}"));
                let holds = Proof { trusts: published.generation, shows: published.generation };
                parties.insert(name, holds);
            }
            Next::Publish(more) => {
                told.push(format!("trust {}, show {}", more.trusted.join(" and "), more.issuer));
                published = more;
            }
        }
    }
    let expected = [
        "trust old and new, show old",
        "wait for a",
        "wait for b",
        "trust old and new, show new",
        "wait for a",
        "wait for b",
        "trust new, show new",
        "wait for a",
        "wait for b",
    ];
    assert_eq!(told, expected);
}
