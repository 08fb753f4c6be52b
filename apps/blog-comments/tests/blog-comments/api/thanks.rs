//! The thank-you mail after a member's first comment.

use std::{sync::Arc, time::Duration};

use abide::{Host, clock::TestClock, outbox::handlers::SmtpDelivery};
use abide_harness::{
    Client, Mail, SmtpAct, SmtpServer, SmtpStage, Version, mail_parser::MimeHeaders,
};
use blog_comments::{Blog, Site, options, registry, router};
use http::Method;
use serde_json::{Value, json};

use crate::{
    api::{World, header, told},
    support::{
        comment, comments, confirm, follow, link, mails, owner, program, say, try_say, until,
        until_sent,
    },
};

/// The thank-you mails as the owner sees them.
async fn thanks(client: &Client) -> Vec<Value> {
    let answer = owner(client, Method::GET, "/api/thanks", "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["thanks"].as_array().expect("a list").clone()
}

/// Who was thanked, in the outbox.
async fn thanked(client: &Client) -> usize {
    let mails = mails(client).await;
    mails.iter().filter(|mail| mail["kind"] == "thanks").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_comment_is_thanked_for_with_a_picture_and_a_tag() {
    let world = World::new().await;
    say(&world.client, "ada", "hello").await;
    say(&world.client, "ada", "again").await;
    until_sent(&world.client, 1).await;
    let received = world.smtp.received();
    let [mail] = &*received else {
        panic!("one mail, not {}", received.len());
    };
    assert_eq!(mail.to, ["ada@readers.test"]);
    assert_eq!(mail.subject(), "Thank you for your comment on “Hello”");
    assert_eq!(header(mail, "X-Tag"), "thanks");

    // As it is on the wire: the picture and the HTML that shows it are parts of one `multipart/related`.
    let wire = String::from_utf8(mail.data.clone()).unwrap();
    let (_, related) = wire.split_once("Content-Type: multipart/related;").unwrap();
    let boundary = related.split('"').nth(1).unwrap();
    let parts: Vec<&str> = related.split(&format!("--{boundary}")).collect();
    let [_, html, picture, end] = &*parts else {
        panic!("two parts, not {}: {related}", parts.len());
    };
    assert!(html.contains("Content-Type: text/html"), "{html}");
    assert!(picture.contains("Content-ID: <mark>\r\n"), "{picture}");
    assert!(picture.contains("Content-Disposition: inline"), "{picture}");
    assert!(picture.contains("Content-Type: image/png\r\n"), "{picture}");
    assert!(end.starts_with("--"), "{end}");
    let message = mail.parse();
    let html = message.body_html(0).unwrap();
    assert_eq!(html.matches("src=\"cid:mark\"").count(), 2, "{html}");
    let picture = message.parts.last().unwrap();
    assert_eq!(picture.content_id(), Some("mark"));
    assert_eq!(
        picture.contents(),
        include_bytes!("../../../assets/mark.png")
    );

    let done = world
        .client
        .ask(Method::POST, &link(mail, "confirm"), "")
        .await;
    assert_eq!(done.status, 200, "it also asks for confirmation: {done:?}");
    let shown = thanks(&world.client).await;
    assert_eq!(shown.len(), 1);
    assert_eq!(
        (&shown[0]["email"], &shown[0]["state"]),
        (&json!("ada@readers.test"), &json!("sent"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_comments_that_race_and_repeat_are_thanked_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let data = dir.path().join("data");
    let server = program(&data, &smtp.url()).start();
    let client = server.client();
    let said: Vec<Value> = (0..8)
        .map(|number| comment("ada", &format!("text {number}")))
        .collect();
    let all = said.iter().enumerate().flat_map(|(number, said)| {
        let client = server.client();
        (0..2).map(move |_| {
            let (client, said) = (client.clone(), said.clone());
            tokio::spawn(async move { try_say(&client, &said, &format!("k{number}")).await })
        })
    });
    for answer in all.collect::<Vec<_>>() {
        assert!(answer.await.unwrap().unwrap().status.is_success());
    }
    assert_eq!(thanked(&client).await, 1);
    drop(client);
    server.kill();

    let server = program(&data, &smtp.url()).start();
    let client = server.client();
    let again = try_say(&client, &said[0], "k0").await.unwrap();
    assert_eq!(again.status, 200);
    // Who has confirmed may be written to at any time.
    confirm(&client, &smtp, "ada@readers.test").await;
    say(&client, "ada", "after the crash").await;
    assert_eq!(thanked(&client).await, 1);
    until_sent(&client, 1).await;
    let ids: std::collections::BTreeSet<String> =
        smtp.received().iter().map(Mail::message_id).collect();
    assert_eq!(ids.len(), 1, "one mail, under one id");
    assert_eq!(thanks(&client).await[0]["state"], "sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_comments_were_removed_is_not_thanked_again() {
    let world = World::new().await;
    let said = comment("ada", "hello");
    let first = try_say(&world.client, &said, "k").await.unwrap();
    let id = &first.body["id"];
    confirm(&world.client, &world.smtp, "ada@readers.test").await;
    let path = format!("/api/posts/hello/comments/{id}");
    let removed = owner(&world.client, Method::DELETE, &path, "").await;
    assert_eq!(removed.status, 204, "{removed:?}");
    let thread = world.client.get("/api/posts/hello").await.body;
    assert_eq!(
        (&thread["comments"], &thread["post"]["comments"]),
        (&json!([]), &json!(0))
    );
    let twice = owner(&world.client, Method::DELETE, &path, "").await;
    assert_eq!(twice.code(), "no_such_comment");

    let again = try_say(&world.client, &said, "k").await.unwrap();
    assert_eq!(again.status, 200);
    assert_eq!(&again.body["id"], id, "it does not come back");
    assert!(comments(&world.client).await.is_empty());
    say(&world.client, "ada", "something else").await;
    assert_eq!(thanked(&world.client).await, 1);
    until_sent(&world.client, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_comment_causes_no_mail_that_was_not_sent_yet() {
    let world = World::new().await;
    follow(&world.client, &world.smtp, "ada", "hello").await;
    // The notice to ada waits for its second attempt.
    world
        .smtp
        .always(SmtpAct::Refuse(SmtpStage::Recipient, 451));
    let id = say(&world.client, "grace", "regretted").await;
    until(&world.client, 3, |mail| {
        mail["status"] == "sent" || mail["attempts"].as_i64() >= Some(1)
    })
    .await;
    let path = format!("/api/posts/hello/comments/{id}");
    let removed = owner(&world.client, Method::DELETE, &path, "").await;
    assert_eq!(removed.status, 204, "{removed:?}");
    // It ends although the relay refuses, because its next attempt sends nothing. An attempt that runs may still send.
    until(&world.client, 3, |mail| {
        mail["kind"] != "notice" || mail["status"] == "sent"
    })
    .await;
    world.smtp.always(SmtpAct::Take);
    until_sent(&world.client, 3).await;
    assert_eq!(
        told(&world.smtp.received(), "grace commented"),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_sees_whether_a_thank_you_has_arrived() {
    let world = World::new().await;
    world
        .smtp
        .script([SmtpAct::Refuse(SmtpStage::Recipient, 550)]);
    say(&world.client, "ada", "hello").await;
    let failed = until(&world.client, 1, |mail| mail["status"] == "failed").await;
    let shown = thanks(&world.client).await;
    assert_eq!(shown[0]["state"], "failed");
    let error = shown[0]["error"].as_str().unwrap();
    assert!(error.contains("550"), "{error}");

    let path = format!("/api/mails/{}/redrive", failed[0]["id"]);
    let redriven = owner(&world.client, Method::POST, &path, "").await;
    assert_eq!(redriven.status, 200, "{redriven:?}");
    until_sent(&world.client, 1).await;
    let shown = thanks(&world.client).await;
    assert_eq!(
        (&shown[0]["state"], &shown[0]["error"]),
        (&json!("sent"), &Value::Null)
    );
}

/// A day passes between two mails to an address that is not confirmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_without_room_for_a_mail_is_not_the_one_that_is_thanked_for() {
    let smtp = SmtpServer::start().await;
    let site = Site {
        title: "Blog".to_owned(),
        url: "http://blog.test".to_owned(),
        from: "blog@blog.test".to_owned(),
        owner_token: Some("owner".to_owned()),
        tag_header: "X-PM-Tag".to_owned(),
    };
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .object::<Blog>()
        .with(registry(
            site.clone(),
            SmtpDelivery::new(&smtp.url()).unwrap(),
        ))
        .with(options(Duration::from_secs(1)))
        .with(site)
        .clock(Arc::new(clock.clone()))
        .router(router)
        .start()
        .await
        .unwrap();
    let client = Client::new(&host.addr().to_string(), Version::Http1);
    say(&client, "ada", "first").await;
    until_sent(&client, 1).await;
    say(&client, "ada+b", "the same mailbox").await;
    say(&client, "ada", "more").await;
    assert_eq!(thanks(&client).await.len(), 1);
    let day = Duration::from_hours(25);
    clock.advance(day);
    say(&client, "ada+b", "a day later").await;
    until_sent(&client, 2).await;
    clock.advance(day);
    say(&client, "ada", "and another").await;
    until_sent(&client, 3).await;
    let received = smtp.received();
    assert_eq!(
        told(&received, "Thank you"),
        ["ada+b@readers.test", "ada@readers.test"]
    );
    assert_eq!(told(&received, "Do you want"), ["ada@readers.test"]);
    let tags: Vec<String> = received
        .iter()
        .map(|mail| header(mail, "X-PM-Tag"))
        .collect();
    assert_eq!(tags, ["thanks", "thanks", "confirm"]);
    host.shutdown().await.unwrap();
}
