//! `kill -9`: what was acknowledged is there, what was cut off is reported, and no browser stays.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::support::{browsers, files, program, shots, take};
use abide_harness::{Random, setting, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_keeps_acknowledged_screenshots_and_leaves_no_browser() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 4);
    let mut random = Random::new(setting("ABIDE_CRASH_SEED", 0xB0B));
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let server = program(&data).start();
        let client = server.client();
        let mut requests = tokio::task::JoinSet::new();
        for number in 0..6 {
            let client = client.clone();
            requests.spawn(async move {
                let session = format!("session-{}", number % 2);
                let url = format!("https://example.com/{round}/{number}/slow");
                let body = serde_json::json!({ "url": url, "sizes": ["200x100"] });
                let path = format!("/sessions/{session}/screenshots");
                let asked = client
                    .try_ask(http::Method::POST, &path, &body.to_string())
                    .await;
                // No answer: the server was killed.
                asked.ok().map(|answer| {
                    assert_eq!(answer.status, 201, "{answer:?}");
                    (session, answer.body)
                })
            });
        }
        // Killed after this many answers.
        for _ in 0..random.below(7) {
            if let Some(answer) = requests.join_next().await {
                acknowledged.extend(answer.unwrap());
            }
        }
        server.kill();
        while let Some(answer) = requests.join_next().await {
            acknowledged.extend(answer.unwrap());
        }
        // Before the program's next start: a browser ends when its pipe breaks.
        until("the browsers to end", async || {
            browsers(&data).is_empty().then_some(())
        })
        .await;
    }
    let server = program(&data).start();
    let client = server.client();
    assert_eq!(
        files(&data.join("browsers")),
        Vec::<std::path::PathBuf>::new()
    );
    for (session, shot) in &acknowledged {
        let all = shots(&client, session).await;
        assert!(all.contains(shot), "{shot} is not in {all:?}");
        let key = shot["pictures"][0]["key"].as_str().unwrap();
        let picture = client.get(&format!("/pictures/{key}")).await;
        let url = shot["url"].as_str().unwrap();
        assert_eq!(picture.body, format!("200x100 of {url}"));
    }
    for session in ["session-0", "session-1"] {
        for shot in shots(&client, session).await {
            // Nothing is left half done.
            assert_ne!(shot["state"], "taking", "{shot}");
        }
        assert_eq!(
            take(&client, session, "https://example.com/").await.status,
            201
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_was_open_at_kill_9_is_reported_as_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    let client = server.client();
    let asks = tokio::spawn({
        let client = client.clone();
        async move {
            let body = r#"{"url":"https://example.com/never-loads"}"#;
            client
                .try_ask(http::Method::POST, "/sessions/main/screenshots", body)
                .await
                .is_err()
        }
    });
    until("the page to be open", async || {
        (browsers(&data).len() == 1).then_some(())
    })
    .await;
    server.kill();
    assert!(asks.await.unwrap());
    let server = program(&data).start();
    let all = shots(&server.client(), "main").await;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0]["state"], "failed");
    assert!(
        all[0]["error"].as_str().unwrap().contains("server stopped"),
        "{}",
        all[0]
    );
}

/// A process that looks like a browser which did not notice its program's end, with a child that does not look like one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leftover_browser_and_its_children_are_killed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = program(&data).start();
    server.kill();
    let profile = data.join("browsers").join("1-1");
    std::fs::create_dir_all(&profile).unwrap();
    std::fs::write(profile.join("Cookies"), "old").unwrap();
    let orphan = |profile: &std::path::Path| {
        Command::new("sh")
            .args(["-c", "sleep 600 & wait", "chromium"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    };
    let mut ours = orphan(&profile);
    // Of another program, whose directory's name begins as ours does.
    let mut other = orphan(
        &dir.path()
            .join("data-of-others")
            .join("browsers")
            .join("1-1"),
    );
    until("both to run", async || {
        let both = [&ours, &other].map(|child| support::group(child.id()).len());
        (both == [2, 2]).then_some(())
    })
    .await;
    let server = program(&data).start();
    assert!(!ours.wait().unwrap().success());
    until("the child to end", async || {
        support::group(ours.id()).is_empty().then_some(())
    })
    .await;
    assert_eq!(
        files(&data.join("browsers")),
        Vec::<std::path::PathBuf>::new()
    );
    assert_eq!(support::group(other.id()).len(), 2);
    // A second program on the same directory is refused before it kills anything.
    assert_eq!(
        take(&server.client(), "main", "https://example.com/")
            .await
            .status,
        201
    );
    assert!(program(&data).try_start().is_err());
    assert_eq!(browsers(&data).len(), 1);
    let group = rustix::process::Pid::from_raw(other.id().cast_signed()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    other.wait().unwrap();
}
