use super::*;
use crate::acl::{Declaration, line};

fn user(name: &str, password: &str, permissions: &str) -> User {
    let declaration = Declaration {
        name: name.to_owned(),
        enabled: true,
        passwords: vec![password.into()],
        permissions: permissions.to_owned(),
        ..Declaration::default()
    };
    User::declared(&declaration).expect("should be a user")
}

fn listed(lines: &[String]) -> Listed {
    Listed::parse(lines)
}

fn set(user: &User) -> AclChange {
    AclChange::Set { name: user.name().to_owned(), rules: user.set_rules() }
}

#[test]
fn only_what_differs_is_changed() {
    let [alice, bob] = [user("alice", "a", "+get"), user("bob", "b", "+set")];
    let server = listed(&[
        line(&alice),
        line(&bob),
        "user carol on nopass +@all".to_owned(),
        "user default on nopass ~* &* +@all".to_owned(),
        format!("user _revision off #{}", "0".repeat(64)),
        "user _check off -@all".to_owned(),
    ]);
    let delete = |name: &str| AclChange::Delete { name: name.to_owned() };
    assert_eq!(difference(&[bob.clone(), alice.clone()], &server), [delete("_check"), delete("carol")]);

    let changed = [
        user("bob", "new", "+set"),
        user("bob", "b", "+set +get"),
        user("bob", "b", "+set off"),
        user("bob", "b", "+set nopass"),
        user("bob", "b", "+set >second"),
    ];
    for changed in changed {
        let wanted = [alice.clone(), changed.clone()];
        assert_eq!(
            difference(&wanted, &server),
            [set(&changed), delete("_check"), delete("carol")],
            "{changed:?}"
        );
    }
    let default = user("default", "d", "~* +@all");
    assert_eq!(
        difference(&[default.clone(), alice, bob], &server),
        [set(&default), delete("_check"), delete("carol")]
    );
}

#[test]
fn rules_are_compared_in_the_servers_words() {
    let wanted = user("bob", "b", "allkeys +@all");
    let mut line = line(&wanted).replace("allkeys", "~*");
    let server = listed(&[line.clone()]);
    assert_eq!(difference(std::slice::from_ref(&wanted), &server), [set(&wanted)], "nobody was asked");
    assert_eq!(difference(&[wanted.clone().with_canonical(&line)], &server), []);
    assert_eq!(difference(&[wanted.clone().with_canonical("nonsense")], &server), [set(&wanted)]);
    line.push_str(" +get");
    assert_eq!(difference(&[wanted.clone().with_canonical(&line)], &server).len(), 1);
}

#[test]
fn a_set_user_is_reset_first() {
    let rules = user("bob", "x", "+get").set_rules();
    let words: Vec<&str> = rules.words().collect();
    assert_eq!((words[0], words[1], words[3]), ("reset", "on", "+get"));
    assert!(words[2].starts_with('#') && words.len() == 4);
}
