//! What the owner alone may do.

use abide::server::access::{AccessStore, Operation};
use abide_harness::{Client, Program, SmtpAct, SmtpServer, SmtpStage};
use http::{Method, Request};
use serde_json::json;

use crate::{
    api::World,
    support::{mails, owner, say, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_writes_posts_and_sees_mails() {
    let world = World::new().await;
    let post = json!({ "title": "News", "text": "One.\n\nTwo." }).to_string();
    for (method, path) in [
        (Method::PUT, "/api/posts/news"),
        (Method::GET, "/api/mails"),
        (Method::GET, "/api/mails/1"),
        (Method::DELETE, "/api/mails/1"),
        (Method::POST, "/api/mails/1/redrive"),
    ] {
        let answer = world.client.ask(method, path, &post).await;
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.code(), "not_the_owner", "{path}");
    }
    let made = owner(&world.client, Method::PUT, "/api/posts/news", &post).await;
    assert_eq!(made.status, 201);
    let twice = owner(&world.client, Method::PUT, "/api/posts/news", &post).await;
    assert_eq!(twice.code(), "post_taken");
    let bad = owner(&world.client, Method::PUT, "/api/posts/No%20News", &post).await;
    assert_eq!(bad.code(), "invalid");
    let posts = world.client.get("/api/posts").await.body;
    assert_eq!(posts["posts"][0]["title"], "News");
    assert_eq!(posts["posts"][1]["slug"], "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blog_without_an_owner_shows_no_mails() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let server = Program::new(env!("CARGO_BIN_EXE_blog-comments"), dir.path().join("data"))
        .arg(&format!("--smtp={}", smtp.url()))
        .start();
    let answer = owner(&server.client(), Method::GET, "/api/mails", "").await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.code(), "no_owner");
}

/// What a browser keeps of the answer to a token that was typed.
async fn log_in(client: &Client, token: &str) -> (u16, Option<String>) {
    let body = format!("token={token}");
    let answer = client.ask(Method::POST, "/owner/session", &body).await;
    let cookie = answer.headers.get("set-cookie");
    let cookie = cookie.map(|cookie| cookie.to_str().unwrap().to_owned());
    (answer.status.as_u16(), cookie)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_sends_again_and_discards_what_failed() {
    let world = World::new().await;
    world
        .smtp
        .always(SmtpAct::Refuse(SmtpStage::Recipient, 550));
    for name in ["ada", "grace", "alan", "barbara"] {
        say(&world.client, name, "hello").await;
    }
    until(&world.client, 4, |mail| mail["status"] == "failed").await;
    assert_eq!(world.client.get("/owner").await.status, 401);
    let (status, cookie) = log_in(&world.client, "guess").await;
    assert_eq!((status, cookie), (401, None));
    let (status, cookie) = log_in(&world.client, "owner").await;
    assert_eq!(status, 303);
    let cookie = cookie.unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(
        !cookie.contains("=owner;"),
        "not the token itself: {cookie}"
    );
    let session = cookie.split(';').next().unwrap();
    let with = async |method: Method, path: &str, session: &str| {
        let request = Request::builder()
            .method(method)
            .uri(world.client.url(path));
        let request = request.header("cookie", session).body(String::new().into());
        world.client.send(request.unwrap()).await.unwrap()
    };
    let page = with(Method::GET, "/owner", session).await;
    assert_eq!(page.status, 200);
    let page = page.body.as_str().unwrap();
    for shown in [
        "4 failed",
        "To ada@readers.test",
        "Thanks for a comment on “Hello”",
        "550",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let forged = "owner=0.9999999999999.AAAAAAAAAAAAAAAAAAAAAA";
    for (path, session) in [
        ("/owner", forged),
        ("/owner/redrive", forged),
        ("/owner/discard", ""),
    ] {
        let method = if path == "/owner" {
            Method::GET
        } else {
            Method::POST
        };
        assert_eq!(with(method, path, session).await.status, 401, "{path}");
    }

    world.smtp.always(SmtpAct::Take);
    let failed = mails(&world.client).await;
    let id = |at: usize| failed[at]["id"].as_i64().unwrap();
    let redrive = format!("/owner/mails/{}/redrive", id(0));
    assert_eq!(with(Method::POST, &redrive, session).await.status, 303);
    let discard = format!("/owner/mails/{}/discard", id(1));
    assert_eq!(with(Method::POST, &discard, session).await.status, 303);
    assert_eq!(
        with(Method::POST, "/owner/redrive", session).await.status,
        303
    );
    until(&world.client, 4, |mail| {
        mail["status"] == "sent" || mail["status"] == "discarded"
    })
    .await;
    assert_eq!(world.smtp.received().len(), 3);
    let audit = AccessStore::open(&world.dir.path().join("data")).unwrap();
    let rows = audit.audit(None, 10).unwrap();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            let Operation { who, action, .. } = &row.operation;
            (who.as_str(), action.as_str(), row.outcome.as_deref())
        })
        .collect();
    let of_owner = |action| ("owner of the blog", action, Some("303"));
    assert_eq!(told, ["redrive", "discard", "redrive"].map(of_owner));
    let page = with(Method::GET, "/owner", session).await;
    assert!(page.body.as_str().unwrap().contains("Nothing has failed"));
    let left = with(Method::POST, "/owner/leave", session).await;
    let cookie = left.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("Max-Age=0"), "{cookie}");
}
