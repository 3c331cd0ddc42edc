//! Slots that the operator carries between real servers of the oldest release, with its own users and no others.

use std::cell::Cell;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::Instant;
use valkey::acl::SystemUser;
use valkey::client::Value;
use valkey::testing::Release;
use valkey::{Error, SlotRange};

use super::super::slot_move::{self, CloseError, Connected, End, Ends, Party, Word};
use super::loopback::{self, Primary, ask, eventually, form, password};

async fn party(primary: &Primary) -> Party {
    Party { id: primary.id.clone(), connection: primary.operator().await }
}

async fn connected(source: &Primary, target: &Primary, others: &[&Primary]) -> Connected {
    let mut told = Vec::new();
    for other in others {
        told.push(other.operator().await);
    }
    let user = SystemUser::Replication;
    Connected {
        source: party(source).await,
        target: party(target).await,
        target_address: ("127.0.0.1".to_owned(), target.port()),
        others: told,
        login: Some((user.name(), password(user))),
        until: Instant::now() + Duration::from_mins(1),
    }
}

async fn slot_of(primary: &Primary, tag: &str) -> u16 {
    let slot = primary.raw(&["CLUSTER", "KEYSLOT", tag]).await.expect("should answer");
    let Value::Int(slot) = slot else { panic!("{slot:?}") };
    u16::try_from(slot).expect("should be a slot")
}

fn one(slot: u16) -> [SlotRange; 1] {
    [SlotRange::new(slot, slot).expect("should be a slot")]
}

/// Keys of one slot: short and long ones, one that is no string and one that ends some day.
async fn fill(primaries: &[Primary], tag: &str, count: usize) {
    for number in 0..count {
        let (key, value) = (format!("{{{tag}}}{number}"), format!("value-{number}").repeat(1 + number * 50));
        assert_eq!(ask(primaries, &["SET", &key, &value]).await, Value::Okay);
    }
    ask(primaries, &["ZADD", &format!("{{{tag}}}sorted"), "1", "a", "2", "b"]).await;
    ask(primaries, &["SET", &format!("{{{tag}}}ends"), "some day", "EX", "10000"]).await;
}

async fn check(primaries: &[Primary], tag: &str, count: usize) {
    for number in 0..count {
        let value = format!("value-{number}").repeat(1 + number * 50);
        let found = ask(primaries, &["GET", &format!("{{{tag}}}{number}")]).await;
        assert_eq!(found, Value::BulkString(value.into_bytes()), "{tag} {number}");
    }
    assert_eq!(ask(primaries, &["ZCARD", &format!("{{{tag}}}sorted")]).await, Value::Int(2));
    let Value::Int(left) = ask(primaries, &["TTL", &format!("{{{tag}}}ends")]).await else { panic!("{tag}") };
    assert!((9000..=10000).contains(&left), "{left}");
}

#[tokio::test]
async fn slots_arrive_with_every_key_and_everybody_knows() {
    for release in Release::ALL {
        let primaries = form(release, 3).await;
        let [source, target, other] = &primaries[..] else { panic!("should be three") };
        fill(&primaries, "tag", 40).await;
        let slot = slot_of(source, "tag").await;
        let held = source.keys_in(slot).await;
        assert_eq!(held, 42);
        // Most slots are empty: they move as well.
        let range = SlotRange::new(slot - 5, slot + 5).expect("should be slots");
        let ends = connected(source, target, &[other]).await;
        slot_move::carry(&ends, &[range]).await.expect("should move");
        assert_eq!((source.keys_in(slot).await, target.keys_in(slot).await), (0, held));
        assert_eq!(target.myself().await.slots, [range]);
        assert!(source.myself().await.migrating.is_empty() && target.myself().await.importing.is_empty());
        assert!(!source.owns(slot).await);
        let said = other.raw(&["GET", "{tag}1"]).await.expect_err("should be sent on").to_string();
        assert!(said.contains(&target.port().to_string()), "{said}");
        check(&primaries, "tag", 40).await;
        for primary in &primaries {
            assert!(!primary.log().contains("password of"), "{}", primary.log());
        }
    }
}

/// Ends after so many calls.
struct CutOff<'a> {
    ends: &'a Connected,
    left: Cell<usize>,
}

impl CutOff<'_> {
    fn begin(&self) -> Result<(), Option<Error>> {
        self.left.set(self.left.get().checked_sub(1).ok_or(None)?);
        Ok(())
    }
}

impl Ends for CutOff<'_> {
    type Error = Option<Error>;

    async fn tell(&self, end: End, slot: u16, word: Word) -> Result<(), Option<Error>> {
        self.begin()?;
        self.ends.tell(end, slot, word).await.map_err(Some)
    }

    async fn keys(&self, slot: u16, count: u32) -> Result<Vec<Vec<u8>>, Option<Error>> {
        self.ends.keys(slot, count).await.map_err(Some)
    }

    async fn send(&self, keys: &[Vec<u8>]) -> Result<Duration, Option<Error>> {
        self.begin()?;
        self.ends.send(keys).await.map_err(Some)
    }

    fn has_time(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_move_that_is_cut_off_at_any_word_is_finished() {
    let primaries = form(Release::V8_1, 3).await;
    let [source, target, other] = &primaries[..] else { panic!("should be three") };
    let ends = connected(source, target, &[other]).await;
    for calls in 0.. {
        let tag = format!("tag-{calls}");
        fill(&primaries, &tag, 20).await;
        let slot = slot_of(source, &tag).await;
        let cut = CutOff { ends: &ends, left: Cell::new(calls) };
        match slot_move::carry(&cut, &one(slot)).await {
            Ok(()) => {
                assert!(calls > 6, "should take more words than {calls}");
                break;
            }
            Err(error) => assert!(error.is_none(), "{calls}: {error:?}"),
        }
        // Clients find everything meanwhile, and write as before.
        check(&primaries, &tag, 20).await;
        ask(&primaries, &["SET", &format!("{{{tag}}}fresh"), "1"]).await;
        if target.owns(slot).await {
            // Whether the source has heard of it already or not.
            slot_move::give_up(&ends.source.connection, &[slot], &target.id).await.expect("should let go");
        } else {
            slot_move::carry(&ends, &one(slot)).await.expect("should go on");
        }
        check(&primaries, &tag, 20).await;
        let fresh = ask(&primaries, &["GET", &format!("{{{tag}}}fresh")]).await;
        assert_eq!(fresh, Value::BulkString(b"1".to_vec()));
        assert!(target.owns(slot).await && !source.owns(slot).await, "{calls}");
        assert!(source.myself().await.migrating.is_empty() && target.myself().await.importing.is_empty());
    }
}

#[tokio::test]
async fn a_move_pauses_when_its_time_is_over() {
    let primaries = form(Release::V8_1, 2).await;
    let [source, target] = &primaries[..] else { panic!("should be two") };
    fill(&primaries, "tag", 20).await;
    let slot = slot_of(source, "tag").await;
    let mut ends = connected(source, target, &[]).await;
    ends.until = Instant::now();
    slot_move::carry(&ends, &one(slot)).await.expect("should not begin");
    assert!(source.owns(slot).await && target.myself().await.importing.is_empty());
    ends.until = Instant::now() + Duration::from_mins(1);
    slot_move::carry(&ends, &one(slot)).await.expect("should move");
    assert!(target.owns(slot).await);
    check(&primaries, "tag", 20).await;
}

#[tokio::test]
async fn a_slot_is_not_closed_over_keys() {
    let primaries = form(Release::V8_1, 2).await;
    let [source, target] = &primaries[..] else { panic!("should be two") };
    fill(&primaries, "tag", 5).await;
    let slot = slot_of(source, "tag").await;
    let ends = connected(source, target, &[]).await;
    for (end, word) in [(End::Target, Word::Importing), (End::Source, Word::Migrating)] {
        ends.tell(end, slot, word).await.expect("should be told");
    }
    // The owner may, whatever it holds, and whoever takes while nothing has come.
    let (giver, taker) = (&ends.source.connection, &ends.target.connection);
    slot_move::close(taker, &[slot]).await.expect("should close");
    slot_move::close(giver, &[slot]).await.expect("should close");
    assert!(source.myself().await.migrating.is_empty() && target.myself().await.importing.is_empty());

    for (end, word) in [(End::Target, Word::Importing), (End::Source, Word::Migrating)] {
        ends.tell(end, slot, word).await.expect("should be told");
    }
    let keys = ends.keys(slot, 2).await.expect("should have keys");
    ends.send(&keys).await.expect("should send");
    let refused = slot_move::close(taker, &[slot]).await.expect_err("should hold keys");
    assert!(matches!(refused, CloseError::KeysCameIn { .. }), "{refused:?}");
    assert_eq!(target.myself().await.importing.len(), 1);
    check(&primaries, "tag", 5).await;
}

#[tokio::test]
async fn a_refused_password_is_not_repeated() {
    let primaries = form(Release::V8_1, 2).await;
    let [source, target] = &primaries[..] else { panic!("should be two") };
    fill(&primaries, "tag", 5).await;
    let slot = slot_of(source, "tag").await;
    let mut ends = connected(source, target, &[]).await;
    ends.login = Some((SystemUser::Replication.name(), SecretString::from("hush-hush")));
    let error = slot_move::carry(&ends, &one(slot)).await.expect_err("should be refused");
    let said = format!("{error:?} {}", kit::telemetry::chain(&error));
    assert!(!said.contains("hush") && !source.log().contains("hush"), "{said}");
    // Nothing is lost, and the next pass goes on.
    check(&primaries, "tag", 5).await;
    ends.login = Some((SystemUser::Replication.name(), loopback::password(SystemUser::Replication)));
    slot_move::carry(&ends, &one(slot)).await.expect("should move");
    eventually("the slot is the target's", || async { target.owns(slot).await.then_some(()) }).await;
    check(&primaries, "tag", 5).await;
}
