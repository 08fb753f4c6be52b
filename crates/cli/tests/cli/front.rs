//! The front page of `abide serve`: every command on it works, and every link leads somewhere.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide_harness::{Program, Server, neutral};
use http::StatusCode;
use serde_json::Value;

fn start(dir: &std::path::Path) -> Server {
    Program::new(env!("CARGO_BIN_EXE_abide"), dir.join("data")).start()
}

/// The commands of a page, as a person copies them.
fn commands(page: &str) -> Vec<String> {
    let code = page.split("<pre tabindex=\"0\"><code>").skip(1);
    let code = code.map(|rest| rest.split_once("</code>").unwrap().0);
    let plain = code.map(|html| {
        html.replace("&quot;", "\"")
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    });
    plain.collect()
}

fn page(address: &str, arguments: &[&str]) -> String {
    let curl = neutral(&mut Command::new("curl"), Path::new("/nowhere"))
        .args(["-sS", "--fail", "-H", "accept: text/html"])
        .args(arguments)
        .arg(format!("{address}/"))
        .output();
    let curl = curl.unwrap();
    assert!(curl.status.success(), "{curl:?}");
    String::from_utf8(curl.stdout).unwrap()
}

/// Runs a line in a shell that knows the command under test, and returns what it prints.
fn run(line: &str) -> String {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_abide"));
    let own = binary.parent().unwrap().display();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap());
    let line = line.replace("curl ", "curl -sS --fail ");
    // No test leaves this machine.
    let line = line.replace("https://example.com/", "http://127.0.0.1:9/");
    let shell = neutral(&mut Command::new("sh"), Path::new("/nowhere"))
        .args(["-c", &line])
        .env("PATH", path)
        .output();
    let shell = shell.unwrap();
    assert!(shell.status.success(), "{line}: {shell:?}");
    String::from_utf8(shell.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs curl"]
async fn every_command_on_the_page_works_and_every_link_leads_somewhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let address = format!("http://{}", server.address());
    let commands = commands(&page(&address, &[]));
    assert_eq!(commands.len(), 4, "{commands:?}");
    let printed: Vec<String> = commands.iter().map(|line| run(line)).collect();
    assert_eq!(printed[1], "\"green\"");
    let taken: Value = serde_json::from_str(&printed[2]).unwrap();
    assert_eq!(taken["id"], 1);
    let client = server.client();
    let told = client.get("/").await;
    assert_eq!(told.status, StatusCode::OK);
    assert_eq!(told.body["classes"][1]["class"], "Outbox");
    assert_eq!(told.body["outboxes"][0]["class"], "Outbox");
    let links = told.body["links"].as_array().unwrap();
    assert!(links.len() > 8, "{links:?}");
    let admin = format!("http://{}", server.admin());
    for href in links.iter().map(|link| link["href"].as_str().unwrap()) {
        let (client, path) = match href.strip_prefix(&admin) {
            Some(path) => (server.admin_client(), path),
            None => (server.client(), href),
        };
        let answer = client.get(path).await;
        // The admin listener's own page needs a token.
        let expected = if path == "/" {
            StatusCode::UNAUTHORIZED
        } else {
            StatusCode::OK
        };
        assert_eq!(answer.status, expected, "{href}");
    }
    assert!(server.stop().success(), "a clean stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs curl"]
async fn every_command_on_the_admin_page_works_on_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let socket = dir.path().join("data/admin.sock");
    let token = run(&format!(
        "abide token create --role read --data {}",
        dir.path().join("data").display()
    ));
    let page = page(
        &format!("http://{}", server.admin()),
        &["-H", &format!("authorization: Bearer {}", token.trim())],
    );
    let commands = commands(&page);
    assert_eq!(commands.len(), 4, "{commands:?}");
    for line in &commands {
        run(&line.replace("$ABIDE_TOKEN", token.trim()));
    }
    let over_socket = format!("curl --unix-socket {} http://localhost/", socket.display());
    let told: Value = serde_json::from_str(&run(&over_socket)).unwrap();
    assert_eq!(told["title"], "abide admin");
    assert!(server.stop().success(), "a clean stop");
}
