//! Comments and the pages that show them.

use http::{Method, Request};
use serde_json::json;

use crate::{
    api::{World, told},
    support::{comment, follow, mails, say, try_say, until_sent},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_is_shown_its_author_asked_and_the_others_told() {
    let world = World::new().await;
    follow(&world.client, &world.smtp, "ada", "first").await;
    follow(&world.client, &world.smtp, "grace", "second").await;
    say(&world.client, "ada", "third").await;
    let sent = until_sent(&world.client, 4).await;
    let mails = world.smtp.received();
    assert_eq!(mails.len(), 4);
    assert_eq!(
        told(&mails, "Thank you"),
        ["ada@readers.test", "grace@readers.test"],
        "once each, for the first comment"
    );
    assert_eq!(told(&mails, "grace commented"), ["ada@readers.test"]);
    assert_eq!(told(&mails, "ada commented"), ["grace@readers.test"]);
    assert!(sent.iter().all(|mail| mail["attempts"] == 1), "{sent:#?}");

    let thread = world.client.get("/api/posts/hello").await.body;
    let comments = thread["comments"].as_array().unwrap();
    let texts: Vec<_> = comments.iter().map(|comment| &comment["text"]).collect();
    assert_eq!(texts, ["first", "second", "third"]);
    assert_eq!(thread["post"]["comments"], 3);
    assert!(
        !thread.to_string().contains("readers.test"),
        "addresses are not shown"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_key_adds_neither_a_comment_nor_a_mail() {
    let world = World::new().await;
    let ada = comment("ada", "hello");
    let first = try_say(&world.client, &ada, "k").await.unwrap();
    assert_eq!(first.status, 201);
    assert_eq!(first.body["repeated"], false);
    let again = try_say(&world.client, &ada, "k").await.unwrap();
    assert_eq!(again.status, 200);
    assert_eq!(again.body["id"], first.body["id"]);
    let bye = comment("ada", "bye");
    let other = try_say(&world.client, &bye, "k").await.unwrap();
    assert_eq!(other.status, 422);
    assert_eq!(other.code(), "idempotency_key_reused");
    let upper = json!({ "name": "ada", "email": "ADA@readers.test", "text": "hello" });
    let same = try_say(&world.client, &upper, "k").await.unwrap();
    assert_eq!(same.status, 200, "the same address");
    until_sent(&world.client, 1).await;
    assert_eq!(world.smtp.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_comment_is_refused_and_nothing_of_it_is_kept() {
    let world = World::new().await;
    let long = "x".repeat(blog_comments::MAX_TEXT + 1);
    for bad in [
        json!({ "name": "", "email": "a@readers.test", "text": "hi" }),
        json!({ "name": "ada", "email": "ada", "text": "hi" }),
        json!({ "name": "ada", "email": "a@b.test\r\nBcc: c@d.test", "text": "hi" }),
        json!({ "name": "ada", "email": "a@readers.test", "text": " " }),
        json!({ "name": "ada", "email": "a@readers.test", "text": long }),
    ] {
        let answer = try_say(&world.client, &bad, "k").await.unwrap();
        assert_eq!(answer.status, 400, "{bad}");
        assert_eq!(answer.code(), "invalid", "{bad}");
    }
    let path = "/api/posts/hello/comments";
    let wrong = world.client.post(path, &json!({ "name": 1 })).await;
    assert_eq!(wrong.code(), "invalid_body");
    let broken = world.client.ask(Method::POST, path, "{").await;
    assert_eq!(broken.code(), "malformed_json");
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = Request::post(world.client.url(path))
            .header("content-type", kind)
            .header("sec-fetch-site", "same-origin");
        let request = request.body(comment("ada", "hi").to_string().into());
        let answer = world.client.send(request.unwrap()).await.unwrap();
        assert_eq!(answer.code(), "unsupported_media_type", "{kind}");
    }
    let long_key = "k".repeat(blog_comments::MAX_MARK + 1);
    let ada = comment("ada", "hi");
    let answer = try_say(&world.client, &ada, &long_key).await.unwrap();
    assert_eq!(answer.code(), "invalid");
    let nowhere = world.client.post("/api/posts/nowhere/comments", &ada).await;
    assert_eq!(nowhere.code(), "no_such_post");
    let thread = world.client.get("/api/posts/hello").await.body;
    assert_eq!(thread["comments"], json!([]));
    assert!(mails(&world.client).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_escape_comments_and_keep_the_input_of_a_refused_one() {
    let world = World::new().await;
    let form = |text: &str| {
        Request::builder()
            .method(Method::POST)
            .uri(world.client.url("/posts/hello/comments"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(text.to_owned().into())
            .unwrap()
    };
    let evil =
        "name=%3Cb%3Eada&email=ada%40readers.test&text=%3Cscript%3Ealert(1)%3C%2Fscript%3E&mark=1";
    for _ in 0..2 {
        let posted = world.client.send(form(evil)).await.unwrap();
        assert_eq!(posted.status, 303);
        let to = &posted.headers["location"];
        assert_eq!(
            to, "/posts/hello?with=1#comment-1",
            "the same when it is sent again"
        );
    }
    let page = world.client.get("/posts/hello").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"));
    let page = page.body.as_str().unwrap();
    assert!(
        page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{page}"
    );
    assert!(page.contains("&lt;b&gt;ada"), "{page}");
    assert!(!page.contains("<script"), "no page has a script");

    let invalid = form("name=ada&email=invalid&text=%3Ckept%3E&mark=2");
    let refused = world.client.send(invalid).await.unwrap();
    assert_eq!(refused.status, 422);
    let page = refused.body.as_str().unwrap();
    assert!(page.contains("An address must look like"), "{page}");
    assert!(page.contains("&lt;kept&gt;</textarea>"), "{page}");
    let part = world.client.send(form("name=ada")).await.unwrap();
    assert_eq!(part.status, 400);
    assert_eq!(world.client.get("/posts/nowhere").await.status, 404);
    let front = world.client.get("/").await.body;
    assert!(front.as_str().unwrap().contains("1 comment<"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_with_a_page_is_told_as_a_page() {
    let world = World::new().await;
    // A mail program that cuts the link leaves no token.
    for path in [
        "/unsubscribe",
        "/confirm",
        "/posts/hello/comments",
        "/nowhere",
    ] {
        let answer = world.client.get(path).await;
        let kind = answer.headers["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/html"), "{path}: {kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_a_comment_shows_it_also_when_many_came_after_it() {
    let world = World::new().await;
    let mut link = String::new();
    for number in 0..102 {
        // The form answers with the address that mails have, too.
        let body = format!("name=ada&email=ada%40readers.test&text={number}&mark={number}");
        let request = Request::post(world.client.url("/posts/hello/comments"))
            .body(body.into())
            .unwrap();
        let posted = world.client.send(request).await.unwrap();
        if number == 0 {
            link = posted.headers["location"].to_str().unwrap().to_owned();
        }
    }
    let (path, anchor) = link.split_once('#').unwrap();
    let page = world.client.get(path).await;
    let page = page.body.as_str().unwrap();
    assert!(page.contains(&format!("id=\"{anchor}\"")), "{link}");
}
