//! `abide workflow` and `abide queue`, on a program that has no line of code for them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    Host,
    prelude::*,
    queue::{self, Batch, Queue, QueueMessage, Queues},
    server::{ListenAddress, RunningHost, access::AccessStore},
    workflow::{self, Context, Failure, RetryPolicy, Workflow, Workflows},
};

/// Whether mails are taken.
#[derive(Clone, Default)]
struct Mended(Arc<AtomicBool>);

impl Mended {
    fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

const A_DAY: Duration = Duration::from_hours(24);

/// Sends a mail, and waits for an answer.
struct Signup(Mended);

impl Workflow for Signup {
    type Input = String;
    type Output = String;
    const NAME: &'static str = "signup";

    async fn run(&self, context: Context, name: String) -> Result<String, Failure> {
        let is_mended = self.0.is();
        let sent = async move |_| {
            if is_mended {
                Ok(())
            } else {
                Err(Failure::permanent("the mail\u{7} server is gone"))
            }
        };
        context.step("send mail", RetryPolicy::once(), sent).await?;
        let answer: String = context.wait_for_event("answer", A_DAY).await?;
        Ok(format!("{name}: {answer}"))
    }
}

async fn start(data: &Path, mended: &Mended) -> RunningHost {
    let takes = mended.clone();
    let take = queue::function(async move |batch: &Batch<String>| {
        for message in batch.messages().iter().filter(|_| !takes.is()) {
            message.refuse("no such address");
        }
        Ok(())
    });
    let options = queue::QueueOptions::default().shards(2);
    let queues = Queues::new().with("mails", options, take);
    let host = Host::builder(data).configure(|config| {
        config.server.listen = ListenAddress::any_port();
        config.admin.listen = None;
    });
    let workflows = workflow::WorkflowRegistry::new().with(Signup(mended.clone()));
    let host = workflow::install(host, workflows, workflow::WorkflowOptions::default());
    queue::install(host, queues).start().await.unwrap()
}

/// What the command prints, or says if it fails.
async fn abide(data: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    abide_harness::printed(command).await
}

/// Waits until a command prints this.
async fn until(data: &Path, args: &[&str], wanted: &str) {
    abide_harness::until(wanted, async || {
        let printed = abide(data, args).await.unwrap();
        printed.contains(wanted).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_of_workflows_are_seen_and_told_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mended = Mended::default();
    let host = start(&data, &mended).await;
    let signups = Workflows::<Signup>::new(host.env());
    for id in ["ada", "b/c & d"] {
        signups.start(id, &id.to_owned()).await.unwrap();
        until(&data, &["workflow", "show", "signup", id], "status: failed").await;
    }
    let list = abide(&data, &["workflow", "list", "signup"]).await.unwrap();
    assert_eq!(list.lines().count(), 3, "{list}");
    assert!(list.contains("b/c & d\tfailed\t"), "{list}");
    let running = ["workflow", "list", "signup", "--status", "running"];
    assert_eq!(abide(&data, &running).await.unwrap().lines().count(), 1);
    let steps = abide(&data, &["workflow", "steps", "signup", "ada"]).await;
    let steps = steps.unwrap();
    assert!(
        steps.contains("send mail\t1\tstep\tfailed\t1\t-\t"),
        "{steps}"
    );
    assert!(steps.contains("the mail\\u{7} server is gone"), "{steps}");

    mended.0.store(true, Ordering::Relaxed);
    let again = ["workflow", "restart", "signup", "b/c & d", "send mail"];
    abide(&data, &again).await.unwrap();
    let pause = ["workflow", "pause", "signup", "b/c & d"];
    let paused = abide(&data, &pause).await.unwrap();
    assert!(paused.contains("status: paused"), "{paused}");
    let resume = ["workflow", "resume", "signup", "b/c & d"];
    abide(&data, &resume).await.unwrap();
    let cancel = [
        "workflow", "cancel", "signup", "b/c & d", "--reason", "too late",
    ];
    abide(&data, &cancel).await.unwrap();
    let show = ["workflow", "show", "signup", "b/c & d"];
    until(&data, &show, "status: canceled").await;

    for (args, why) in [
        (&["pause", "signup", "ada"][..], "has finished (failed)"),
        (
            &["show", "signup", "unknown"],
            "workflow `signup` has no instance `unknown`",
        ),
        (&["restart", "signup", "ada", "fly"], "no step `fly`"),
        (&["show", "sign", "ada"], "workflow `sign` has no instance"),
    ] {
        let refused = abide(&data, &[&["workflow"], args].concat()).await;
        let refused = refused.unwrap_err();
        assert!(refused.contains(why), "{args:?}: {refused}");
    }
    let audit = AccessStore::open(&data).unwrap().audit(None, 20).unwrap();
    let told = |detail: &str| {
        let mut rows = audit.iter();
        rows.any(|row| row.operation.detail.as_deref() == Some(detail))
    };
    assert!(
        told("POST workflow/restart") && told("POST workflow/cancel"),
        "{audit:?}"
    );
    host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_queues_are_seen_consumed_again_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mended = Mended::default();
    let host = start(&data, &mended).await;
    let mails = Queue::new(host.env(), "mails").unwrap();
    let mut ids = Vec::new();
    for key in ["a", "b", "c", "d"] {
        let message = QueueMessage::new(&key).unwrap();
        let message = QueueMessage {
            key: Some(key.to_owned()),
            ..message
        };
        ids.push(mails.send(message).await.unwrap().id.to_string());
    }
    let letters = async || {
        abide(&data, &["queue", "dead-letters", "mails"])
            .await
            .unwrap()
    };
    abide_harness::until("dead letters", async || {
        (letters().await.lines().count() == 5).then_some(())
    })
    .await;
    let listed = letters().await;
    assert!(
        ids.iter().all(|id| listed.contains(&format!("{id}\t"))),
        "{listed}"
    );
    assert!(listed.contains("no such address"), "{listed}");
    let shown = abide(&data, &["queue", "show", "mails"]).await.unwrap();
    let dead: u32 = shown
        .lines()
        .skip(1)
        .map(|line| line.split('\t').nth(3).unwrap().parse::<u32>().unwrap())
        .sum();
    assert_eq!(dead, 4, "{shown}");

    mended.0.store(true, Ordering::Relaxed);
    let paused = abide(&data, &["queue", "pause", "mails"]).await.unwrap();
    assert_eq!(paused.matches("\tpaused\t").count(), 2, "{paused}");
    abide(&data, &["queue", "redrive", "mails", &ids[0]])
        .await
        .unwrap();
    assert_eq!(mails.counts().await.unwrap().messages, 1);
    let resumed = abide(&data, &["queue", "resume", "mails"]).await.unwrap();
    assert_eq!(resumed.matches("\trunning\t").count(), 2, "{resumed}");
    abide_harness::until("the message is consumed", async || {
        (mails.counts().await.unwrap().consumed == 1).then_some(())
    })
    .await;
    abide(&data, &["queue", "discard", "mails", &ids[1]])
        .await
        .unwrap();
    let all = abide(&data, &["queue", "redrive", "mails", "--all"]).await;
    assert_eq!(all.unwrap(), "2 redriven\n");
    abide_harness::until("the others are consumed", async || {
        (mails.counts().await.unwrap().consumed == 3).then_some(())
    })
    .await;

    let twice = abide(&data, &["queue", "discard", "mails", &ids[1]]).await;
    let twice = twice.unwrap_err();
    assert!(
        twice.contains(&format!("no dead letter {}", ids[1])),
        "{twice}"
    );
    let nothing = abide(&data, &["queue", "show", "letters"])
        .await
        .unwrap_err();
    assert!(
        nothing.contains("`letters` has received no messages"),
        "{nothing}"
    );
    host.shutdown().await.unwrap();
}
