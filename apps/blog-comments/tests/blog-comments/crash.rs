//! `kill -9` at every point of a comment's way to its mails: nothing is lost, and a mail is sent twice only if the answer
//! to the first was lost, under the same `Message-ID`.
//!
//! Before the commit the process is killed while the request is on its way, so nothing has been written: that a comment is
//! undone whole if one of its mails cannot be enqueued is shown in `one_transaction.rs`, and that a transaction is whole
//! after a crash in the midst of its commit by the storage's own tests.
//!
//! The last test kills at random: `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of
//! moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::support::{comment, comments, follow, mails, owner, program, say, try_say, until_sent};
use abide_harness::{Client, Mail, Random, Server, SmtpAct, SmtpServer, SmtpStage, setting};
use http::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

const ADA: &str = "ada@readers.test";

/// A mail server that lives on, and a data directory.
struct World {
    dir: TempDir,
    smtp: SmtpServer,
}

impl World {
    async fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            smtp: SmtpServer::start().await,
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn start(&self) -> Server {
        program(&self.data(), &self.smtp.url()).start()
    }
}

fn ids(mails: &[Mail]) -> Vec<String> {
    mails.iter().map(Mail::message_id).collect()
}

/// Whether a mail's history includes an answer that was lost.
async fn was_unknown(client: &Client, mail: &Value) -> bool {
    let path = format!("/api/mails/{}", mail["id"]);
    let answer = owner(client, Method::GET, &path, "").await;
    let history = answer.body["history"].as_array().expect("a history");
    history.iter().any(|change| change["event"] == "unknown")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_comment_causes_no_mail_until_it_is_sent_again() {
    let world = World::new().await;
    let server = world.start();
    let ada = comment("ada", "hello");
    let body = ada.to_string();
    let head = format!(
        "POST /api/posts/hello/comments HTTP/1.1\r\nhost: blog\r\nidempotency-key: k\r\n\
         content-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut going = [0; 12];
    stream.read_exact(&mut going).await.unwrap();
    assert_eq!(&going, b"HTTP/1.1 100", "the handler reads the body");
    let most = &body.as_bytes()[..body.len() - 1];
    stream.write_all(most).await.unwrap();
    server.kill();

    let server = world.start();
    let client = server.client();
    assert!(comments(&client).await.is_empty());
    assert!(mails(&client).await.is_empty());
    assert_eq!(try_say(&client, &ada, "k").await.unwrap().status, 201);
    until_sent(&client, 1).await;
    assert_eq!(world.smtp.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_mails_are_sent_once_after_a_restart() {
    let World { dir, smtp } = World::new().await;
    let data = dir.path().join("data");
    let (address, url) = (smtp.address(), smtp.url());
    let server = program(&data, &url).start();
    follow(&server.client(), &smtp, "ada", "hello").await;
    until_sent(&server.client(), 1).await;
    drop(smtp);
    say(&server.client(), "grace", "hello").await;
    server.kill();

    let smtp = SmtpServer::start_at(&address, 1 << 20).await;
    let server = program(&data, &url).start();
    // No request comes: the alarm wakes the blog.
    let received = smtp.wait_for(2).await;
    until_sent(&server.client(), 3).await;
    assert_eq!(smtp.received().len(), 2);
    let different: BTreeSet<_> = ids(&received).into_iter().collect();
    assert_eq!(different.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_whose_answer_was_lost_is_sent_again_under_the_same_message_id() {
    let world = World::new().await;
    world.smtp.script([SmtpAct::Stall(SmtpStage::End)]);
    let server = world.start();
    say(&server.client(), "ada", "hello").await;
    world.smtp.wait_for(1).await;
    server.kill();

    let server = world.start();
    let received = world.smtp.wait_for(2).await;
    let sent = until_sent(&server.client(), 1).await;
    assert_eq!(world.smtp.received().len(), 2);
    assert_eq!(received[0].message_id(), received[1].message_id());
    assert_eq!(received[0].data, received[1].data, "byte by byte");
    assert_eq!(
        (&received[0].to[0], &received[1].to[0]),
        (&ADA.to_owned(), &ADA.to_owned())
    );
    assert_eq!(sent[0]["attempts"], 2);
    assert!(was_unknown(&server.client(), &sent[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_was_written_down_as_sent_is_not_sent_again() {
    let world = World::new().await;
    let server = world.start();
    follow(&server.client(), &world.smtp, "ada", "hello").await;
    let before = until_sent(&server.client(), 1).await;
    server.kill();

    let server = world.start();
    let client = server.client();
    assert_eq!(mails(&client).await, before);
    // Whatever the outbox would send again goes out before, or with, the mails of another comment.
    say(&client, "grace", "hello").await;
    until_sent(&client, 3).await;
    let received = world.smtp.received();
    assert_eq!(received.len(), 3);
    let asked = received
        .iter()
        .filter(|mail| mail.to == [ADA] && mail.subject().contains("Thank you"));
    assert_eq!(asked.count(), 1);
}

const READERS: [&str; 4] = ["ada", "grace", "alan", "barbara"];
const MOST_COMMENTS: u32 = 25;

/// What a reader said that was not answered, by its key.
type Unanswered = Option<(String, Value)>;

/// Says one thing after the other until the server is gone.
async fn chatter(
    client: Client,
    name: &'static str,
    mut next: Unanswered,
    numbers: Arc<AtomicU32>,
    answered: Arc<watch::Sender<u32>>,
) -> Unanswered {
    loop {
        let (key, said) = next.take().unwrap_or_else(|| {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            (
                format!("key {number}"),
                comment(name, &format!("text {number}")),
            )
        });
        match try_say(&client, &said, &key).await {
            Ok(answer) => assert!(answer.status.is_success(), "{answer:?}"),
            Err(_killed) => return Some((key, said)),
        }
        answered.send_modify(|count| *count += 1);
    }
}

/// What the mail server does with the next mails: fewer fail than would open its circuit, which would stay open for
/// longer than this test waits.
fn faults(random: &mut Random) -> Vec<SmtpAct> {
    let mut acts = vec![SmtpAct::Take; 40];
    for bad in [
        SmtpAct::Refuse(SmtpStage::Recipient, 451),
        SmtpAct::Drop(SmtpStage::Data),
        SmtpAct::Drop(SmtpStage::End),
    ] {
        for _ in 0..2 {
            acts[random.below(40) as usize] = bad;
        }
    }
    acts
}

/// What a mail is about: whom it goes to, and which comment, unless it thanks for the first.
type About = (String, Option<i64>);

fn about(mail: &Mail) -> About {
    let message = mail.parse();
    let text = message.body_text(0).unwrap();
    let comment = text.split_once("#comment-").map(|(_, rest)| {
        let id: String = rest.chars().take_while(char::is_ascii_digit).collect();
        id.parse().unwrap()
    });
    (mail.to[0].clone(), comment)
}

/// The mails that comments must cause, in whatever order they were answered: the first comment of each reader is
/// followed by their confirmation before the next comment.
fn expected(comments: &[Value]) -> BTreeSet<About> {
    let mut followers = BTreeSet::new();
    let mut expected = BTreeSet::new();
    for comment in comments {
        let id = comment["id"].as_i64().unwrap();
        let author = format!("{}@readers.test", comment["name"].as_str().unwrap());
        for follower in followers.iter().filter(|follower| **follower != author) {
            expected.insert((String::clone(follower), Some(id)));
        }
        if followers.insert(author.clone()) {
            expected.insert((author, None));
        }
    }
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_comment_s_mails_are_sent_across_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let seed = setting("ABIDE_CRASH_SEED", 0xB106);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let world = World::new().await;
    let numbers = Arc::new(AtomicU32::new(0));
    let server = world.start();
    for name in READERS {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        follow(
            &server.client(),
            &world.smtp,
            name,
            &format!("text {number}"),
        )
        .await;
    }
    server.kill();
    let mut unanswered = vec![Unanswered::None; READERS.len()];
    for _ in 0..rounds {
        world.smtp.always(SmtpAct::Take);
        world.smtp.script(faults(&mut random));
        let server = world.start();
        let answered = Arc::new(watch::channel(0).0);
        let mut readers = Vec::new();
        for (name, next) in READERS.into_iter().zip(unanswered) {
            let (numbers, answered) = (Arc::clone(&numbers), Arc::clone(&answered));
            let talk = chatter(server.client(), name, next, numbers, answered);
            readers.push(tokio::spawn(talk));
        }
        let moment = 1 + random.below(MOST_COMMENTS);
        let mut answers = answered.subscribe();
        answers.wait_for(|count| *count >= moment).await.unwrap();
        server.kill();
        unanswered = Vec::new();
        for reader in readers {
            unanswered.push(reader.await.unwrap());
        }
    }

    let server = world.start();
    let client = server.client();
    for (key, said) in unanswered.into_iter().flatten() {
        let answer = try_say(&client, &said, &key).await.unwrap();
        assert!(answer.status.is_success(), "{answer:?}");
    }
    let comments = comments(&client).await;
    let said = numbers.load(Ordering::Relaxed) as usize;
    assert_eq!(comments.len(), said, "seed {seed}: each comment once");
    let texts: BTreeSet<_> = comments
        .iter()
        .map(|comment| comment["text"].to_string())
        .collect();
    assert_eq!(texts.len(), said);

    let expected = expected(&comments);
    let rows = until_sent(&client, expected.len()).await;
    let mut sent: BTreeMap<About, Vec<Mail>> = BTreeMap::new();
    for mail in world.smtp.received() {
        sent.entry(about(&mail)).or_default().push(mail);
    }
    let about: BTreeSet<_> = sent.keys().cloned().collect();
    assert_eq!(
        about, expected,
        "seed {seed}: no mail is lost, none is made up"
    );
    let mut repeats = 0;
    for (about, mails) in &sent {
        let ids: BTreeSet<_> = ids(mails).into_iter().collect();
        assert_eq!(ids.len(), 1, "{about:?} has one Message-ID");
        if mails.len() > 1 {
            repeats += 1;
            let id = ids.first().unwrap();
            let (key, _) = id.split_once('@').unwrap();
            let row = rows.iter().find(|row| row["idempotency_key"] == key);
            assert!(
                was_unknown(&client, row.unwrap()).await,
                "seed {seed}: {about:?} was repeated for no reason"
            );
        }
    }
    assert!(server.stop().success(), "a clean stop");
    println!(
        "{said} comments, {} mails, {repeats} of them more than once",
        sent.len()
    );
}
