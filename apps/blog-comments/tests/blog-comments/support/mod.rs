//! The real binary, and how tests talk to it.

use std::path::Path;

use abide_harness::{Answer, Broken, Client, Mail, Program, SmtpServer};
use http::{Method, Request};
use serde_json::{Value, json};

const TOKEN: &str = "owner";

/// `blog-comments serve` on a data directory.
pub(crate) fn program(data: &Path, smtp: &str) -> Program {
    Program::new(env!("CARGO_BIN_EXE_blog-comments"), data)
        .arg(&format!("--smtp={smtp}"))
        .arg("--url=http://blog.test")
        .arg(&format!("--owner-token={TOKEN}"))
        .arg("--retry-ms=50")
        .arg("--client-comments=1000000")
        .arg("--address-comments=1000000")
}

/// A comment on the first post.
pub(crate) fn comment(name: &str, text: &str) -> Value {
    json!({ "name": name, "email": format!("{name}@readers.test"), "text": text })
}

/// Posts a comment on the first post under a key; the answer may get lost.
pub(crate) async fn try_say(client: &Client, comment: &Value, key: &str) -> Result<Answer, Broken> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(client.url("/api/posts/hello/comments"))
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(comment.to_string().into())?;
    client.send(request).await
}

/// Posts a comment on the first post; its id.
pub(crate) async fn say(client: &Client, name: &str, text: &str) -> i64 {
    let path = "/api/posts/hello/comments";
    let answer = client.post(path, &comment(name, text)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["id"].as_i64().expect("an id")
}

/// Posts a comment on the first post whose author wants to hear about answers; its id.
pub(crate) async fn follow(client: &Client, smtp: &SmtpServer, name: &str, text: &str) -> i64 {
    let id = say(client, name, text).await;
    confirm(client, smtp, &format!("{name}@readers.test")).await;
    id
}

/// Opens the newest mail that asks this address, and confirms.
pub(crate) async fn confirm(client: &Client, smtp: &SmtpServer, to: &str) {
    let asked = |mail: &&Mail| {
        let message = mail.parse();
        let text = message.body_text(0).unwrap_or_default();
        mail.to == [to] && text.contains("http://blog.test/confirm")
    };
    let mail = abide_harness::until(&format!("{to} to be asked"), async || {
        smtp.received().iter().rfind(asked).cloned()
    })
    .await;
    let done = client.ask(Method::POST, &link(&mail, "confirm"), "").await;
    assert_eq!(done.status, 200, "{done:?}");
}

/// The path and query of a mail's link to a page of this name.
pub(crate) fn link(mail: &Mail, page: &str) -> String {
    let text = mail.parse().body_text(0).expect("a text").into_owned();
    let from = text.find(&format!("http://blog.test/{page}"));
    let link = text[from.expect("a link")..].split_whitespace().next();
    link.and_then(|link| link.strip_prefix("http://blog.test"))
        .expect("the blog's address")
        .to_owned()
}

/// All comments on the first post, oldest first.
pub(crate) async fn comments(client: &Client) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut query = String::new();
    loop {
        let answer = client.get(&format!("/api/posts/hello{query}")).await;
        let older = answer.body["comments"].as_array().expect("comments");
        all.splice(0..0, older.iter().cloned());
        match answer.body["older"].as_i64() {
            Some(older) => query = format!("?before={older}"),
            None => return all,
        }
    }
}

/// A request as the owner.
pub(crate) async fn owner(client: &Client, method: Method, path: &str, body: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(client.url(path))
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("content-type", "application/json")
        .body(body.to_owned().into())
        .expect("a request");
    client.send(request).await.expect("the server answers")
}

/// The mails of the outbox, all of them, newest first.
pub(crate) async fn mails(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut query = String::new();
    loop {
        let answer = owner(client, Method::GET, &format!("/api/mails{query}"), "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        all.extend(answer.body["mails"].as_array().expect("mails").clone());
        match answer.body["next"].as_i64() {
            Some(next) => query = format!("?before={next}"),
            None => return all,
        }
    }
}

/// Waits until there are this many mails and all are sent; returns them.
pub(crate) async fn until_sent(client: &Client, count: usize) -> Vec<Value> {
    until(client, count, |mail| mail["status"] == "sent").await
}

/// Waits until there are this many mails, and this is true of each.
pub(crate) async fn until(
    client: &Client,
    count: usize,
    so: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    abide_harness::until(&format!("{count} such mails"), async || {
        let mails = mails(client).await;
        (mails.len() == count && mails.iter().all(&so)).then_some(mails)
    })
    .await
}
