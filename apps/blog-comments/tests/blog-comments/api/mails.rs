//! Which mails are sent to which readers.

use std::collections::BTreeSet;

use abide_harness::{
    Mail, SmtpAct, SmtpServer, SmtpStage,
    mail_parser::{MimeHeaders, PartType},
};
use http::Method;

use crate::{
    api::{World, header, told},
    support::{follow, owner, say, until, until_sent},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_has_both_texts_and_a_picture_that_its_html_shows() {
    let world = World::new().await;
    let text = "Tom & Jerry <script>alert(1)</script>\n\nGrüße";
    follow(&world.client, &world.smtp, "ada", "hello").await;
    say(&world.client, "grace", text).await;
    until_sent(&world.client, 3).await;
    let mails = world.smtp.received();
    for mail in &mails {
        let message = mail.parse();
        let kinds: Vec<_> = message
            .parts
            .iter()
            .map(|part| {
                let kind = part.content_type().unwrap();
                format!("{}/{}", kind.ctype(), kind.subtype().unwrap())
            })
            .collect();
        let expected = [
            "multipart/alternative",
            "text/plain",
            "multipart/related",
            "text/html",
            "image/png",
        ];
        assert_eq!(kinds, expected);
        let picture = message.parts.last().unwrap();
        let shown = format!("<img src=\"cid:{}\"", picture.content_id().unwrap());
        let html = message.body_html(0).unwrap();
        assert!(html.contains(&shown), "{html}");
        match &picture.body {
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) => {
                assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(mail.from, "blog@example.com");
        assert!(header(mail, "From").ends_with("<blog@example.com>"));
        assert!(message.date().is_some());
    }
    let notice = mails
        .iter()
        .find(|mail| mail.subject().contains("commented"))
        .unwrap();
    assert_eq!(notice.subject(), "grace commented on “Hello”");
    assert!(header(notice, "List-Unsubscribe").contains("/unsubscribe?token="));
    assert_eq!(
        header(notice, "List-Unsubscribe-Post"),
        "List-Unsubscribe=One-Click"
    );
    let message = notice.parse();
    let plain = message.body_text(0).unwrap().replace("\r\n", "\n");
    assert!(plain.contains(text), "{plain}");
    assert!(plain.contains("http://blog.test/posts/hello?with=2#comment-2"));
    let html = message.body_html(0).unwrap();
    assert!(
        html.contains("Tom &amp; Jerry &lt;script&gt;") && html.contains("Grüße"),
        "{html}"
    );
    let ids: BTreeSet<_> = mails.iter().map(Mail::message_id).collect();
    assert_eq!(ids.len(), mails.len(), "each mail has its own id");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_with_many_followers_tells_each_of_them_once() {
    const FOLLOWERS: usize = blog_comments::AT_ONCE + 5;
    let world = World::new().await;
    for number in 0..FOLLOWERS {
        follow(&world.client, &world.smtp, &format!("n{number}"), "hello").await;
    }
    say(&world.client, "ada", "to all of you").await;
    let count = FOLLOWERS + 1 + (FOLLOWERS + 1) * FOLLOWERS / 2;
    let sent = until_sent(&world.client, count).await;
    assert!(
        sent.iter().any(|mail| mail["fan_out"].is_i64())
            && sent.iter().any(|mail| mail["fan_out"].is_null()),
        "some came from a fan-out, some did not"
    );
    let mails = world.smtp.received();
    assert_eq!(mails.len(), count);
    let told = told(&mails, "ada commented");
    assert_eq!(told.len(), FOLLOWERS);
    let each: BTreeSet<_> = told.into_iter().collect();
    assert_eq!(each.len(), FOLLOWERS, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_is_refused_for_good_is_kept_and_can_be_sent_again() {
    let world = World::new().await;
    world.smtp.script([
        SmtpAct::Refuse(SmtpStage::End, 451),
        SmtpAct::Refuse(SmtpStage::Recipient, 550),
    ]);
    say(&world.client, "ada", "hello").await;
    let failed = abide_harness::until("the mail to be given up", async || {
        let answer = owner(&world.client, Method::GET, "/api/mails?status=failed", "").await;
        (answer.body["counts"]["failed"] == 1).then(|| answer.body["mails"][0].clone())
    })
    .await;
    assert_eq!(
        failed["attempts"], 2,
        "the first refusal was for the moment"
    );
    let error = failed["last_error"].as_str().unwrap();
    assert!(error.contains("550"), "{failed}");
    assert!(world.smtp.received().is_empty());

    let path = format!("/api/mails/{}", failed["id"]);
    let redriven = owner(&world.client, Method::POST, &format!("{path}/redrive"), "").await;
    assert_eq!(redriven.status, 200, "{redriven:?}");
    world.smtp.wait_for(1).await;
    until_sent(&world.client, 1).await;
    let details = owner(&world.client, Method::GET, &path, "").await.body;
    assert!(
        details["history"].as_array().unwrap().len() >= 4,
        "{details}"
    );
    let late = owner(&world.client, Method::DELETE, &path, "").await;
    assert_eq!(late.status, 409);
    assert_eq!(late.code(), "mail_conflict");
    let none = owner(&world.client, Method::GET, "/api/mails/99", "").await;
    assert_eq!(none.code(), "no_such_mail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_wait_for_a_mail_server_that_is_away() {
    let World {
        smtp,
        client,
        _server,
        dir: _dir,
    } = World::new().await;
    let address = smtp.address();
    drop(smtp);
    say(&client, "ada", "hello").await;
    until(&client, 1, |mail| mail["attempts"].as_i64() >= Some(2)).await;
    let back = SmtpServer::start_at(&address, 1 << 20).await;
    assert_eq!(back.wait_for(1).await[0].to, ["ada@readers.test"]);
    until_sent(&client, 1).await;
}
