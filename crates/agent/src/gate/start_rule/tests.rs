use proptest::prelude::*;

use super::*;

const MYSELF: &str = "aaaa 10.0.0.1:6379@16379,,tls-port=0 myself,master - 0 0 3 connected 0-5460";
const REPLICA: &str = "bbbb 10.0.0.2:6379@16379 slave aaaa 0 0 3 connected";
const OTHER: &str = "cccc 10.0.0.3:6379@16379 master - 0 0 2 connected 5461-16383";
const VARS: &str = "vars currentEpoch 6 lastVoteEpoch 0";

fn conf(lines: &[&str]) -> String {
    lines.join("\n") + "\n"
}

/// What a peer says: its own view of the same nodes.
fn table(lines: &[&str]) -> ClusterNodes {
    ClusterNodes::parse(&conf(lines))
}

fn crashed(nodes_conf: &str, heard: &[ClusterNodes]) -> Decision {
    decide(&Facts { data: Data::Kept, nodes_conf: Some(nodes_conf), restarted: true, heard })
}

#[test]
fn a_server_that_was_never_in_a_cluster_starts() {
    for (data, restarted) in
        [(Data::Volatile, false), (Data::Volatile, true), (Data::Kept, false), (Data::Kept, true)]
    {
        let facts = Facts { data, nodes_conf: None, restarted, heard: &[] };
        assert_eq!(decide(&facts), Decision::Start(Reason::FirstStart));
    }
}

fn lost<'a>(nodes_conf: &'a str, heard: &'a [ClusterNodes]) -> Facts<'a> {
    Facts { data: Data::Volatile, nodes_conf: Some(nodes_conf), restarted: true, heard }
}

#[test]
fn without_its_data_a_server_is_a_stranger_whatever_it_was() {
    let replica = "aaaa 10.0.0.1:6379@16379 myself,slave cccc 0 0 3 connected";
    for text in
        [conf(&[MYSELF, REPLICA, OTHER, VARS]), conf(&[replica, OTHER]), "garbage".into(), String::new()]
    {
        for restarted in [false, true] {
            let facts = Facts { restarted, ..lost(&text, &[]) };
            assert!(facts.is_stranger(), "{text:?}");
            assert!(replicas_in_doubt(&facts, &Reason::NothingToLose).is_empty(), "{text:?}");
        }
        assert!(!Facts { data: Data::Kept, ..lost(&text, &[]) }.is_stranger(), "{text:?}");
    }
    assert!(!Facts { nodes_conf: None, ..lost("", &[]) }.is_stranger());
}

#[test]
fn a_stranger_stays_away_while_somebody_would_copy_from_it() {
    let mine = "aaaa 10.0.0.1:6379@16379 master,fail? - 0 0 3 disconnected 0-5460";
    let gone = "aaaa 10.0.0.1:6379@16379 master,fail - 0 0 3 disconnected";
    let promoted = "bbbb 10.0.0.2:6379@16379 myself,master - 0 0 7 connected 0-5460";
    let barred = "bbbb 10.0.0.2:6379@16379 slave,nofailover aaaa 0 0 3 connected";
    let failed = "bbbb 10.0.0.2:6379@16379 slave,fail aaaa 0 0 3 disconnected";
    let replica = "aaaa 10.0.0.1:6379@16379 myself,slave cccc 0 0 3 connected";
    let taken_over = Reason::TakenOver { by: "bbbb".to_owned() };
    for (lines, heard, reason, followed) in [
        (vec![MYSELF, REPLICA, OTHER], vec![], None, false),
        (vec![MYSELF, barred, OTHER], vec![], None, false),
        (vec![MYSELF, REPLICA, OTHER], vec![mine, REPLICA, OTHER], None, true),
        (vec![MYSELF, REPLICA, OTHER], vec![mine, barred, OTHER], None, true),
        (vec![MYSELF, REPLICA, OTHER], vec![gone, promoted, OTHER], Some(taken_over), false),
        (vec![MYSELF, REPLICA, OTHER], vec![mine, failed, OTHER], Some(Reason::NoReplicaAlive), false),
        (vec![MYSELF, OTHER], vec![], Some(Reason::NoReplica), false),
        (vec![replica, OTHER], vec![], Some(Reason::NothingToLose), false),
        (vec!["garbage"], vec![], Some(Reason::UnknownPast), false),
    ] {
        let text = conf(&lines);
        let heard: Vec<ClusterNodes> = (!heard.is_empty()).then(|| table(&heard)).into_iter().collect();
        let facts = lost(&text, &heard);
        match reason {
            Some(reason) => assert_eq!(decide(&facts), Decision::Start(reason), "{lines:?} {heard:?}"),
            None => assert!(matches!(decide(&facts), Decision::WaitForPeers(_)), "{lines:?} {heard:?}"),
        }
        assert_eq!(is_followed(&facts), followed, "{lines:?} {heard:?}");
    }
}

#[test]
fn kept_data_in_a_new_pod_starts_at_once() {
    let text = conf(&[MYSELF, REPLICA, OTHER]);
    let facts = Facts { data: Data::Kept, nodes_conf: Some(&text), restarted: false, heard: &[] };
    assert_eq!(decide(&facts), Decision::Start(Reason::NewPod));
}

#[test]
fn only_a_crashed_primary_with_slots_and_a_replica_waits() {
    let failed = "bbbb 10.0.0.2:6379@16379 slave,fail aaaa 0 0 3 disconnected";
    let barred = "bbbb 10.0.0.2:6379@16379 slave,nofailover aaaa 0 0 3 connected";
    let of_other = "bbbb 10.0.0.2:6379@16379 slave cccc 0 0 3 connected";
    let slotless = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected";
    let replica = "aaaa 10.0.0.1:6379@16379 myself,slave cccc 0 0 3 connected 0-5460";
    for (lines, reason) in [
        (vec![slotless, REPLICA, OTHER], Reason::NothingToLose),
        (vec![replica, REPLICA, OTHER], Reason::NothingToLose),
        (vec![MYSELF, OTHER], Reason::NoReplica),
        (vec![MYSELF, failed, OTHER], Reason::NoReplica),
        (vec![MYSELF, barred, OTHER], Reason::NoReplica),
        (vec![MYSELF, of_other, OTHER], Reason::NoReplica),
        (vec![REPLICA, OTHER], Reason::UnknownPast),
        (vec![VARS], Reason::UnknownPast),
        (vec!["garbage"], Reason::UnknownPast),
        (vec![""], Reason::UnknownPast),
    ] {
        assert_eq!(crashed(&conf(&lines), &[]), Decision::Start(reason), "{lines:?}");
    }
    let suspect = "bbbb 10.0.0.2:6379@16379 slave,fail? aaaa 0 0 3 disconnected";
    for replica in [REPLICA, suspect] {
        let decision = crashed(&conf(&[MYSELF, replica, OTHER, VARS]), &[]);
        assert!(matches!(decision, Decision::WaitForPeers(_)), "{decision:?}");
    }
}

#[test]
fn what_peers_say_ends_the_wait_or_does_not() {
    let mine = "aaaa 10.0.0.1:6379@16379 master,fail? - 0 0 3 disconnected 0-5460";
    let lost = "aaaa 10.0.0.1:6379@16379 master,fail - 0 0 3 disconnected";
    let promoted = "bbbb 10.0.0.2:6379@16379 myself,master - 0 0 7 connected 0-5460";
    let part = "cccc 10.0.0.3:6379@16379 master - 0 0 8 connected 100 5461-16383";
    let outdated = "cccc 10.0.0.3:6379@16379 master - 0 0 2 connected 0-16383";
    let elsewhere = "cccc 10.0.0.3:6379@16379 master - 0 0 9 connected 5461-16383";
    let dead = "bbbb 10.0.0.2:6379@16379 slave,fail aaaa 0 0 3 disconnected";
    let taken_over = |by: &str| Some(Reason::TakenOver { by: by.to_owned() });
    for (heard, reason) in [
        (vec![], None),
        (vec![vec![mine, REPLICA, OTHER]], None),
        (vec![vec![lost, promoted, OTHER]], taken_over("bbbb")),
        (vec![vec![mine, REPLICA, OTHER], vec![lost, promoted, OTHER]], taken_over("bbbb")),
        (vec![vec![mine, REPLICA, part]], taken_over("cccc")),
        // A claim that is older than ours, or to other slots, takes nothing from us.
        (vec![vec![mine, REPLICA, outdated]], None),
        (vec![vec![mine, REPLICA, elsewhere]], None),
        (vec![vec![mine, dead, OTHER]], Some(Reason::NoReplicaAlive)),
        (vec![vec![mine, OTHER]], Some(Reason::NoReplicaAlive)),
        (vec![vec![mine, dead, OTHER], vec![mine, REPLICA, OTHER]], None),
        // A peer that does not know us cannot tell of our replicas.
        (vec![vec![OTHER]], None),
        (vec![vec![OTHER], vec![mine, dead, OTHER]], Some(Reason::NoReplicaAlive)),
        (vec![vec!["garbage"]], None),
    ] {
        let tables: Vec<ClusterNodes> = heard.iter().map(|lines| table(lines)).collect();
        let decision = crashed(&conf(&[MYSELF, REPLICA, OTHER, VARS]), &tables);
        match reason {
            Some(reason) => assert_eq!(decision, Decision::Start(reason), "{heard:?}"),
            None => assert!(matches!(decision, Decision::WaitForPeers(_)), "{heard:?}: {decision:?}"),
        }
    }
}

#[test]
fn whoever_followed_a_primary_may_lead_in_its_place() {
    let second = "dddd 10.0.0.4:6379@16379 slave,nofailover aaaa 0 0 3 connected";
    let failed = "bbbb 10.0.0.2:6379@16379 slave,fail aaaa 0 0 3 disconnected";
    let slotless = "aaaa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected";
    let replica = "aaaa 10.0.0.1:6379@16379 myself,slave cccc 0 0 3 connected";
    let taken_over = Reason::TakenOver { by: "bbbb".to_owned() };
    for (lines, reason, expected) in [
        (vec![MYSELF, REPLICA, OTHER, VARS], Reason::NewPod, vec!["bbbb"]),
        (vec![MYSELF, REPLICA, second, OTHER], Reason::NewPod, vec!["bbbb", "dddd"]),
        (vec![MYSELF, REPLICA, OTHER], Reason::NobodyTookOver { within: Duration::ZERO }, vec!["bbbb"]),
        (vec![MYSELF, REPLICA, OTHER], taken_over, vec!["bbbb"]),
        (vec![MYSELF, REPLICA, OTHER], Reason::NoReplicaAlive, vec![]),
        (vec![MYSELF, failed, OTHER], Reason::NewPod, vec![]),
        (vec![MYSELF, OTHER], Reason::NewPod, vec![]),
        (vec![slotless, REPLICA, OTHER], Reason::NewPod, vec![]),
        (vec![replica, REPLICA, OTHER], Reason::NewPod, vec![]),
        (vec!["garbage"], Reason::NewPod, vec![]),
    ] {
        let text = conf(&lines);
        let facts = Facts { data: Data::Kept, nodes_conf: Some(&text), restarted: false, heard: &[] };
        assert_eq!(replicas_in_doubt(&facts, &reason), expected, "{lines:?} {reason:?}");
    }
    let nothing = Facts { data: Data::Kept, nodes_conf: None, restarted: false, heard: &[] };
    assert_eq!(replicas_in_doubt(&nothing, &Reason::FirstStart), Vec::<String>::new());
}

#[test]
fn replicas_are_asked_first_and_nobody_without_an_address() {
    let failed = "dddd 10.0.0.4:6379@16379 slave,fail aaaa 0 0 3 disconnected";
    let unknown = "eeee :0@0 master,noaddr - 0 0 3 disconnected";
    let stranger = "ffff 10.0.0.6:6379@16379 handshake - 0 0 0 connected";
    let decision = crashed(&conf(&[unknown, failed, OTHER, stranger, MYSELF, REPLICA]), &[]);
    let Decision::WaitForPeers(peers) = decision else { panic!("{decision:?}") };
    let addresses: Vec<&str> = peers.iter().map(|peer| peer.ip.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.2", "10.0.0.3", "10.0.0.4"]);

    let many: Vec<String> = (0..50)
        .map(|n| format!("m{n} 10.0.1.{n}:6379@16379 master - 0 0 1 connected {}", 6000 + n))
        .collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).chain([MYSELF, REPLICA]).collect();
    let decision = crashed(&conf(&lines), &[]);
    let Decision::WaitForPeers(peers) = decision else { panic!("{decision:?}") };
    assert_eq!((peers.len(), peers[0].ip.as_str()), (MOST_PEERS, "10.0.0.2"));
}

/// Lines that are almost right: what a torn or mangled file looks like.
fn almost_a_table() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => prop::sample::select(vec![
            "aaaa", "bbbb", "10.0.0.1:6379@16379", "10.0.0.2:6379@16379", "myself,master", "slave", "myself,slave",
            "master", "-", "0", "3", "connected", "0-5460", "5461-16383", "vars", ",,", "[1->-bbbb]",
        ])
        .prop_map(str::to_owned),
        1 => "[ -~]{0,12}",
    ];
    let line = prop_oneof![
        2 => prop::sample::select(vec![MYSELF, REPLICA, OTHER, VARS]).prop_map(str::to_owned),
        3 => prop::collection::vec(word, 0..10).prop_map(|words| words.join(" ")),
    ];
    (prop::collection::vec(line, 0..6), any::<prop::sample::Index>()).prop_map(|(lines, cut)| {
        let text = lines.join("\n");
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        text[..ends[cut.index(ends.len())]].to_owned()
    })
}

proptest! {
    #[test]
    fn who_waits_had_something_to_lose(text in almost_a_table(), heard in almost_a_table(), restarted in any::<bool>()) {
        let heard = [ClusterNodes::parse(&heard)];
        for data in [Data::Volatile, Data::Kept] {
            let decision = decide(&Facts { data, nodes_conf: Some(&text), restarted, heard: &heard });
            prop_assert!(restarted || data == Data::Volatile || decision == Decision::Start(Reason::NewPod));
            if let Decision::WaitForPeers(peers) = decision {
                let table = ClusterNodes::parse(&text);
                prop_assert!(!table.slots_of_myself().is_empty() && peers.len() <= MOST_PEERS);
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let heard = [ClusterNodes::parse(&text)];
        for data in [Data::Volatile, Data::Kept] {
            decide(&Facts { data, nodes_conf: Some(&text), restarted: true, heard: &heard });
        }
    }
}
