//! Users: what is rendered, what a server lists, and what changes when.

use std::fs;
use std::path::Path;

use valkey::acl::{
    AclChange, AclFile, Declaration, PASSWORD_MAX, SystemUser, User, difference, loaded_revision, render_file,
};
use valkey::testing::{Release, Server};
use valkey::{Connection, Error};

use crate::support::{connect, eventually, running};

/// Declarations whose rules every release writes in another way than they are given here.
const PERMISSIONS: &[(&str, &str)] = &[
    ("empty", ""),
    ("everything", "allkeys allchannels allcommands"),
    ("reader", "+@read ~*"),
    ("narrow", "%R~a:* %W~b:* %RW~c:* &news +get +set -@dangerous +config|get"),
    ("folded", "+config|get +config|set +config -config|resetstat +GET +get"),
    ("selector", "+get ~a:* (+set ~b:*) (%R~c:* +@read)"),
    ("cleared", "+@all -@all +ping nocommands +echo ~x resetkeys ~y"),
    ("sanitized", "sanitize-payload +restore ~*"),
    ("unsanitized", "skip-sanitize-payload +restore ~*"),
    ("off", "off +@all"),
    ("nopass", "nopass +ping"),
    ("ünïcode", "~ключ:* +get"),
];

fn declared(name: &str, password: &str, permissions: &str) -> User {
    let declaration = Declaration {
        name: name.to_owned(),
        enabled: true,
        passwords: vec![password.into()],
        permissions: permissions.to_owned(),
        ..Declaration::default()
    };
    User::declared(&declaration).expect("should be a user")
}

fn everybody() -> Vec<User> {
    let system = SystemUser::ALL.map(|user| User::system(user, &["system".into(), "older".into()]));
    let declared = PERMISSIONS.iter().map(|(name, permissions)| declared(name, "secret", permissions));
    system.into_iter().chain(declared).collect()
}

/// A server that starts from a file of users. Nobody may enter as `default`, so that every login is one of the file.
struct Guarded {
    server: Server,
    folder: tempfile::TempDir,
}

impl Guarded {
    fn start(release: Release, file: &AclFile) -> Self {
        let folder = tempfile::tempdir().expect("should make a folder");
        write(folder.path(), file);
        let conf = format!("cluster-enabled yes\naclfile {}/users.acl", folder.path().display());
        Self { server: running(Server::start(release, &conf)), folder }
    }

    fn write(&self, file: &AclFile) {
        write(self.folder.path(), file);
    }

    async fn login(&self, name: &str, password: &str) -> Result<Connection, Error> {
        connect(self.server.target().with_credentials(Some(name), password.into())).await
    }

    async fn operator(&self) -> Connection {
        self.login("_operator", "system").await.expect("should let the operator in")
    }
}

fn write(folder: &Path, file: &AclFile) {
    fs::write(folder.join("users.acl"), file.text.clone() + "user default off\n").expect("should write");
}

async fn canonical(connection: &Connection, users: Vec<User>) -> Vec<User> {
    let mut asked = Vec::new();
    for user in users {
        let line = connection.acl_canonical(&user).await.expect("should take the rules");
        asked.push(user.with_canonical(&line));
    }
    asked
}

async fn apply(connection: &Connection, changes: &[AclChange]) {
    for change in changes {
        match change {
            AclChange::Set { name, rules } => connection.acl_set_user(name, rules).await,
            AclChange::Delete { name } => connection.acl_del_users(&[name]).await,
        }
        .expect("should take the change");
    }
}

#[tokio::test]
async fn what_is_rendered_is_what_a_server_lists() {
    for release in Release::ALL {
        let file = render_file(&everybody());
        let guarded = Guarded::start(release, &file);
        let operator = guarded.operator().await;
        let listed = operator.acl_list().await.expect("should answer");
        assert_eq!((listed.unreadable, loaded_revision(&listed)), (0, Some(file.revision.clone())));
        // The operator's own users are written as servers list them: nobody has to be asked.
        let system: Vec<_> =
            SystemUser::ALL.map(|user| User::system(user, &["system".into(), "older".into()])).into();
        assert!(
            difference(&system, &listed).iter().all(|change| matches!(change, AclChange::Delete { .. })),
            "{:?}",
            difference(&system, &listed)
        );
        let users = canonical(&operator, everybody()).await;
        assert_eq!(difference(&users, &operator.acl_list().await.expect("should answer")), []);

        operator.acl_load().await.expect("should load the same file");
        assert_eq!(operator.acl_list().await.expect("should answer"), listed);
        assert_eq!(operator.acl_whoami().await.expect("should still be in"), "_operator");
    }
}

/// Agents come and go, and the operator must not be locked out by rights that it gave up.
#[tokio::test]
async fn the_operator_gives_up_rights_and_takes_them_back_by_itself() {
    for release in Release::ALL {
        let passwords = ["system".into(), "older".into()];
        let guarded = Guarded::start(release, &render_file(&everybody()));
        let operator = guarded.operator().await;
        let loose = canonical(&operator, everybody()).await;
        let mut tight = loose.clone();
        for (place, user) in SystemUser::ALL.into_iter().enumerate() {
            tight[place] = User::system_beside_agents(user, &passwords);
        }
        for (users, may) in [(&tight, false), (&loose, true)] {
            let changes = difference(users, &operator.acl_list().await.expect("should answer"));
            assert_eq!(changes.len(), 1, "only the operator's user changes: {changes:?}");
            apply(&operator, &changes).await;
            // They are written as servers list them: nobody has to be asked.
            assert_eq!(difference(users, &operator.acl_list().await.expect("should answer")), []);
            assert_eq!(operator.config_set(&[("hz", "20")]).await.is_ok(), may);
            assert_eq!(operator.acl_load().await.is_ok(), may);
        }
    }
}

/// While a cluster changes its release, one server is asked about users that others have.
#[tokio::test]
async fn every_release_lists_users_alike() {
    let mut lists = Vec::new();
    for release in Release::ALL {
        let guarded = Guarded::start(release, &render_file(&everybody()));
        lists.push(guarded.operator().await.acl_list().await.expect("should answer"));
    }
    assert!(lists.windows(2).all(|pair| pair[0] == pair[1]), "{lists:#?}");
}

#[tokio::test]
async fn exactly_what_differs_is_changed_and_lasts() {
    for release in Release::ALL {
        let guarded = Guarded::start(release, &render_file(&everybody()));
        let operator = guarded.operator().await;
        let kept = guarded.login("reader", "secret").await.expect("should let the reader in");
        let gone = guarded.login("everything", "secret").await.expect("should let it in");

        let mut users = everybody();
        users.retain(|user| user.name() != "everything");
        users.push(declared("fresh", "new", "+ping"));
        let narrow = users.iter().position(|user| user.name() == "narrow").expect("should be there");
        users[narrow] = declared("narrow", "changed", PERMISSIONS[3].1);
        let users = canonical(&operator, users).await;
        let changes = difference(&users, &operator.acl_list().await.expect("should answer"));
        let named: Vec<(&str, bool)> = changes
            .iter()
            .map(|change| match change {
                AclChange::Set { name, .. } => (name.as_str(), true),
                AclChange::Delete { name } => (name.as_str(), false),
            })
            .collect();
        assert_eq!(named, [("narrow", true), ("fresh", true), ("everything", false)]);
        apply(&operator, &changes).await;
        assert_eq!(difference(&users, &operator.acl_list().await.expect("should answer")), []);
        guarded.login("fresh", "new").await.expect("should let it in").ping().await.expect("should answer");
        guarded.login("narrow", "changed").await.expect("should take the new password");
        guarded.login("narrow", "secret").await.expect_err("should not take the old password");

        let file = render_file(&users);
        guarded.write(&file);
        operator.acl_load().await.expect("should load");
        let listed = operator.acl_list().await.expect("should answer");
        assert_eq!((difference(&users, &listed), loaded_revision(&listed)), (vec![], Some(file.revision)));
        // Whoever stayed as it was kept its connection through all of it.
        let error = kept.acl_whoami().await.expect_err("should not be allowed that");
        assert!(matches!(error, Error::NoPermission { .. }), "{error:?}");
        let error = gone.ping().await.expect_err("should be closed");
        assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_bad_rule_is_found_before_anything_changes() {
    for release in Release::ALL {
        let guarded = Guarded::start(release, &render_file(&everybody()));
        let operator = guarded.operator().await;
        let before = operator.acl_list().await.expect("should answer");
        for (permissions, words) in [
            ("+nosuchcommand", "'+nosuchcommand'"),
            ("+@nosuchcategory", "'+@nosuchcategory'"),
            ("gibberish", "'gibberish'"),
            ("(+get (+set))", "Syntax error"),
            (">hush-one (~a >hush-two)", "[redacted]"),
            ("#hush", "[redacted]"),
        ] {
            let error = operator
                .acl_canonical(&declared("bad", "hush", permissions))
                .await
                .expect_err("should be refused");
            let shown = format!("{error:?}{error}");
            assert!(error.server_message().is_some_and(|message| message.contains(words)), "{shown}");
            assert!(
                error.to_string().contains("ACL SETUSER for bad on") && !shown.contains("hush"),
                "{shown}"
            );
        }
        assert_eq!(operator.acl_list().await.expect("should answer"), before);

        let mut users = everybody();
        users.push(declared("bad", "secret", "+nosuchcommand"));
        guarded.write(&render_file(&users));
        operator.acl_load().await.expect_err("should refuse the file");
        assert_eq!(operator.acl_list().await.expect("should answer"), before);
    }
}

#[tokio::test]
async fn the_scratch_user_can_never_log_in() {
    for release in Release::ALL {
        let guarded = Guarded::start(release, &render_file(&everybody()));
        let operator = guarded.operator().await;
        let open = declared("open", "x", "nopass on +@all");
        let line = operator.acl_canonical(&open).await.expect("should take the rules");
        assert!(line.starts_with("user open on nopass "), "{line}");
        assert!(operator.acl_list().await.expect("should answer").get("_check").is_none());

        // Somebody stopped half-way: the rest of it can do nothing, and the next difference removes it.
        operator.raw(&["ACL", "SETUSER", "_check", "reset", "off", "+@all"]).await.expect("should set");
        for password in ["", "x", "system"] {
            guarded.login("_check", password).await.expect_err("should not let anybody in");
        }
        let users = canonical(&operator, everybody()).await;
        assert_eq!(difference(&users, &operator.acl_list().await.expect("should answer")), []);
    }
}

#[tokio::test]
async fn a_hash_is_not_repeated_by_a_server_that_repeats_arguments() {
    for release in Release::ALL {
        let server = running(Server::start(release, "rename-command ACL \"\""));
        let connection = crate::support::open(&server).await;
        let user = declared("bob", "secret", "~somewhat-longer-than-nothing");
        let error =
            connection.acl_set_user("bob", &user.set_rules()).await.expect_err("should not know the command");
        let hash = valkey::acl::hash_password(&"secret".into());
        let shown = format!("{error:?}{error}");
        assert!(shown.contains("[redacted]") && !shown.contains(&hash[..8]), "{shown}");
    }
}

#[tokio::test]
async fn the_longest_password_is_the_longest_a_server_takes() {
    for release in Release::ALL {
        let [longest, longer] = [PASSWORD_MAX, PASSWORD_MAX + 1].map(|length| "x".repeat(length));
        let mut users = everybody();
        users.extend([declared("longest", &longest, "+ping"), declared("longer", &longer, "+ping")]);
        let guarded = Guarded::start(release, &render_file(&users));
        guarded.login("longest", &longest).await.expect("should let it in");
        guarded.login("longer", &longer).await.expect_err("should hang up");
    }
}

/// Who is let in without a password is up to whoever declares `default`.
#[tokio::test]
async fn the_default_user_is_touched_only_if_declared() {
    for release in Release::ALL {
        let folder = tempfile::tempdir().expect("should make a folder");
        let path = folder.path().join("users.acl");
        let system = User::system(SystemUser::Operator, &["system".into()]);
        fs::write(&path, render_file(std::slice::from_ref(&system)).text).expect("should write");
        let server = running(Server::start(release, &format!("aclfile {}", path.display())));
        let stranger = crate::support::open(&server).await;
        stranger.ping().await.expect("should be open by default");
        let listed = stranger.acl_list().await.expect("should answer");
        assert_eq!(difference(std::slice::from_ref(&system), &listed), []);

        let closed = Declaration { name: "default".to_owned(), resetpass: true, ..Declaration::default() };
        let closed = User::declared(&closed).expect("should be a user");
        let users = canonical(&stranger, vec![system, closed]).await;
        apply(&stranger, &difference(&users, &listed)).await;
        eventually("nobody enters without a name", || async {
            let newcomer = crate::support::open(&server).await;
            matches!(newcomer.ping().await, Err(Error::AuthRequired { .. })).then_some(())
        })
        .await;
    }
}
