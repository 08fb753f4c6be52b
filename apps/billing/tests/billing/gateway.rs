//! The adapter and the gateway that behaves badly, with no socket between them and with one.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use abide::{
    Env, Host, Node,
    clock::{SystemClock, TestClock},
    server::AllowPrivate,
    storage::{SimDisk, Store, StoreOptions},
};
use billing::{
    Money,
    gateway::{
        Charge, Gateway, GatewayError, HttpGateway, LocalGateway, Mischief, Payment, PaymentStatus,
        RefundCharge, server,
    },
};

const KEY: &str = "sk_test";

fn local(mischief: Mischief) -> LocalGateway {
    LocalGateway::new(KEY, mischief, Arc::new(SystemClock::new()))
}

/// A node without objects, whose requests all go to this gateway.
fn node(gateway: &LocalGateway) -> Node {
    let store = Store::open(
        Arc::new(SimDisk::new()),
        Path::new("/data"),
        StoreOptions::small(),
    );
    Node::builder(store.unwrap())
        .outbound(Arc::new(gateway.clone()))
        .start()
        .unwrap()
}

fn adapter() -> HttpGateway {
    HttpGateway::new("http://gateway.test/", KEY)
}

fn charge(card: &str, reference: &str) -> Charge {
    Charge {
        amount: Money::new(1_250, "EUR".parse().unwrap()).unwrap(),
        payment_method: card.to_owned(),
        reference: reference.to_owned(),
    }
}

/// Repeats a call as long as that makes sense.
async fn insist(
    ask: impl AsyncFn() -> Result<Payment, GatewayError>,
) -> Result<Payment, GatewayError> {
    for _ in 0..200 {
        match ask().await {
            Err(error) if error.is_retryable() => {}
            answer => return answer,
        }
    }
    panic!("the gateway never answers");
}

async fn pay(env: &Env, card: &str, reference: &str) -> Payment {
    let gateway = adapter();
    let charge = charge(card, reference);
    let (create, confirm) = (
        format!("{reference}-create"),
        format!("{reference}-confirm"),
    );
    let payment = insist(async || gateway.create(env, &create, &charge).await);
    let payment = payment.await.unwrap();
    insist(async || gateway.confirm(env, &confirm, &payment.id).await)
        .await
        .unwrap()
}

#[tokio::test]
async fn each_card_does_what_its_name_says() {
    let gateway = local(Mischief::none(1));
    let node = node(&gateway);
    let env = node.env();
    let status = async |card, reference| pay(env, card, reference).await.status;
    assert_eq!(status("card_ok", "a").await, PaymentStatus::Succeeded);
    assert_eq!(status("card_declined", "b").await, PaymentStatus::Declined);
    assert_eq!(status("card_flaky_100", "c").await, PaymentStatus::Declined);
    assert_eq!(status("card_flaky_0", "d").await, PaymentStatus::Succeeded);

    let slow = pay(env, "card_slow", "e").await;
    assert_eq!(slow.status, PaymentStatus::Processing);
    for wanted in [
        PaymentStatus::Processing,
        PaymentStatus::Processing,
        PaymentStatus::Succeeded,
    ] {
        assert_eq!(
            adapter().status(env, &slow.id).await.unwrap().status,
            wanted
        );
    }

    let secured = pay(env, "card_3ds", "f").await;
    assert_eq!(secured.status, PaymentStatus::RequiresAction);
    assert_eq!(gateway.waiting(), std::slice::from_ref(&secured));
    assert!(gateway.authenticate(&secured.id, true).is_some());
    assert!(gateway.authenticate(&secured.id, false).is_none(), "once");
    let after = adapter().status(env, &secured.id).await.unwrap();
    assert_eq!(after.status, PaymentStatus::Succeeded);

    let back = pay(env, "card_3ds", "g").await;
    let back = adapter().cancel(env, "g-cancel", &back.id).await.unwrap();
    assert_eq!(back.status, PaymentStatus::Canceled);
    let late = adapter().cancel(env, "f-cancel", &secured.id).await;
    assert!(
        matches!(late, Err(GatewayError::Refused { .. })),
        "{late:?}"
    );
}

#[tokio::test]
async fn on_a_bad_day_each_key_takes_its_money_once() {
    for seed in 0..20 {
        let mischief = Mischief {
            longest: Duration::from_millis(1),
            ..Mischief::lively(seed)
        };
        let gateway = local(mischief);
        let node = node(&gateway);
        for number in 0..20 {
            let reference = format!("in_{number}");
            let payment = pay(node.env(), "card_ok", &reference).await;
            assert_eq!(payment.status, PaymentStatus::Succeeded, "seed {seed}");
            // A client that lost the answer and asks again gets the same.
            assert_eq!(pay(node.env(), "card_ok", &reference).await, payment);
        }
        let tally = gateway.tally();
        assert_eq!((tally.succeeded, tally.open), (20, 0), "seed {seed}");
        let events = gateway.take_events();
        let ids: BTreeSet<_> = events.iter().map(|event| &event.id).collect();
        assert!(
            ids.len() <= 20 && ids.len() < events.len(),
            "some come twice"
        );
    }
}

#[tokio::test]
async fn a_key_that_belongs_to_another_request_is_refused() {
    let gateway = local(Mischief::none(1));
    let node = node(&gateway);
    let create = |charge: &Charge| adapter().create(node.env(), "key", charge);
    create(&charge("card_ok", "a")).await.unwrap();
    let refused = |answer: Result<Payment, GatewayError>| match answer {
        Err(GatewayError::Refused { text }) => text,
        other => panic!("{other:?}"),
    };
    refused(create(&charge("card_ok", "b")).await);
    refused(adapter().confirm(node.env(), "key", "pay_1").await);
    refused(adapter().status(node.env(), "pay_2").await);
    refused(create(&charge("card_unknown", "a")).await);
    let stranger = HttpGateway::new("http://gateway.test", "sk_other");
    let unknown = stranger.status(node.env(), "pay_1").await.unwrap_err();
    assert!(unknown.is_retryable(), "a person mends it: {unknown}");
    assert!(unknown.to_string().contains("401"), "{unknown}");
}

#[tokio::test]
async fn the_gateway_over_a_socket_reports_lost_answers_as_lost() {
    let gateway = local(Mischief {
        lost: 100,
        ..Mischief::none(1)
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let base = format!("http://{address}");
    let serving = tokio::spawn({
        let router = server::router(gateway.clone(), address);
        async move { axum::serve(listener, router).await }
    });
    let host = Host::open_in_memory()
        .configure(|config| config.outbound.allow_private = AllowPrivate::All)
        .start_local()
        .await
        .unwrap();
    let adapter = HttpGateway::new(&base, KEY);
    let answer = adapter
        .create(host.env(), "a", &charge("card_ok", "a"))
        .await;
    assert!(
        matches!(answer, Err(GatewayError::Unknown { .. })),
        "{answer:?}"
    );
    assert_eq!(gateway.payments().len(), 1, "it was taken all the same");
    serving.abort();
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_local_gateway_answers_only_under_its_address_and_to_its_own_page() {
    let gateway = local(Mischief::none(1));
    let node = node(&gateway);
    let payment = pay(node.env(), "card_3ds", "in_1").await;
    assert_eq!(payment.status, PaymentStatus::RequiresAction);
    let router = server::router(gateway.clone(), "127.0.0.1:7000".parse().unwrap());
    let ask = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        tower::ServiceExt::oneshot(router.clone(), request)
            .await
            .unwrap()
    };
    let (page, yes) = (
        format!("/pay/{}", payment.id),
        format!("/pay/{}/yes", payment.id),
    );
    let host = ("host", "127.0.0.1:7000");
    for headers in [
        &[][..],
        &[("host", "evil.example:7000")],
        &[("host", "127.0.0.1")],
        &[host, ("host", "evil.example")],
    ] {
        for (method, path) in [
            ("GET", &page),
            ("POST", &yes),
            ("POST", &"/v1/payments".into()),
        ] {
            assert_eq!(
                ask(method, path, headers).await.status(),
                403,
                "{headers:?}"
            );
        }
    }
    for foreign in [
        ("origin", "http://evil.example"),
        ("origin", "https://127.0.0.1:7000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        assert_eq!(
            ask("POST", &yes, &[host, foreign]).await.status(),
            403,
            "{foreign:?}"
        );
    }
    assert_eq!(gateway.waiting().len(), 1, "none was answered");
    let shown = ask("GET", &page, &[host, ("sec-fetch-site", "cross-site")]).await;
    assert_eq!(shown.status(), 200, "a link");
    assert_eq!(shown.headers()["x-content-type-options"], "nosniff");
    assert!(shown.headers().contains_key("content-security-policy"));
    let own = [
        host,
        ("origin", "http://127.0.0.1:7000"),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(ask("POST", &yes, &own).await.status(), 303);
    assert!(gateway.waiting().is_empty());
}

#[tokio::test]
async fn some_webhooks_come_late_and_so_after_those_of_what_happened_later() {
    let clock = TestClock::new();
    let mischief = Mischief {
        late: 50,
        latest: Duration::from_mins(1),
        ..Mischief::none(1)
    };
    let gateway = LocalGateway::new(KEY, mischief, Arc::new(clock.clone()));
    let node = node(&gateway);
    for number in 0..20 {
        pay(node.env(), "card_ok", &format!("in_{number}")).await;
    }
    let mut order: Vec<String> = Vec::new();
    let mut take = || {
        let events = gateway.take_events().into_iter();
        order.extend(events.map(|event| event.payment.reference));
        order.len()
    };
    let at_once = take();
    assert!((1..20).contains(&at_once), "{at_once}");
    clock.advance(Duration::from_mins(1));
    assert_eq!(take(), 20);
    let happened: Vec<String> = (0..20).map(|number| format!("in_{number}")).collect();
    assert_ne!(order, happened);
    order.sort_by_key(|reference| reference[3..].parse::<u32>().unwrap());
    assert_eq!(order, happened, "each comes once");
}

#[tokio::test]
async fn a_gateway_with_a_file_knows_after_a_restart_what_it_knew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.jsonl");
    let open =
        |mischief| LocalGateway::open(KEY, mischief, Arc::new(SystemClock::new()), &file).unwrap();
    let mischief = Mischief {
        slow: 0,
        ..Mischief::lively(7)
    };
    let before = open(mischief);
    let node_before = node(&before);
    let env = node_before.env();
    let paid = pay(env, "card_ok", "a").await;
    let slow = pay(env, "card_slow", "b").await;
    let secured = pay(env, "card_3ds", "c").await;
    pay(env, "card_declined", "d").await;
    let waiting = pay(env, "card_3ds", "e").await;
    before.authenticate(&secured.id, true).unwrap();
    let back = RefundCharge {
        payment: paid.id.clone(),
        amount: Money::new(250, "EUR".parse().unwrap()).unwrap(),
        reference: "back".to_owned(),
    };
    let refund = async |env: &Env| {
        for _ in 0..200 {
            match adapter().refund(env, "back", &back).await {
                Err(error) if error.is_retryable() => {}
                answer => return answer.unwrap(),
            }
        }
        panic!("the gateway never answers");
    };
    let refunded = refund(env).await;
    while adapter()
        .status(env, &slow.id)
        .await
        .map(|payment| payment.status)
        != Ok(PaymentStatus::Succeeded)
    {}
    let known = (before.payments(), before.refunds(), before.tally());

    // What a crash has cut short was never answered.
    let mut text = std::fs::read(&file).unwrap();
    text.extend(b"{\"at\":1,\"cha");
    std::fs::write(&file, text).unwrap();
    for _ in 0..2 {
        let after = open(mischief);
        assert_eq!((after.payments(), after.refunds(), after.tally()), known);
        let waits: Vec<String> = after.waiting().into_iter().map(|p| p.id).collect();
        assert_eq!(waits, [&*waiting.id]);
    }
    let after = open(mischief);
    let node_after = node(&after);
    let env = node_after.env();
    assert_eq!(pay(env, "card_ok", "a").await, paid, "the same keys");
    assert_eq!(refund(env).await, refunded);
    assert_eq!(after.tally(), known.2, "no money was taken twice");
    pay(env, "card_ok", "f").await;
    assert_eq!(open(mischief).payments().len(), known.0.len() + 1);

    std::fs::write(&file, "nonsense\n").unwrap();
    let refused = LocalGateway::open(KEY, mischief, Arc::new(SystemClock::new()), &file);
    assert!(refused.unwrap_err().to_string().contains("line 1"));
}

#[tokio::test]
async fn compacting_the_gateway_s_file_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.jsonl");
    let open =
        |mischief| LocalGateway::open(KEY, mischief, Arc::new(SystemClock::new()), &file).unwrap();
    let mischief = Mischief::none(7);
    let gateway = open(mischief);
    let node_of = node(&gateway);
    let env = node_of.env();
    let length = || std::fs::metadata(&file).unwrap().len();
    let (mut longest, mut paid) = (0, 0);
    let first = pay(env, "card_ok", "first").await;
    pay(env, "card_3ds", "waits").await;
    while length() >= longest {
        longest = length();
        let slow = pay(env, "card_slow", &paid.to_string()).await;
        // Each question about it is a change.
        for _ in 0..3 {
            let _ = adapter().status(env, &slow.id).await;
        }
        paid += 1;
        assert!(paid < 1_000, "the file grows and grows: {longest}");
    }
    let known = (gateway.payments(), gateway.refunds(), gateway.tally());
    let again = open(mischief);
    assert_eq!((again.payments(), again.refunds(), again.tally()), known);
    assert_eq!(again.waiting(), gateway.waiting());
    let node_again = node(&again);
    let same = pay(node_again.env(), "card_ok", "first").await;
    assert_eq!((same, again.tally()), (first, known.2), "the same keys");
    let other = Mischief::none(8);
    let refused = LocalGateway::open(KEY, other, Arc::new(SystemClock::new()), &file);
    assert!(refused.unwrap_err().to_string().contains("seed"));
    // A crash before the new file has the name leaves the old one.
    std::fs::write(file.with_extension("new"), "half").unwrap();
    assert_eq!(open(mischief).tally(), known.2);
}
