//! `abide outbox` on the outbox of an object of a program's own, whose class has no line of code for it.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use abide::outbox::{self, Deliver, Delivery, Failure, Outbox, OutboxOptions, Registry, Submitted};
use abide::{Host, prelude::*, server::RunningHost};

/// Delivers letters while the recipient is at home.
struct Post(Arc<AtomicBool>);

impl Deliver for Post {
    type Payload = String;
    const KIND: &'static str = "letter";

    async fn submit(&self, _: &Delivery, _: &String) -> Result<Submitted, Failure> {
        if self.0.load(Ordering::Relaxed) {
            return Ok(Submitted::Done);
        }
        Err(Failure::permanent("no one is at home"))
    }
}

#[durable_object]
struct Sender {
    outbox: Outbox,
}

impl DurableObject for Sender {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self {
            outbox: Outbox::open(&ctx, OutboxOptions::default())?,
        })
    }
}

#[rpc]
impl Sender {
    pub(crate) async fn send(&self, text: String) -> Result<()> {
        let sent = Post::enqueue(&self.outbox, &text);
        sent.map(drop).map_err(Error::from_std)
    }

    pub(crate) async fn counts(&self) -> Result<outbox::Counts> {
        self.outbox.counts()
    }
}

struct Town {
    host: RunningHost,
    data: PathBuf,
    at_home: Arc<AtomicBool>,
}

impl Town {
    /// A host with an object that has sent this many letters to no one.
    async fn new(data: &Path, letters: i64) -> Self {
        let at_home = Arc::new(AtomicBool::new(false));
        let host = Host::builder(data)
            .configure(|config| {
                config.server.listen = abide::server::ListenAddress::any_port();
                config.admin.listen = None;
            })
            .with(Registry::new().with(Post(Arc::clone(&at_home))))
            .object::<Sender>()
            .start()
            .await
            .unwrap();
        let town = Self {
            host,
            data: data.to_owned(),
            at_home,
        };
        for letter in 0..letters {
            let sent = town.sender().send(format!("letter {letter}")).await;
            sent.unwrap();
        }
        town.until(|counts| counts.failed == letters).await;
        town
    }

    fn sender(&self) -> Stub<Sender> {
        let senders = self.host.env().object::<Sender>();
        senders.get_by_name("main/office")
    }

    async fn until(&self, so: impl Fn(&outbox::Counts) -> bool) {
        abide_harness::until("the outbox to get there", async || {
            let counts = self.sender().counts().await.unwrap();
            so(&counts).then_some(())
        })
        .await;
    }

    /// What the command prints, or says if it fails.
    async fn abide(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command.args(args).arg("--data").arg(&self.data);
        abide_harness::printed(command).await
    }
}

const OUTBOX: &str = "Sender/main/office";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_any_object_are_seen_sent_again_and_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let town = Town::new(&dir.path().join("data"), 3).await;

    let status = town.abide(&["outbox", "status", OUTBOX]).await.unwrap();
    assert!(status.contains("failed\t3"), "{status}");
    let dead = ["outbox", "list", OUTBOX, "--status", "failed"];
    let list = town.abide(&dead).await.unwrap();
    assert_eq!(list.matches("no one is at home").count(), 3, "{list}");
    let shown = town.abide(&["outbox", "show", OUTBOX, "2"]).await.unwrap();
    assert!(shown.contains("payload\t\"letter 1\""), "{shown}");

    let edit = ["outbox", "edit", OUTBOX, "2", "\"forged\""];
    let refused = town.abide(&edit).await.unwrap_err();
    assert!(refused.contains("`letter`"), "{refused}");

    town.at_home.store(true, Ordering::Relaxed);
    town.abide(&["outbox", "redrive", OUTBOX, "1"])
        .await
        .unwrap();
    town.until(|counts| counts.sent == 1).await;
    town.abide(&["outbox", "discard", OUTBOX, "2"])
        .await
        .unwrap();
    town.abide(&["outbox", "redrive", OUTBOX, "--all"])
        .await
        .unwrap();
    town.until(|counts| (counts.sent, counts.discarded, counts.failed) == (2, 1, 0))
        .await;

    let audit = town.abide(&["audit"]).await.unwrap();
    assert_eq!(audit.matches("operate_component").count(), 4, "{audit}");
    assert!(audit.contains("Sender/main/office"), "{audit}");
    assert!(audit.contains("DELETE outbox/messages/2"), "{audit}");
    town.host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_things_are_reported_and_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let town = Town::new(&dir.path().join("data"), 1).await;
    for (args, says) in [
        (["outbox", "show", OUTBOX, "7"].as_slice(), "message 7"),
        (&["outbox", "status", "Unknown/here"], "the classes are"),
        (&["outbox", "status", "Sender/nobody"], "no object"),
        (&["outbox", "redrive", OUTBOX, "7"], "message 7"),
        (&["outbox", "resume", OUTBOX, "moon"], "no messages"),
    ] {
        let refused = town.abide(args).await.unwrap_err();
        assert!(refused.contains(says), "{args:?}: {refused}");
    }
    town.host.shutdown().await.unwrap();
    let objects = town_objects(&town.data);
    assert!(!objects.contains("nobody"), "{objects}");
}

fn town_objects(data: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    let output = command
        .args(["objects", "list", "--data"])
        .arg(data)
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}
