//! The program a user runs.

use std::fs;

use tokio::process::Command;
use valkey::testing::Release;

use crate::loopback::{Loopback, PASSWORD, address};

#[tokio::test]
async fn the_program_tells_what_it_saw_and_cleans_up() {
    let cluster = Loopback::form(Release::V9_1, 1, 0).await;
    let server = &cluster.shards[0][0];
    let file = server.directory().join("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let seed = address(server).to_string();
    let run = async |arguments: &[&str]| {
        let mut witness = Command::new(env!("CARGO_BIN_EXE_witness"));
        let output = witness.args(["--seed", &seed, "--for", "2s"]).args(arguments).output().await.unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };

    let (code, text) = run(&["--password-file", file.to_str().unwrap(), "--rate", "200"]).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0-16383") && text.contains("lost: 0 of"), "{text}");
    let left = cluster.open(server).await.raw(&["DBSIZE"]).await.unwrap();
    assert_eq!(left, valkey::client::Value::Int(0), "the witness should take its keys along");

    let (code, text) = run(&[]).await;
    assert_eq!(code, Some(2), "without the password nobody is let in: {text}");
    assert!(text.contains("failed to learn the slots"), "{text}");
}
