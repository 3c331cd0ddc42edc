//! Clusters that are formed, lose members and get them back.

use std::time::{Duration, Instant};

use valkey::client::FailoverMode;
use valkey::testing::Release;
use valkey::{Error, SlotRange};

use crate::support::cluster::{Member, agree, attach, form, in_sync, introduce};
use crate::support::{eventually, keys};

#[tokio::test]
async fn a_cluster_is_formed_and_hands_over_without_losing_a_key() {
    for release in Release::ALL {
        let members = form(release, "", None).await;
        let health = members[0].health().await;
        assert!(health.state_ok && health.slots_pfail == 0 && health.slots_fail == 0, "{health:?}");
        assert_eq!((health.slots_assigned, health.slots_ok), (16384, 16384));
        assert_eq!((health.known_nodes, health.size, health.my_epoch), (6, 3, 1));
        let primaries: Vec<_> = members[..3].iter().map(|member| &member.connection).collect();
        keys::write(&primaries, 200).await;

        let (old, new) = (&members[0], &members[3]);
        new.connection.cluster_failover(FailoverMode::Planned).await.expect("should begin");
        new.leads().await;
        agree(&members).await;
        let table = old.connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.myself().and_then(|node| node.primary_id.clone()), Some(new.id.clone()));
        keys::check(&[&new.connection, primaries[1], primaries[2]], 200).await;

        let error = new.connection.cluster_failover(FailoverMode::Planned).await.expect_err("should lead");
        assert!(error.server_message().is_some_and(|words| words.contains("to a replica")), "{error:?}");
        assert!(old.health().await.current_epoch > health.current_epoch);
    }
}

#[tokio::test]
async fn a_dead_primary_is_replaced_by_votes_and_a_dead_majority_without() {
    for release in Release::ALL {
        let mut members = form(release, "", None).await;
        let primaries: Vec<_> = members[..3].iter().map(|member| &member.connection).collect();
        keys::write(&primaries, 100).await;
        for primary in &members[..3] {
            in_sync(primary, 1).await;
        }

        members[0].server.kill();
        members[3].connection.cluster_failover(FailoverMode::Force).await.expect("should begin");
        members[3].leads().await;
        // Now two of the three that vote are gone.
        members[1].server.kill();
        members[3].server.kill();
        members[4].connection.cluster_failover(FailoverMode::Takeover).await.expect("should begin");
        members[4].leads().await;
        let table = members[2].connection.cluster_nodes().await.expect("should answer");
        assert_eq!((table.nodes.len(), table.unreadable), (6, 0));
    }
}

#[tokio::test]
async fn members_leave_and_come_back_as_strangers() {
    for release in Release::ALL {
        let mut members = Vec::new();
        for _ in 0..3 {
            members.push(Member::start(release, "", None).await);
        }
        introduce(&members).await;
        let [first, second, third] = &members[..] else { panic!("should be three") };
        first.connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        attach(second, first).await;
        agree(&members).await;

        let error = second.connection.cluster_forget(&first.id).await.expect_err("should keep its primary");
        assert!(matches!(error, Error::Server { .. }), "{error:?}");
        for member in [first, second] {
            member.connection.cluster_forget(&third.id).await.expect("should forget");
        }
        third.connection.cluster_reset(true).await.expect("should reset");
        let id = third.connection.cluster_myid().await.expect("should have an id");
        assert_ne!(id, third.id);
        assert_eq!(third.health().await.known_nodes, 1);
        eventually("the others do not know it", || async {
            (first.health().await.known_nodes == 2 && second.health().await.known_nodes == 2).then_some(())
        })
        .await;

        // A soft reset keeps the name.
        third.connection.cluster_reset(false).await.expect("should reset");
        assert_eq!(third.connection.cluster_myid().await.expect("should have an id"), id);
        // The stranger is welcome under its new name.
        third.connection.cluster_meet("127.0.0.1", first.server.port()).await.expect("should meet");
        eventually("it is known again", || async {
            let table = first.connection.cluster_nodes().await.expect("should answer");
            table.get(&id).is_some_and(|node| node.connected).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_node_with_keys_follows_only_once_they_are_gone() {
    for release in Release::ALL {
        let members = [Member::start(release, "", None).await, Member::start(release, "", None).await];
        let [first, second] = &members;
        introduce(&members).await;
        let half = SlotRange::new(8192, 16383).expect("should be in bounds");
        second.connection.cluster_add_slots(&[SlotRange::ALL]).await.expect("should take slots");
        eventually("the node serves", || async { second.health().await.state_ok.then_some(()) }).await;
        keys::write(&[&second.connection], 10).await;

        second.connection.cluster_del_slots(&[half]).await.expect("should give up slots");
        let table = second.connection.cluster_nodes().await.expect("should answer");
        assert_eq!(table.slots_of_myself(), [SlotRange::new(0, 8191).expect("should be in bounds")]);
        let rest = table.slots_of_myself().to_vec();
        second.connection.cluster_del_slots(&rest).await.expect("should give up slots");

        let error = second.connection.cluster_replicate(&first.id).await.expect_err("should hold keys");
        assert!(matches!(error, Error::Server { .. }), "{error:?}");
        let error = second.connection.cluster_reset(false).await.expect_err("should hold keys");
        assert!(matches!(error, Error::Server { .. }), "{error:?}");
        second.connection.flush_all().await.expect("should flush");
        second.connection.cluster_replicate(&first.id).await.expect("should follow");
    }
}

#[tokio::test]
async fn epochs_are_given_once_and_raised_on_demand() {
    for release in Release::ALL {
        let members = [Member::start(release, "", None).await, Member::start(release, "", None).await];
        introduce(&members).await;
        let [first, second] = &members;
        let error = first.connection.cluster_set_config_epoch(9).await.expect_err("should know others");
        assert!(matches!(error, Error::Server { .. }), "{error:?}");
        let epoch = first.connection.cluster_bump_epoch().await.expect("should raise it");
        assert_eq!(first.health().await.my_epoch, epoch);
        assert!(epoch > second.health().await.my_epoch);
        assert_eq!(first.connection.cluster_bump_epoch().await.expect("should keep it"), epoch);
    }
}

/// How a new cluster agrees at once on who owns what: a server speaks to one other in a second, and a greeting among
/// servers that know each other tells of all slots.
#[tokio::test]
async fn a_second_greeting_tells_of_slots_at_once() {
    for release in Release::ALL {
        let mut members = Vec::new();
        for _ in 0..6 {
            members.push(Member::start(release, "", None).await);
        }
        introduce(&members).await;
        let (owner, others) = members.split_first().expect("should have members");
        let mut took = Vec::new();
        for slot in 0..5 {
            let range = SlotRange::new(slot, slot).expect("in bounds");
            owner.connection.cluster_add_slots(&[range]).await.expect("should take a slot");
            let begun = Instant::now();
            for other in others {
                owner.connection.cluster_meet("127.0.0.1", other.server.port()).await.expect("should greet");
            }
            eventually("everybody heard of it", || async {
                for other in others {
                    if other.health().await.slots_assigned <= slot {
                        return None;
                    }
                }
                Some(())
            })
            .await;
            took.push(begun.elapsed());
        }
        took.sort();
        assert!(took[2] < Duration::from_millis(500), "{release:?}: {took:?}");
    }
}
