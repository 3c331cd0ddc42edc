use proptest::prelude::*;

use super::*;
use crate::acl::{Listed, Rules, line};

const HASH: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
const OTHER: &str = "a1fce4363854ff888cff4b8e7875d600c2682390412a8cf79b37d0b11148b0fa";

fn bob() -> Declaration {
    Declaration { name: "bob".to_owned(), enabled: true, ..Declaration::default() }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn rendered(declaration: &Declaration) -> String {
    line(&User::declared(declaration).expect("should be a user"))
}

#[test]
fn every_field_has_its_place() {
    let declaration = Declaration {
        passwords: vec!["x".into(), format!("#{}", OTHER.to_uppercase()).into(), "x".into()],
        allow: words(&["@read", "config|get"]),
        deny: words(&["keys"]),
        read_write: words(&["a:*"]),
        read_only: words(&["b:*"]),
        write_only: words(&["c:*"]),
        channels: words(&["news", "sport"]),
        permissions: " +ping\n(+set ~d:*)".to_owned(),
        ..bob()
    };
    assert_eq!(
        rendered(&declaration),
        format!(
            "user bob on #{HASH} #{OTHER} ~a:* %R~b:* %W~c:* resetchannels &news &sport +@read +config|get -keys +ping \
             (+set ~d:*)"
        )
    );
}

#[test]
fn how_a_user_logs_in() {
    let passwords = vec!["x".into()];
    for (declaration, expected) in [
        (bob(), "user bob on".to_owned()),
        (
            Declaration { enabled: false, passwords: passwords.clone(), ..bob() },
            format!("user bob off #{HASH}"),
        ),
        (
            Declaration { nopass: true, passwords: passwords.clone(), ..bob() },
            "user bob on nopass".to_owned(),
        ),
        (
            Declaration { resetpass: true, passwords: passwords.clone(), ..bob() },
            format!("user bob on #{HASH}"),
        ),
        (Declaration { resetpass: true, ..bob() }, "user bob on".to_owned()),
        (Declaration { resetpass: true, nopass: true, passwords, ..bob() }, "user bob on".to_owned()),
    ] {
        assert_eq!(rendered(&declaration), expected);
    }
}

#[test]
fn permissions_hide_no_password() {
    for (permissions, expected) in [
        (">x +get", format!("user bob on #{HASH} +get")),
        (">x >y <x", format!("user bob on #{OTHER}")),
        ("nopass", "user bob on nopass".to_owned()),
        ("NoPass >x OFF", format!("user bob off #{HASH}")),
        (">x ResetPass", "user bob on".to_owned()),
        (">x nopass on", "user bob on nopass".to_owned()),
        (">x !2D711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "user bob on".to_owned()),
        ("(~a >x) +get", "user bob on (~a >x) +get".to_owned()),
        ("(~a) >x", format!("user bob on #{HASH} (~a)")),
    ] {
        assert_eq!(
            rendered(&Declaration { permissions: permissions.to_owned(), ..bob() }),
            expected,
            "{permissions}"
        );
    }
}

#[test]
fn what_is_not_one_line_of_one_user_is_refused() {
    let named = |name: &str| Declaration { name: name.to_owned(), ..bob() };
    let list = |list: &'static str, word: &str| AclError::Word {
        name: "bob".to_owned(),
        list,
        word: word.to_owned(),
    };
    let evil = "x\nuser evil on nopass +@all";
    for (declaration, expected) in [
        (named(""), AclError::Name { name: String::new() }),
        (named("a b"), AclError::Name { name: "a b".to_owned() }),
        (named("a\n"), AclError::Name { name: "a\n".to_owned() }),
        (named("_operator"), AclError::ReservedName { name: "_operator".to_owned() }),
        (Declaration { allow: words(&[evil]), ..bob() }, list("commands.allow", evil)),
        (Declaration { deny: words(&[""]), ..bob() }, list("commands.deny", "")),
        (Declaration { read_write: words(&["a b"]), ..bob() }, list("keys.readWrite", "a b")),
        (Declaration { read_only: words(&["\t"]), ..bob() }, list("keys.readOnly", "\t")),
        (Declaration { write_only: words(&["a\0"]), ..bob() }, list("keys.writeOnly", "a\0")),
        (Declaration { channels: words(&["a\u{a0}"]), ..bob() }, list("channels.patterns", "a\u{a0}")),
        (
            Declaration { passwords: vec!["".into()], ..bob() },
            AclError::EmptyPassword { name: "bob".to_owned() },
        ),
        (
            Declaration { permissions: "+get\0".to_owned(), ..bob() },
            AclError::ControlCharacter { name: "bob".to_owned() },
        ),
        (
            Declaration { permissions: "+get RESET".to_owned(), ..bob() },
            AclError::Reset { name: "bob".to_owned() },
        ),
        (
            Declaration { permissions: "+ping (+get ~a) (+set ~b".to_owned(), ..bob() },
            AclError::OpenSelector { name: "bob".to_owned() },
        ),
    ] {
        assert_eq!(User::declared(&declaration).expect_err("should be refused"), expected);
    }
}

#[test]
fn debug_shows_no_hash() {
    let user =
        User::declared(&Declaration { passwords: vec!["x".into()], ..bob() }).expect("should be a user");
    let rules: Rules = user.set_rules();
    assert!(rules.words().any(|word| word.contains(HASH)));
    let shown = format!("{user:?} {rules:?}");
    assert!(shown.contains("[redacted]") && !shown.contains(HASH), "{shown}");
}

proptest! {
    #[test]
    fn whatever_is_declared_is_one_line_of_that_user(
        name in "([a-z]|[_#\\n \0]|.){0,8}",
        passwords in prop::collection::vec(any::<String>(), 0..3),
        items in prop::collection::vec("([a-z@|*]|\\n|\\(|\\)| |.){0,8}", 0..3),
        permissions in "(user|on|>x|\\(|\\)|\\n|\r|\0|[+~]get| |.){0,12}",
    ) {
        let declaration = Declaration {
            name: name.clone(),
            enabled: true,
            passwords: passwords.into_iter().map(SecretString::from).collect(),
            allow: items.clone(),
            read_only: items.clone(),
            channels: items,
            permissions,
            ..Declaration::default()
        };
        if let Ok(user) = User::declared(&declaration) {
            let line = line(&user);
            prop_assert!(!line.contains(['\n', '\r', '\0']), "{line:?}");
            let listed = Listed::parse(std::slice::from_ref(&line));
            prop_assert!(listed.unreadable == 0 && listed.get(&name).is_some(), "{line:?}");
            prop_assert!(!has_open_selector(line.split(' ').skip(2)), "would crash a server: {line:?}");
        }
    }
}
