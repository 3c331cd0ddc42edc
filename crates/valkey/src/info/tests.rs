use proptest::prelude::*;

use super::*;

const REPLICA: &str = "# Replication\r\nrole:slave\r\nmaster_host:10.42.0.7\r\nmaster_port:6379\r\n\
    master_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\nmaster_sync_in_progress:1\r\n\
    slave_repl_offset:42\r\nslave_read_only:1\r\nmaster_link_down_since_seconds:3\r\n\
    connected_slaves:0\r\nmaster_replid:abc\r\nmaster_repl_offset:42\r\n";

#[test]
fn valkeys_own_version_wins_over_the_one_for_old_clients() {
    let server = Info::parse(
        "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nrun_id:f00\r\ntcp_port:6379\r\n",
    )
    .server();
    assert_eq!(server.version, Some(Version::new(9, 1, 2)));
    assert!(server.is_valkey);
    assert_eq!((server.run_id.as_deref(), server.tcp_port), (Some("f00"), Some(6379)));
}

#[test]
fn a_replica_tells_of_its_link() {
    let replication = Info::parse(REPLICA).replication().expect("should have a role");
    assert_eq!(replication.role, ReplicationRole::Replica);
    let link = replication.primary.expect("should have a primary");
    assert_eq!((link.host.as_str(), link.port), ("10.42.0.7", 6379));
    assert!(!link.link_up && link.sync_in_progress && link.read_only);
    assert_eq!((link.last_io_seconds, link.link_down_seconds, link.offset), (None, Some(3), Some(42)));
}

#[test]
fn new_words_mean_the_same_as_old_ones() {
    let renamed = REPLICA.replace("slave", "replica").replace("master", "primary");
    assert_eq!(Info::parse(&renamed).replication(), Info::parse(REPLICA).replication());
}

#[test]
fn a_primary_lists_its_followers() {
    let replication = Info::parse(
        "role:master\nconnected_slaves:2\nslave0:ip=10.0.0.1,port=6379,state=online,offset=14,lag=0,type=replica\n\
         slave1:ip=fd00::1,port=6380,state=wait_bgsave,offset=99999999999999999999,lag=1\nslave_read_only:1\nslave2:ip=,\n",
    )
    .replication()
    .expect("should have a role");
    assert_eq!(replication.replicas.len(), 2);
    assert!(replication.replicas[0].is_online() && !replication.replicas[1].is_online());
    assert_eq!(replication.replicas[0].offset, Some(14));
    assert_eq!((replication.replicas[1].ip.as_str(), replication.replicas[1].offset), ("fd00::1", None));
    assert_eq!(replication.primary, None);
}

#[test]
fn silence_about_disk_means_no_failure() {
    let persistence = Info::parse("").persistence();
    assert!(persistence.rdb_last_save_ok && persistence.aof_last_write_ok && !persistence.loading);
    let persistence = Info::parse("loading:1\nrdb_last_bgsave_status:err\naof_enabled:1\n").persistence();
    assert!(persistence.loading && !persistence.rdb_last_save_ok && persistence.aof_enabled);
}

#[test]
fn a_role_nobody_knows_is_no_role() {
    assert_eq!(Info::parse("role:emperor").replication(), None);
    assert_eq!(Info::parse("").replication(), None);
}

proptest! {
    #[test]
    fn fields_survive_a_round_trip(fields in prop::collection::btree_map("[a-z_][a-z0-9_]{0,20}", "[^\r\n]{0,30}", 0..20)) {
        let text = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect::<Vec<_>>().concat();
        let info = Info::parse(&text);
        for (name, value) in &fields {
            prop_assert_eq!(info.get(name), Some(value.as_str()));
        }
        prop_assert_eq!(info.fields().count(), fields.len());
    }

    #[test]
    fn any_text_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let info = Info::parse(&String::from_utf8_lossy(&bytes));
        let _ = (info.server(), info.replication(), info.persistence());
    }

    #[test]
    fn near_misses_are_survived(text in "(role:(master|slave|x)|slave[0-9]{0,3}:(ip|port|state|=|,|[0-9a-f:.]){0,12}|master_(host|port):.{0,8}|\r?\n){0,20}") {
        let _ = Info::parse(&text).replication();
    }
}
