//! The pages in a real browser.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::path::Path;

use crate::support::{confirm, link, program, say as post, until, until_sent};
use abide_harness::{Browser, Page, SmtpAct, SmtpServer, SmtpStage, axe};
use base64::{Engine, engine::general_purpose::STANDARD};

async fn say(page: &Page, name: &str, text: &str) {
    page.fill("[name=name]", name).await;
    page.fill("[name=email]", &format!("{name}@readers.test"))
        .await;
    page.fill("textarea", text).await;
    page.click("form button").await;
    let shown = serde_json::Value::from(text);
    page.until(&format!(
        "[...document.querySelectorAll('.comments p')].some(p => p.textContent === {shown})"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn readers_comment_get_mails_and_end_them() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let server = program(&dir.path().join("data"), &smtp.url()).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    axe(&page, "blog-front").await;
    page.click(".posts a").await;
    page.until("document.querySelector('form')").await;
    say(
        &page,
        "Ada",
        "One transaction for all of it: that is how it should be.",
    )
    .await;
    confirm(&client, &smtp, "Ada@readers.test").await;
    say(&page, "Grace", "And what if the mail server <is> down?").await;
    confirm(&client, &smtp, "Grace@readers.test").await;
    say(&page, "Ada", "Then it is told later. Nothing is lost.").await;
    page.until("location.hash === '#comment-3'").await;
    page.until("document.querySelector('#talk')?.textContent === '3 comments'")
        .await;
    page.until(
        "document.querySelector('#comment-3').getBoundingClientRect().bottom <= innerHeight",
    )
    .await;
    axe(&page, "blog-comments").await;

    page.eval("document.querySelector('form').noValidate = true")
        .await;
    page.fill("[name=name]", "Grace").await;
    page.fill("[name=email]", "nobody").await;
    page.fill("textarea", "typed with care").await;
    page.click("form button").await;
    page.until("document.querySelector('.note.bad')").await;
    page.until("document.querySelector('textarea')?.value === 'typed with care'")
        .await;
    axe(&page, "blog-refused").await;

    until_sent(&client, 4).await;
    let mails = smtp.received();
    let notice = mails
        .iter()
        .find(|mail| mail.subject().starts_with("Grace commented"))
        .unwrap();
    page.go(&client.url(&link(notice, "unsubscribe"))).await;
    axe(&page, "blog-unsubscribe").await;
    page.click("form button").await;
    page.until("document.querySelector('h1')?.textContent === 'Unsubscribed'")
        .await;

    // The mail itself, as a mail program shows it, with the picture that is a part of it.
    let message = notice.parse();
    let picture_part = message.parts.last().unwrap();
    let inline = format!(
        "data:image/png;base64,{}",
        STANDARD.encode(picture_part.contents())
    );
    let shown = message.body_html(0).unwrap().replace("cid:mark", &inline);
    page.go("about:blank#mail").await;
    page.eval(&format!(
        "document.write({})",
        serde_json::Value::from(shown)
    ))
    .await;
    page.until("document.querySelector('blockquote')?.textContent.includes('<is>')")
        .await;
    page.until("document.querySelector('img').naturalWidth === 96")
        .await;
    if let Ok(pictures) = std::env::var("ABIDE_SCREENSHOTS") {
        page.screenshot(&Path::new(&pictures).join("blog-mail.png"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_reader_confirms_and_the_owner_mends_what_failed() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let server = program(&dir.path().join("data"), &smtp.url()).start();
    let client = server.client();
    let browser = Browser::start().await;

    post(&client, "ada", "hello").await;
    let mail = smtp.wait_for(1).await.remove(0);
    let page = browser.open(&client.url(&link(&mail, "confirm"))).await;
    axe(&page, "blog-confirm").await;
    page.click("form button").await;
    page.until("document.querySelector('h1')?.textContent === 'You will hear about answers'")
        .await;

    smtp.always(SmtpAct::Refuse(SmtpStage::Recipient, 550));
    for name in ["grace", "alan"] {
        post(&client, name, "And what if the mail server <is> down?").await;
    }
    until(&client, 5, |mail| {
        mail["status"] == "sent" || mail["status"] == "failed"
    })
    .await;
    page.go(&client.url("/owner")).await;
    axe(&page, "blog-owner-token").await;
    page.fill("[name=token]", "guess").await;
    page.click("form button").await;
    page.until("document.querySelector('.note.bad')").await;
    page.fill("[name=token]", "owner").await;
    page.click("form button").await;
    page.until("document.querySelectorAll('.failed li').length === 4")
        .await;
    axe(&page, "blog-owner").await;
    page.click(".failed .plain").await;
    page.until("document.querySelectorAll('.failed li').length === 3")
        .await;
    smtp.always(SmtpAct::Take);
    page.click(".all button").await;
    page.until("document.querySelector('.card p')?.textContent.startsWith('Nothing has failed')")
        .await;
    smtp.wait_for(4).await;
    page.click(".leave button").await;
    page.until("document.querySelector('[name=token]')").await;
}
