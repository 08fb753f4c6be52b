//! A comment whose mails cannot be enqueued is no comment: nothing of it is kept.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::time::Duration;

use crate::support::{comment, mails, owner, until};
use abide::outbox::handlers::SmtpDelivery;
use abide::{Host, server::RunningHost};
use abide_harness::{Client, Nobody, Version};
use blog_comments::{Blog, Site, options, registry, router};
use http::Method;
use serde_json::json;

/// A blog whose outbox takes this many mails, and whose mail server is not there.
async fn blog(max_queued: i64, nobody: &Nobody) -> RunningHost {
    let site = Site {
        title: "Blog".to_owned(),
        url: "http://blog.test".to_owned(),
        from: "blog@blog.test".to_owned(),
        owner_token: Some("owner".to_owned()),
        tag_header: "X-Tag".to_owned(),
    };
    let smtp = SmtpDelivery::new(&format!("smtp://{}", nobody.address())).unwrap();
    Host::open_in_memory()
        .object::<Blog>()
        .with(registry(site.clone(), smtp))
        .with(options(Duration::from_hours(1)).max_queued(max_queued))
        .with(site)
        .router(router)
        .start()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_is_undone_whole_when_one_of_its_mails_is_not_taken() {
    let nobody = Nobody::new();
    let host = blog(2, &nobody).await;
    let client = Client::new(&host.addr().to_string(), Version::Http1);
    let post = json!({
        "title": "News",
        "text": "One.",
        "author": { "name": "edith", "email": "edith@blog.test" },
    });
    let post = owner(&client, Method::PUT, "/api/posts/news", &post.to_string()).await;
    assert_eq!(post.status, 201, "{post:?}");
    let hello = "/api/posts/hello/comments";
    let first = client.post(hello, &comment("ada", "hello")).await;
    assert_eq!(first.status, 201);
    let waiting = |mail: &serde_json::Value| mail["status"] == "queued" && mail["attempts"] == 1;
    let question = until(&client, 1, waiting).await;
    let path = "/api/posts/news/comments";
    // There is room for the question to grace, and none for the notice to edith, which comes last.
    for _ in 0..2 {
        let grace = comment("grace", "hello");
        let refused = client.post(path, &grace).await;
        assert_eq!(refused.code(), "outbox_full", "{refused:?}");
    }
    let thread = client.get("/api/posts/news").await.body;
    assert_eq!(thread["comments"].as_array().unwrap().len(), 0, "{thread}");
    assert_eq!(thread["post"]["comments"], 0);
    assert_eq!(mails(&client).await, question);
    // This post has no followers, and grace has not been asked.
    let elsewhere = client.post(hello, &comment("grace", "hello")).await;
    assert_eq!(elsewhere.status, 201);
    until(&client, 2, |mail| mail["kind"] == "thanks").await;
}
