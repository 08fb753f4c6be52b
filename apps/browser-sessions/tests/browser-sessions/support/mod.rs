//! The real binary, with a fake browser or the real one, and sites to look at.

use std::path::{Path, PathBuf};

use abide_harness::{Answer, Client, Program};
use serde_json::{Value, json};

/// `browser-sessions serve` with a fake browser.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_browser-sessions"), data).env(
        "BROWSER_SESSIONS_CHROMIUM",
        env!("CARGO_BIN_EXE_fake-chromium"),
    )
}

/// `browser-sessions serve` with Chromium, which may open pages of one address of this machine.
pub(crate) fn chromium(data: &Path) -> Program {
    let chromium = std::env::var("ABIDE_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    Program::new(env!("CARGO_BIN_EXE_browser-sessions"), data)
        .env("BROWSER_SESSIONS_CHROMIUM", &chromium)
        .env("BROWSER_SESSIONS_NO_SANDBOX", "1")
        .env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1")
}

/// The same as [`program`], which may open pages of this machine.
pub(crate) fn local(data: &Path) -> Program {
    program(data).env("ABIDE__OUTBOUND__ALLOW_PRIVATE", "127.0.0.1,::1")
}

/// Takes a screenshot of a page in one small size.
pub(crate) async fn take(client: &Client, session: &str, url: &str) -> Answer {
    post(
        client,
        session,
        &json!({ "url": url, "sizes": ["200x100"] }),
    )
    .await
}

pub(crate) async fn post(client: &Client, session: &str, body: &Value) -> Answer {
    client
        .post(&format!("/sessions/{session}/screenshots"), body)
        .await
}

pub(crate) async fn shots(client: &Client, session: &str) -> Vec<Value> {
    let answer = client
        .get(&format!("/sessions/{session}/screenshots?limit=100"))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["screenshots"]
        .as_array()
        .expect("a list")
        .clone()
}

/// What a session's browser is doing.
pub(crate) async fn browser(client: &Client, session: &str) -> String {
    let answer = client.get(&format!("/sessions/{session}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["browser"].as_str().expect("a state").to_owned()
}

/// The processes of browsers of a data directory, by their arguments: each with its process group.
pub(crate) fn browsers(data: &Path) -> Vec<u32> {
    let mark = format!("--user-data-dir={}/browsers/", data.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if command
            .split(|byte| *byte == 0)
            .any(|argument| argument.starts_with(mark.as_bytes()))
        {
            found.push(pid);
        }
    }
    found
}

/// The living processes of a group.
pub(crate) fn group(group: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name, which may hold anything: state, parent, group.
        let Some((_, rest)) = stat.rsplit_once(')') else {
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().collect();
        if fields.get(2) == Some(&group.to_string().as_str()) && fields[0] != "Z" {
            found.push(pid);
        }
    }
    found
}

/// Bytes of private memory of the processes of a group: neither programs nor files.
pub(crate) fn group_memory(main: u32) -> u64 {
    let mut kib = 0;
    for pid in group(main) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        for line in status.lines() {
            if line.starts_with("RssAnon:") || line.starts_with("RssShmem:") {
                let number = line.split_whitespace().nth(1);
                kib += number
                    .and_then(|number| number.parse::<u64>().ok())
                    .unwrap_or(0);
            }
        }
    }
    kib << 10
}

/// The files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}
