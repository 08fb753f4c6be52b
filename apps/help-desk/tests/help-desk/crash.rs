//! The real program: killed, started again, and taken back in time.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

/// The program, killed when this is dropped.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_help-desk"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("ABIDE__ADMIN__LISTEN", "off")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program");
        let out = process.stdout.take().expect("its output");
        let first = BufReader::new(out)
            .lines()
            .next()
            .expect("a line")
            .expect("text");
        let address = first
            .strip_prefix("listening on ")
            .expect("an address")
            .to_owned();
        Self { process, address }
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.process.kill().expect("to kill it");
        self.process.wait().expect("its end");
    }

    fn get(&self, path: &str) -> Value {
        let answer = ureq::get(format!("{}/desks/{path}", self.address)).call();
        json(answer.expect("an answer"))
    }

    fn send(&self, path: &str, body: &Value) -> Value {
        let answer = ureq::post(format!("{}/desks/{path}", self.address))
            .content_type("application/json")
            .send(body.to_string());
        json(answer.expect("an answer"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.expect("after 1970").as_millis()).expect("fits")
}

fn json(mut answer: ureq::http::Response<ureq::Body>) -> Value {
    let text = answer.body_mut().read_to_string().expect("text");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn acknowledged_changes_survive_a_kill_and_a_desk_can_be_restored() {
    // What `data` is below it, the program makes for its own user only.
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Server::start(&data);
    let new = json!({ "subject": "The printer is on fire", "from": "ada" });
    let ticket = server.send("support/tickets", &new);
    server.send(
        "support/tickets/1/comments",
        &json!({ "author": "grace", "text": "Use the extinguisher." }),
    );
    server.kill();

    let server = Server::start(&data);
    let before = server.get("support/tickets/1");
    assert_eq!(before["comments"][0]["text"], "Use the extinguisher.");
    // The commit of the comment may be a millisecond later than the comment's own time.
    let commented = unix_millis();
    while unix_millis() == commented {
        std::thread::sleep(Duration::from_millis(1));
    }
    let closed = server.send("support/tickets/1/close", &json!(null));
    assert_eq!(
        (&closed["status"], &closed["id"]),
        (&json!("closed"), &ticket["id"])
    );
    server.kill();

    let server = Server::start(&data);
    assert_eq!(server.get("support/tickets/1")["status"], "closed");
    let undo = server.send("support/restore", &json!({ "at": commented }));
    assert!(undo["undo"].is_string(), "{undo}");
    server.kill();

    let server = Server::start(&data);
    assert_eq!(server.get("support/tickets/1"), before);
}
