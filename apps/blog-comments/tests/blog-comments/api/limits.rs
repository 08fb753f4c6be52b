//! What strangers can do only so often.

use abide_harness::{Program, SmtpServer};
use http::{Method, Request};
use serde_json::json;

use crate::{
    api::{World, told},
    support::{comment, confirm, follow, link, owner, say, try_say, until_sent},
};

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
async fn too_many_comments_are_refused_with_a_retry_time() {
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
