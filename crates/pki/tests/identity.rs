//! Who is named by a URI, and who is not.

use pki::{Home, Identity, IdentityError, Role};
use proptest::prelude::*;

#[test]
fn what_is_no_identity_is_refused() {
    let long = format!("spiffe://d/ns/n/valkeycluster/{}/sidecar", "c".repeat(3000));
    let shapes = [
        "",
        "spiffe://",
        "http://valkey.local/ns/team/valkeycluster/cache/sidecar",
        "spiffe://valkey.local/ns/team/valkeycluster/cache",
        "spiffe://valkey.local/ns/team/valkeycluster/cache/sidecar/pod/more",
        "spiffe://valkey.local/ns/team/valkeycluster//sidecar",
        "spiffe://valkey.local/ns/../valkeycluster/cache/sidecar",
        "spiffe://valkey.local/ns/team/valkeycluster/cache/sidecar/",
        "spiffe://valkey.local/ns/team/valkeycluster/ca%63he/sidecar",
        "spiffe://Valkey.local/ns/team/valkeycluster/cache/sidecar",
        "spiffe://valkey.local/ns/team/valkeycluster/cache/sidecar?pod=other",
        "spiffe://user@valkey.local/ns/team/valkeycluster/cache/sidecar",
        "spiffe://valkey.local:1/ns/team/valkeycluster/cache/sidecar",
        "spiffe://valkey.local/sa/team/valkeycluster/cache/sidecar",
        "spiffe://valkey.local/ns/team/valkeycluster/-cache/sidecar",
        &long,
    ];
    for uri in shapes {
        let error = uri.parse::<Identity>().expect_err(uri);
        assert!(matches!(error, IdentityError::Shape { .. }), "{uri}: {error}");
        assert!(error.to_string().len() < 400);
    }
    let error = "spiffe://d/ns/n/valkeycluster/c/root".parse::<Identity>().expect_err("no such role");
    assert_eq!(error.to_string(), "\"root\" is none of the roles sidecar, init, operator");
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?"
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        names in (name(), name(), name(), proptest::option::of(name())),
        role in prop_oneof![Just(Role::Sidecar), Just(Role::Init), Just(Role::Operator)],
    ) {
        let (trust_domain, namespace, cluster, pod) = names;
        let identity = Identity { trust_domain, namespace, cluster, role, pod };
        prop_assert_eq!(identity.to_string().parse(), Ok(identity));
    }

    #[test]
    fn nothing_that_is_read_is_written_in_another_way(uri in "(spiffe://)?[a-z./%:@-]{0,60}") {
        if let Ok(identity) = uri.parse::<Identity>() {
            prop_assert_eq!(identity.to_string(), uri);
        }
    }
}

#[test]
fn the_name_of_a_door_leads_to_one_cluster_and_back() {
    let home = Home {
        trust_domain: "valkey.local".to_owned(),
        namespace: "team".to_owned(),
        cluster: "cache".to_owned(),
    };
    assert_eq!(home.door(), "cache.team.valkey.local");
    assert_eq!(Home::of_door(&home.door()), Some(home));
    for nobody in
        ["", "cache", "cache.team", "cache..valkey", ".team.valkey", "Cache.team.valkey", "10.0.0.1."]
    {
        assert_eq!(Home::of_door(nobody), None, "{nobody}");
    }
}
