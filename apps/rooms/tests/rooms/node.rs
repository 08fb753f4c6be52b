//! The public clients, from npm, unmodified, in Node: `partysocket`, and the Yjs providers of `y-partyserver` and `y-websocket`.
//!
//! `npm ci` installs what `web/package-lock.json` names, below the build directory.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::support::{connect, program, text};
use abide_harness::{in_time, until};
use futures_util::SinkExt;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};
use tokio_tungstenite::tungstenite::Message;

/// A directory with the packages, and the program.
async fn installed() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rooms-node");
    std::fs::create_dir_all(&dir).unwrap();
    for file in [
        "web/package.json",
        "web/package-lock.json",
        "web/.npmrc",
        "tests/rooms/node/client.mjs",
    ] {
        let from = here.join(file);
        std::fs::copy(&from, dir.join(from.file_name().unwrap())).unwrap();
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&dir);
    let status = in_time("npm", npm.status()).await.unwrap();
    assert!(status.success(), "npm ci");
    dir
}

struct Node {
    _process: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Node {
    fn start(dir: &Path, host: &str) -> Self {
        let mut command = Command::new("node");
        command
            .arg("client.mjs")
            .arg(host)
            .current_dir(dir)
            .kill_on_drop(true);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take().unwrap(),
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            _process: process,
        }
    }

    async fn tell(&mut self, what: &str, value: &str) {
        let line = format!("{}\n", json!([what, value]));
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Waits until it tells this of each.
    async fn until(&mut self, wanted: &[(&str, &str)]) {
        let mut wanted: Vec<_> = wanted.to_vec();
        while !wanted.is_empty() {
            let line = in_time(&format!("{wanted:?}"), self.lines.next_line()).await;
            let line = line.unwrap().expect("it runs");
            let (kind, value): (String, String) = serde_json::from_str(&line).unwrap();
            wanted.retain(|&(a, b)| (a, b) != (&*kind, &*value));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs npm"]
async fn the_public_clients_connect_buffer_and_reconnect_unmodified() {
    let packages = installed().await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let address = server.address().to_owned();
    let mut rust = connect(&address, "channel", "node", "_pk=rust")
        .await
        .unwrap();
    let mut node = Node::start(&packages, &address);
    assert_eq!(text(&mut rust).await, "buffered");
    let both = [
        ("partyserver sees", "partyserver websocket"),
        ("websocket sees", "partyserver websocket"),
    ];
    node.until(&[("open", "from-node"), both[0], both[1]]).await;
    rust.send(Message::text("from rust")).await.unwrap();
    node.until(&[("message", "from rust")]).await;
    node.tell("fetch", "to all").await;
    node.until(&[("message", "to all"), ("fetched", r#"{"sent":2}"#)])
        .await;
    assert_eq!(text(&mut rust).await, "to all");
    node.tell("partyserver", "one ").await;
    node.until(&[("websocket text", "one ")]).await;

    server.kill();
    node.until(&[("close", "")]).await;
    // Written while there is no server.
    node.tell("send", "meanwhile").await;
    node.tell("websocket", "two ").await;
    node.until(&[("websocket text", "two one ")]).await;
    let server = program(&data).listen(&address).start();
    let client = server.client();
    until("what was sent meanwhile", async || {
        let there = client.get("/parties/channel/node").await.body;
        (there["connections"][0] == json!({ "id": "from-node", "tags": ["blue"], "messages": 1 }))
            .then_some(())
    })
    .await;
    node.until(&[("partyserver text", "two one ")]).await;
    let stored = server.client().get("/parties/main/node/text").await;
    assert_eq!(stored.body, "two one ");
}
