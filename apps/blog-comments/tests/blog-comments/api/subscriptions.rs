//! Who follows a post, and how that ends.

use abide_harness::{SmtpAct, SmtpStage};
use http::Method;
use serde_json::json;

use crate::{
    api::{World, header, told},
    support::{comment, follow, link, owner, say, until, until_sent},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_in_each_mail_ends_the_subscription_when_it_is_confirmed() {
    let world = World::new().await;
    follow(&world.client, &world.smtp, "ada", "hello").await;
    follow(&world.client, &world.smtp, "grace", "hello, ada").await;
    until_sent(&world.client, 3).await;
    let mails = world.smtp.received();
    let notice = mails
        .iter()
        .find(|mail| mail.subject().contains("grace commented"))
        .unwrap();
    let link = link(notice, "unsubscribe");
    assert!(header(notice, "List-Unsubscribe").contains(&link));
    let asked = world.client.get(&link).await;
    assert_eq!(asked.status, 200);
    say(&world.client, "grace", "still there?").await;
    until_sent(&world.client, 4).await;
    let told_ada = told(&world.smtp.received(), "grace commented");
    assert_eq!(told_ada.len(), 2, "looking is not confirming");

    for said in ["List-Unsubscribe=One-Click", ""] {
        let done = world.client.ask(Method::POST, &link, said).await;
        assert_eq!(done.status, 200, "also when it has ended");
    }
    say(&world.client, "grace", "and now?").await;
    say(&world.client, "alan", "hello").await;
    until_sent(&world.client, 6).await;
    let told = told(&world.smtp.received(), "alan commented");
    assert_eq!(told, ["grace@readers.test"], "ada is not told any more");

    let forged = link.replacen(".1.", ".2.", 1);
    assert_ne!(forged, link);
    let answer = world.client.ask(Method::POST, &forged, "").await;
    assert_eq!(answer.status, 400);
    let nonsense = world.client.get("/unsubscribe?token=nonsense").await;
    assert_eq!(nonsense.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsubscribed_follower_gets_no_mail() {
    let world = World::new().await;
    follow(&world.client, &world.smtp, "ada", "hello").await;
    follow(&world.client, &world.smtp, "grace", "hello").await;
    until_sent(&world.client, 3).await;
    let received = world.smtp.received();
    let notice = received
        .iter()
        .find(|mail| mail.subject().contains("commented"));
    let unsubscribe = link(notice.unwrap(), "unsubscribe");
    // The notice to ada is refused, and waits.
    world
        .smtp
        .always(SmtpAct::Refuse(SmtpStage::Recipient, 550));
    say(&world.client, "grace", "to ada").await;
    let failed = until(&world.client, 4, |mail| {
        mail["status"] == "sent" || mail["status"] == "failed"
    })
    .await;
    let gone = world.client.ask(Method::POST, &unsubscribe, "").await;
    assert_eq!(gone.status, 200);
    world.smtp.always(SmtpAct::Take);
    let redrive = format!("/api/mails/{}/redrive", failed[0]["id"]);
    assert_eq!(
        owner(&world.client, Method::POST, &redrive, "")
            .await
            .status,
        200
    );
    until_sent(&world.client, 4).await;
    assert_eq!(world.smtp.received().len(), received.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_author_of_a_post_follows_it() {
    let world = World::new().await;
    let post = json!({
        "title": "News",
        "text": "One.",
        "author": { "name": "Edith", "email": "edith@blog.test" },
    });
    let made = owner(
        &world.client,
        Method::PUT,
        "/api/posts/news",
        &post.to_string(),
    )
    .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert!(!made.body.to_string().contains("edith@"), "{made:?}");
    let path = "/api/posts/news/comments";
    let said = world.client.post(path, &comment("ada", "hello")).await;
    assert_eq!(said.status, 201);
    until_sent(&world.client, 2).await;
    assert_eq!(
        told(&world.smtp.received(), "ada commented on “News”"),
        ["edith@blog.test"]
    );
    let bad = json!({ "title": "N", "text": "T", "author": { "name": "E", "email": "e" } });
    let bad = owner(
        &world.client,
        Method::PUT,
        "/api/posts/more",
        &bad.to_string(),
    )
    .await;
    assert_eq!(bad.code(), "invalid");
}
