//! Who is let in, and how a closed door looks.

use valkey::Error;
use valkey::testing::Release;

use crate::support::{connect, open, start};

#[tokio::test]
async fn passwords_of_the_default_user() {
    for release in Release::ALL {
        let server = start(release, "requirepass right");
        let stranger = open(&server).await;
        let error = stranger.ping().await.expect_err("should need a password");
        assert!(matches!(error, Error::AuthRequired { .. }) && error.is_auth(), "{error:?}");

        let wrong = server.target().with_credentials(None, "hush-wrong".into());
        let error = connect(wrong).await.expect_err("should refuse");
        assert!(matches!(error, Error::WrongPassword { .. }), "{error:?}");
        assert!(!format!("{error:?}{error}").contains("hush"), "{error:?}");

        let right = connect(server.target().with_credentials(None, "right".into())).await;
        right.expect("should let us in").ping().await.expect("should answer");
    }
}

#[tokio::test]
async fn a_password_nobody_asked_for_is_wrong() {
    for release in Release::ALL {
        let server = start(release, "");
        let error =
            connect(server.target().with_credentials(None, "hush".into())).await.expect_err("should refuse");
        assert!(matches!(error, Error::WrongPassword { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn users_may_do_what_their_rules_say() {
    for release in Release::ALL {
        let server = start(release, "user bob on >secret +ping +info");
        let target = server.target().with_credentials(Some("bob"), "secret".into());
        let bob = connect(target).await.expect("should let bob in");
        bob.ping().await.expect("should answer");
        let error = bob.config_get(&["*"]).await.expect_err("should refuse");
        assert!(
            matches!(&error, Error::NoPermission { command, .. } if command == "CONFIG GET"),
            "{error:?}"
        );
        assert!(error.is_auth() && !error.is_transient());

        let nobody = server.target().with_credentials(Some("nobody"), "secret".into());
        let error = connect(nobody).await.expect_err("should not know nobody");
        assert!(matches!(error, Error::WrongPassword { .. }), "{error:?}");
    }
}

/// A server that does not know a command repeats its arguments.
#[tokio::test]
async fn a_password_is_not_repeated_by_a_server_without_auth() {
    for release in Release::ALL {
        let server = start(release, "rename-command AUTH \"\"\nrename-command CONFIG \"\"");
        let target = server.target().with_credentials(None, "hush".into());
        let error = connect(target).await.expect_err("should not know AUTH");
        let shown = format!("{error:?}{error}");
        assert!(shown.contains("[redacted]") && !shown.contains("hush"), "{shown}");

        let connection = open(&server).await;
        let error =
            connection.config_set(&[("requirepass", "hush")]).await.expect_err("should not know CONFIG");
        assert!(!format!("{error:?}{error}").contains("hush"), "{error:?}");
    }
}
