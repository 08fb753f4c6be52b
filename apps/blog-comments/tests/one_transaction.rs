//! A comment whose mails cannot be enqueued is no comment: nothing of it is kept.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use std::time::Duration;

use abide::{Host, server::RunningHost};
use abide_harness::{Client, Nobody, Version};
use abide_patterns::{
    deliver::SmtpDelivery,
    outbox::{self, Options},
};
use blog_comments::{BINDING, Blog, Site, options, registry, router};
use support::{comment, mails, until};

/// A blog whose outbox takes so many mails, and whose mail server is not there.
async fn blog(max_queued: i64, nobody: &Nobody) -> RunningHost {
    let site = Site {
        title: "Blog".to_owned(),
        url: "http://blog.test".to_owned(),
        from: "blog@blog.test".to_owned(),
        owner_token: Some("owner".to_owned()),
    };
    let smtp = SmtpDelivery::new(&format!("smtp://{}", nobody.address())).unwrap();
    Host::open_in_memory()
        .object_with::<Blog>(BINDING, outbox::class_options())
        .with(registry(site.clone(), smtp))
        .with(Options {
            max_queued,
            ..options(Duration::from_hours(1))
        })
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
    let path = "/api/posts/hello/comments";
    let ada = comment("ada", "hello");
    assert_eq!(client.post(path, &ada).await.status, 201);
    let waiting = |mail: &serde_json::Value| mail["status"] == "queued" && mail["attempts"] == 1;
    let thanks = until(&client, 1, waiting).await;
    // There is room for the notice to ada, and none for the thanks to grace, which come last.
    for _ in 0..2 {
        let grace = comment("grace", "hello");
        let refused = client.post(path, &grace).await;
        assert_eq!(refused.code(), "outbox_full", "{refused:?}");
    }
    let thread = client.get("/api/posts/hello").await.body;
    assert_eq!(thread["comments"].as_array().unwrap().len(), 1, "{thread}");
    assert_eq!(thread["post"]["comments"], 1);
    assert_eq!(mails(&client).await, thanks);
    let again = client.post(path, &comment("ada", "again")).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(mails(&client).await, thanks, "grace follows nothing");
}
