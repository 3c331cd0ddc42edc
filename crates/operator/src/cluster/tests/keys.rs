//! Getting into servers that know the password in use, one of its neighbours, or none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use valkey::Error;
use valkey::acl::SystemUser;

use super::super::server::Keys;
use super::super::users::passwords::{Password, Passwords};

/// How a server treats callers.
#[derive(Clone, Copy, Debug)]
struct Door {
    takes: &'static [&'static str],
    /// The user `default` may do something.
    open: bool,
    /// It ends the conversation instead of answering.
    hangs_up: bool,
}

/// A server with this door. Each call sends one command at a time, so that one read is one command.
async fn answer(mut stream: TcpStream, door: Door, tried: Arc<Mutex<Vec<String>>>) {
    let mut buffer = [0; 1024];
    let mut inside = door.open;
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let words = String::from_utf8_lossy(&buffer[..read]).into_owned();
        let words: Vec<&str> = words.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
        let reply = match words.as_slice() {
            ["AUTH", _, password, ..] => {
                tried.lock().expect("should be free").push((*password).to_owned());
                if door.hangs_up {
                    return;
                }
                inside |= door.takes.contains(password);
                if door.takes.contains(password) { "+OK\r\n" } else { "-WRONGPASS not you\r\n" }
            }
            _ if inside => "+PONG\r\n",
            _ => "-NOAUTH who are you\r\n",
        };
        stream.write_all(reply.as_bytes()).await.expect("should be heard");
    }
}

/// The passwords that were tried at a door, and what came of it: whether the fallback was used.
async fn try_door(number: u8, door: Door) -> (Vec<String>, Result<bool, Error>) {
    // The port is always that of servers; the loopback network has addresses enough.
    let address = format!("127.0.87.{number}");
    let listener =
        TcpListener::bind((address.as_str(), api::names::SERVER_PORT)).await.expect("should listen");
    let tried: Arc<Mutex<Vec<String>>> = Arc::default();
    let server = tokio::spawn({
        let tried = tried.clone();
        async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, door, tried.clone()));
            }
        }
    });
    let password =
        Password { current: "now".into(), next: Some("soon".into()), previous: Some("then".into()) };
    let held = Passwords { users: BTreeMap::from([(SystemUser::Operator, password)]), rotation: None };
    let opened = Keys::new(&held, None).open(&address).await;
    server.abort();
    let tried = tried.lock().expect("should be free").clone();
    (tried, opened.map(|(_, by_fallback)| by_fallback))
}

#[tokio::test]
async fn the_password_in_use_comes_first_then_its_neighbours_then_none() {
    let door = Door { takes: &[], open: false, hangs_up: false };
    for (number, takes, open, tries, by_fallback) in [
        (1, &["now", "then"][..], false, &["now"][..], Some(false)),
        (2, &["then"], false, &["now", "then"], Some(false)),
        // Whoever lets everybody in is still spoken to as the operator where that works.
        (3, &["then"], true, &["now", "then"], Some(false)),
        (4, &["soon"], false, &["now", "then", "soon"], Some(false)),
        (5, &[], true, &["now", "then", "soon"], Some(true)),
        (6, &["another"], false, &["now", "then", "soon"], None),
    ] {
        let (tried, opened) = try_door(number, Door { takes, open, ..door }).await;
        assert_eq!(tried, tries, "{number}");
        match (opened, by_fallback) {
            (Ok(used), Some(expected)) => assert_eq!(used, expected, "{number}"),
            (Err(Error::WrongPassword { .. }), None) => {}
            (opened, _) => panic!("{number}: {opened:?}"),
        }
    }
}

#[tokio::test]
async fn a_broken_line_is_no_refusal() {
    let (tried, opened) = try_door(9, Door { takes: &[], open: true, hangs_up: true }).await;
    assert_eq!(tried, ["now"], "a password that was not refused is not followed by another");
    assert!(matches!(opened, Err(Error::Disconnected { .. })), "{opened:?}");
}
