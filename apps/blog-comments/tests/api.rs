//! Comments and their mails, with the real binary and a real mail server.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use std::collections::BTreeSet;

use abide_harness::{
    Client, Mail, Program, Server, SmtpAct, SmtpServer, SmtpStage,
    mail_parser::{MimeHeaders, PartType},
};
use http::{Method, Request};
use serde_json::json;
use support::{
    comment, confirm, follow, link, mails, owner, program, say, try_say, until, until_sent,
};
use tempfile::TempDir;

struct World {
    smtp: SmtpServer,
    client: Client,
    _server: Server,
    _dir: TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let smtp = SmtpServer::start().await;
        let server = program(&dir.path().join("data"), &smtp.url()).start();
        Self {
            smtp,
            client: server.client(),
            _server: server,
            _dir: dir,
        }
    }
}

/// Recipients of mails with this in their subject.
fn told(mails: &[Mail], subject: &str) -> Vec<String> {
    let about = mails.iter().filter(|mail| mail.subject().contains(subject));
    let mut told: Vec<_> = about.map(|mail| mail.to[0].clone()).collect();
    told.sort();
    told
}

fn header(mail: &Mail, name: &str) -> String {
    let message = mail.parse();
    message
        .header_raw(name)
        .unwrap()
        .replace("\r\n", "")
        .trim()
        .to_owned()
}

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
        told(&mails, "Do you want"),
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
        "addresses are shown to nobody"
    );
}

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
    assert_eq!(ids.len(), mails.len(), "each mail has an id of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_that_comes_again_with_its_key_is_the_same_comment_and_causes_no_other_mail() {
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
        let request = Request::post(world.client.url(path)).header("content-type", kind);
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
async fn a_blog_without_an_owner_shows_its_mails_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let server = Program::new(env!("CARGO_BIN_EXE_blog-comments"), dir.path().join("data"))
        .arg(&format!("--smtp={}", smtp.url()))
        .start();
    let answer = owner(&server.client(), Method::GET, "/api/mails", "").await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.code(), "no_owner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_what_people_wrote_as_text_and_keep_what_was_typed_if_it_is_refused() {
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

    let nobody = form("name=ada&email=nobody&text=%3Ckept%3E&mark=2");
    let refused = world.client.send(nobody).await.unwrap();
    assert_eq!(refused.status, 422);
    let page = refused.body.as_str().unwrap();
    assert!(page.contains("An address looks like"), "{page}");
    assert!(page.contains("&lt;kept&gt;</textarea>"), "{page}");
    let part = world.client.send(form("name=ada")).await.unwrap();
    assert_eq!(part.status, 400);
    assert_eq!(world.client.get("/posts/nowhere").await.status, 404);
    let front = world.client.get("/").await.body;
    assert!(front.as_str().unwrap().contains("1 comment<"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_wait_for_a_mail_server_that_is_away() {
    let World {
        smtp,
        client,
        _server,
        _dir,
    } = World::new().await;
    let address = smtp.address();
    drop(smtp);
    say(&client, "ada", "hello").await;
    until(&client, 1, |mail| mail["attempts"].as_i64() >= Some(2)).await;
    let back = SmtpServer::start_at(&address, 1 << 20).await;
    assert_eq!(back.wait_for(1).await[0].to, ["ada@readers.test"]);
    until_sent(&client, 1).await;
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

/// Who types strangers' addresses has each of them get one mail, which says nothing that they have typed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_under_strangers_addresses_make_no_flood_of_mails() {
    const VICTIMS: usize = 10;
    const COMMENTS: usize = 200;
    let world = World::new().await;
    for number in 0..COMMENTS {
        let victim = number % VICTIMS;
        // Most mail servers deliver these to one mailbox.
        let to = ["", "+a", "+b", "+c"][number / VICTIMS % 4];
        let evil = json!({
            "name": "Cheap pills at evil.example",
            "email": format!("victim{victim}{to}@readers.test"),
            "text": "buy",
        });
        let said = try_say(&world.client, &evil, &format!("k{number}")).await;
        assert_eq!(said.unwrap().status, 201);
    }
    until_sent(&world.client, VICTIMS).await;
    let received = world.smtp.received();
    assert_eq!(received.len(), VICTIMS);
    for mail in &received {
        let text = mail.parse().body_text(0).unwrap().into_owned();
        assert!(!text.contains("evil") && !text.contains("buy"), "{text}");
    }
    // Who confirms is told from then on, of this post.
    confirm(&world.client, &world.smtp, "victim0@readers.test").await;
    say(&world.client, "ada", "hello").await;
    until_sent(&world.client, VICTIMS + 2).await;
    let told = told(&world.smtp.received(), "ada commented");
    assert_eq!(told, ["victim0@readers.test"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comments_too_often_is_told_when_to_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let data = dir.path().join("data");
    let program = || {
        Program::new(env!("CARGO_BIN_EXE_blog-comments"), &data)
            .arg(&format!("--smtp={}", smtp.url()))
            .arg("--client-comments=5")
            .arg("--address-comments=3")
    };
    let server = program().start();
    let client = server.client();
    for number in 0..3 {
        say(&client, "ada", &number.to_string()).await;
    }
    let refused = |answer: &abide_harness::Answer| {
        let after = answer.headers["retry-after"].to_str().unwrap();
        let after: u64 = after.parse().unwrap();
        assert!((1..=3_600).contains(&after), "{after}");
        (answer.status.as_u16(), answer.code().to_owned())
    };
    let path = "/api/posts/hello/comments";
    let too_many = (429, "too_many".to_owned());
    let ada = client.post(path, &comment("Ada+news", "more")).await;
    assert_eq!(refused(&ada), too_many, "of one address: {ada:?}");
    for name in ["grace", "alan"] {
        say(&client, name, "hello").await;
    }
    let barbara = client.post(path, &comment("barbara", "hello")).await;
    assert_eq!(refused(&barbara), too_many, "of one client: {barbara:?}");
    drop(client);
    server.kill();
    let server = program().start();
    let client = server.client();
    let again = client.post(path, &comment("barbara", "hello")).await;
    assert_eq!(refused(&again), too_many, "also after a crash");
    // A page keeps what was typed.
    let form = "name=barbara&email=b%40readers.test&text=%3Ckept%3E&mark=2";
    let page = client
        .ask(Method::POST, "/posts/hello/comments", form)
        .await;
    assert_eq!(page.status, 429);
    assert!(page.headers.contains_key("retry-after"));
    let page = page.body.as_str().unwrap();
    assert!(page.contains("&lt;kept&gt;</textarea>"), "{page}");
    assert!(page.contains("Try again in"), "{page}");
    // What was taken before is answered again.
    let thread = client.get("/api/posts/hello").await.body;
    assert_eq!(thread["post"]["comments"], 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guessing_tokens_ends_after_a_few() {
    let world = World::new().await;
    follow(&world.client, &world.smtp, "ada", "hello").await;
    say(&world.client, "grace", "hello").await;
    until_sent(&world.client, 3).await;
    let received = world.smtp.received();
    let notice = received
        .iter()
        .find(|mail| mail.subject().contains("commented"));
    let right = link(notice.unwrap(), "unsubscribe");
    let guess = async |number: u32| match number % 4 {
        0 => world.client.get(&format!("{right}{number}")).await,
        1 => {
            world
                .client
                .get("/confirm?token=1.9999999999999.AAAAAAAAAAAAAAAAAAAAAA")
                .await
        }
        2 => {
            let body = format!("token=guess{number}");
            world
                .client
                .ask(Method::POST, "/owner/session", &body)
                .await
        }
        _ => {
            let request = Request::get(world.client.url("/api/mails"));
            let request = request.header("authorization", format!("Bearer guess{number}"));
            let request = request.body(String::new().into()).unwrap();
            world.client.send(request).await.unwrap()
        }
    };
    for number in 0..blog_comments::limits::WRONG_TOKENS {
        let answer = guess(number).await;
        assert!(matches!(answer.status.as_u16(), 400 | 401), "{answer:?}");
    }
    for number in 0..4 {
        let answer = guess(number).await;
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.headers.contains_key("retry-after"));
    }
    // Not even a right one: who guesses is not to learn which it is.
    assert_eq!(world.client.get(&right).await.status, 429);
    let owner = owner(&world.client, Method::GET, "/api/mails", "").await;
    assert_eq!(owner.status, 429);
    // Comments have nothing to do with it.
    say(&world.client, "grace", "still here").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_unsubscribed_since_gets_nothing() {
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
async fn whoever_writes_a_post_follows_it() {
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
        "Confirmation for “Hello”",
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
    let page = with(Method::GET, "/owner", session).await;
    assert!(page.body.as_str().unwrap().contains("Nothing has failed"));
    let left = with(Method::POST, "/owner/leave", session).await;
    let cookie = left.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("Max-Age=0"), "{cookie}");
}
