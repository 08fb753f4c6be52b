//! Each example runs as a program and prints what it should.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use abide_harness::{Client, Version};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::{connect_async, tungstenite::Message};

/// The example that the child process runs.
const EXAMPLE: &str = "ABIDE_EXAMPLE";

/// Compiles the examples into this binary: `cargo test --test examples` does not build them as programs.
macro_rules! examples {
    ($($name:ident)*) => {
        $(mod $name {
            include!(concat!("../", stringify!($name), ".rs"));

            pub(super) fn run() -> anyhow::Result<()> {
                main()
            }
        })*

        fn run(name: &str) -> anyhow::Result<()> {
            match name {
                $(stringify!($name) => $name::run(),)*
                other => panic!("there is no example {other}"),
            }
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

examples! { counter seat_map chat alarm_batcher outbox_email cron rate_limit projection workflow }

/// In the child process of another test, this is the example's program; otherwise it is empty.
#[test]
fn child() -> anyhow::Result<()> {
    env::var(EXAMPLE).map_or(Ok(()), |example| run(&example))
}

/// An example as a child process, killed when it is dropped.
struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(example: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(EXAMPLE, example)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The address in the first printed line that has one.
    fn address(&mut self) -> String {
        let lines = self.output.by_ref().lines();
        let mut addresses = lines.filter_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split('/').next()?.to_owned())
        });
        addresses.next().expect("the program prints its address")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs an example to its end: its output has these lines, in this order, without others in between.
#[track_caller]
fn prints(example: &str, expected: &[&str]) {
    let mut program = Program::start(example);
    let mut output = String::new();
    program.output.read_to_string(&mut output).unwrap();
    assert!(program.child.wait().unwrap().success(), "{output}");
    let expected = expected.join("\n");
    assert!(
        output.contains(&expected),
        "expected:\n{expected}\nprinted:\n{output}"
    );
}

#[test]
fn every_example_has_a_test_and_an_entry_in_the_manifest() {
    let manifest = include_str!("../Cargo.toml");
    let test = include_str!("examples.rs");
    let files = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let mut found = Vec::new();
    for file in files {
        let file = file.unwrap().file_name().into_string().unwrap();
        if let Some(name) = file.strip_suffix(".rs") {
            assert!(manifest.contains(&format!("path = \"{file}\"")), "{file}");
            assert!(
                test.contains(&format!("(\"{name}\"")),
                "no test runs {name}"
            );
            found.push(name.to_owned());
        }
    }
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn counter() {
    let once = ["visits: 1", "visits: 2", "downloads: 1"];
    let again = ["visits: 3", "visits: 4", "downloads: 2"];
    let lines = [&once[..], &["stopped and started again"], &again].concat();
    prints("counter", &lines);
}

#[tokio::test]
async fn seat_map() {
    let mut program = Program::start("seat_map");
    let client = Client::new(&program.address(), Version::Http1);
    let flight = "/rpc/Flight/BA117";
    let take = async |occupant| {
        let arguments = json!(["14C", occupant]);
        client
            .post(&format!("{flight}/take"), &arguments)
            .await
            .body
    };
    assert_eq!(
        (take("ada").await, take("grace").await),
        (json!(true), json!(false))
    );
    let seats = client.post(&format!("{flight}/seats"), &json!([])).await;
    assert_eq!(seats.body, json!([{ "seat": "14C", "occupant": "ada" }]));
}

#[tokio::test]
async fn chat() {
    let mut program = Program::start("chat");
    let address = program.address();
    let page = Client::new(&address, Version::Http1).get("/").await;
    assert!(page.body.as_str().unwrap().contains("new WebSocket"));

    let room = format!("ws://{address}/rooms/lobby");
    let (mut ada, _) = connect_async(&room).await.unwrap();
    ada.send(Message::text("hello")).await.unwrap();
    assert_eq!(ada.next().await.unwrap().unwrap(), Message::text("hello"));
    let (mut grace, _) = connect_async(&room).await.unwrap();
    assert_eq!(grace.next().await.unwrap().unwrap(), Message::text("hello"));
    grace.send(Message::text("hi")).await.unwrap();
    assert_eq!(ada.next().await.unwrap().unwrap(), Message::text("hi"));
}

#[test]
fn alarm_batcher() {
    let lines = [
        "nothing was sent for nine seconds",
        r#"sending ["one", "two"]"#,
    ];
    prints("alarm_batcher", &lines);
}

#[test]
fn outbox_email() {
    let lines = [
        "attempt 1, to ada@example.com: Thank you for ordering a kettle.",
        "attempt 2, to ada@example.com: Thank you for ordering a kettle.",
        "attempt 3, to ada@example.com: Thank you for ordering a kettle.",
    ];
    prints("outbox_email", &lines);
}

#[test]
fn cron() {
    // Clocks in Berlin are one hour ahead in winter, and two from 29 March 2026.
    let lines = [
        "report 12 of 2026-03-23T08:00:00Z",
        "report 13 of 2026-03-30T07:00:00Z",
    ];
    prints("cron", &lines);
}

#[test]
fn rate_limit() {
    let lines = [
        "192.0.2.1: admitted, 2 left",
        "192.0.2.1: admitted, 1 left",
        "192.0.2.1: admitted, 0 left",
        "192.0.2.1: refused for 60s",
        "192.0.2.2: admitted, 2 left",
        "two minutes later",
        "192.0.2.1: admitted, 2 left",
    ];
    prints("rate_limit", &lines);
}

#[test]
fn projection() {
    prints("projection", &["\"open\": 2", "\"paid\": 1"]);
}

#[test]
fn workflow() {
    let lines = [
        "refunding 40",
        "order 1: Completed(\"a kettle collected by ada\")",
        "order 2: Completed(\"a lamp refunded\")",
    ];
    prints("workflow", &lines);
}
