//! All built-in kinds through the outbox of an object, to receivers that fail first.

use std::{collections::BTreeMap, time::Duration};

use abide::{
    ErrorKind, Host,
    prelude::*,
    server::{AllowPrivate, HostBuilder, LocalHost},
};
use abide::{
    outbox::handlers::{
        AcsDelivery, CallDelivery, Email, HttpCall, HttpDelivery, ObjectCall, SmtpDelivery,
        Webhook, WebhookDelivery,
    },
    outbox::{
        Outbox, OutboxError, OutboxMessage, OutboxOptions, Polling, Record, Registry, RetryPolicy,
        Status,
    },
};
use abide_harness::{
    AcsOptions, AcsSend, AcsServer, Receiver, ReceiverAct, SmtpAct, SmtpServer, SmtpStage, until,
};
use serde_json::json;

const SOON: Duration = Duration::from_millis(20);

fn retry() -> RetryPolicy {
    RetryPolicy::Exponential {
        base: SOON,
        max: SOON,
        max_attempts: 5,
    }
}

#[durable_object]
struct Teller {
    ctx: Ctx,
    outbox: Outbox,
}

impl DurableObject for Teller {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let options = OutboxOptions::default()
            .retry(retry())
            .polling(Polling::default().interval(SOON));
        let outbox = Outbox::open(&ctx, options)?;
        Ok(Self { ctx, outbox })
    }
}

#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
#[rpc]
impl Teller {
    pub async fn tell(&self, message: OutboxMessage) -> Result<i64, OutboxError> {
        Ok(self.outbox.enqueue(&message)?.id)
    }

    pub async fn hear(&self, word: String) -> Result<()> {
        self.ctx.storage().put("heard", &word)
    }

    pub async fn heard(&self) -> Result<Option<String>> {
        self.ctx.storage().get("heard")
    }

    pub async fn record(&self, id: i64) -> Result<Option<Record>> {
        self.outbox.get(id)
    }

    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.outbox.redrive(id)
    }

    /// Counts, and returns a list with one entry.
    pub async fn list(&self) -> Vec<i64> {
        vec![self.count()]
    }

    /// Counts, and returns what Rust can take and JSON cannot.
    pub async fn grid(&self) -> BTreeMap<(i64, i64), i64> {
        BTreeMap::from([((1, 1), self.count())])
    }

    /// Counts, and says no the first times: because of something that passes.
    pub async fn busy(&self, kind: ErrorKind, times: i64) -> Result<()> {
        if self.count() <= times {
            return Err(Error::with_kind(kind, "not now"));
        }
        Ok(())
    }

    pub async fn counted(&self) -> Result<Option<i64>> {
        self.ctx.storage().get("count")
    }
}

impl Teller {
    fn count(&self) -> i64 {
        let storage = self.ctx.storage();
        let count = storage.get("count").unwrap().unwrap_or(0) + 1;
        storage.put("count", &count).unwrap();
        count
    }
}

/// A host of tellers.
fn tellers(registry: Registry) -> HostBuilder {
    Host::open_in_memory().object::<Teller>().with(registry)
}

fn teller(host: &LocalHost, name: &str) -> Stub<Teller> {
    host.env().object::<Teller>().get_by_name(name)
}

fn message(kind: &'static str, payload: &impl serde::Serialize) -> OutboxMessage {
    OutboxMessage::new(kind, payload).unwrap()
}

/// Enqueues a message, waits until it is not on its way any more, and gives its record.
async fn settled(teller: &Stub<Teller>, message: OutboxMessage) -> Record {
    let id = teller.tell(message).await.unwrap();
    settled_again(teller, id).await
}

/// Waits until a message is not on its way any more, and gives its record.
async fn settled_again(teller: &Stub<Teller>, id: i64) -> Record {
    until("the message to settle", async || {
        let record = teller.record(id).await.unwrap().unwrap();
        let settled = !matches!(record.status, Status::Queued | Status::Sending);
        settled.then_some(record)
    })
    .await
}

#[tokio::test]
async fn every_kind_gets_there_although_its_receiver_fails_first() {
    let (web, mail) = (Receiver::start().await, SmtpServer::start().await);
    let azure = AcsServer::start(AcsOptions::default()).await;
    web.script_for("/http", [ReceiverAct::status(503), ReceiverAct::lost()]);
    web.script_for("/hook", [ReceiverAct::status(500)]);
    mail.script([SmtpAct::Refuse(SmtpStage::Recipient, 451)]);
    azure.script_sends([AcsSend::Lose, AcsSend::AcceptAndSay(429, None)]);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let secrets = move |_: &str| vec![secret.parse().unwrap()];
    let registry = Registry::new()
        .with(HttpDelivery::new())
        .with(WebhookDelivery::new(secrets).with_retry(retry()))
        .with(SmtpDelivery::new(&mail.url()).unwrap())
        .with_kind(
            "azure",
            AcsDelivery::from_connection_string(&azure.connection_string()).unwrap(),
        )
        .with(CallDelivery);
    let host = tellers(registry)
        .configure(|config| config.outbound.allow_private = AllowPrivate::All)
        .start_local()
        .await
        .unwrap();
    let one = teller(&host, "one");
    let letter = Email::new("seats@example.com", "Seat")
        .to("ada@example.org")
        .text("14C");
    let data = json!({ "seat": "14C" });
    let call = |name| ObjectCall::new("Teller", name, "hear", &("hello",)).unwrap();
    for (attempts, message) in [
        (3, message("http", &HttpCall::post(web.url("/http")))),
        (
            2,
            message(
                "webhook",
                &Webhook::new(web.url("/hook"), "seat.taken", &data).unwrap(),
            ),
        ),
        (2, message("email", &letter)),
        (2, message("azure", &letter)),
        (1, message("call", &call("two"))),
        (1, message("call", &call("one"))),
    ] {
        let record = settled(&one, message).await;
        let came_to = (record.status, record.attempts);
        assert_eq!(came_to, (Status::Sent, attempts), "{record:?}");
    }
    assert_eq!(mail.received().len(), 1);
    assert_eq!(azure.mails().len(), 1);
    for name in ["one", "two"] {
        let heard = teller(&host, name).heard().await;
        assert_eq!(heard.unwrap().as_deref(), Some("hello"), "{name}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_undeliverable_message_is_refused_or_a_dead_letter_with_a_reason() {
    let web = Receiver::start().await;
    let host = tellers(Registry::new().with(HttpDelivery::new()))
        .start_local()
        .await
        .unwrap();
    let teller = teller(&host, "one");
    let nowhere = teller
        .tell(message("http", &HttpCall::post("nowhere")))
        .await;
    let refused = nowhere.unwrap_err().to_string();
    assert!(refused.contains("`nowhere` is not a URL"), "{refused}");
    let private = message("http", &HttpCall::post(web.url("/")));
    let record = settled(&teller, private).await;
    assert_eq!((record.status, record.attempts), (Status::Failed, 1));
    let why = record.last_error.unwrap();
    assert!(why.contains("is outside the public internet"), "{why}");
    assert!(web.received().is_empty());
    host.shutdown().await.unwrap();
}

/// Delivers a call of a method that counts, redrives it if it became a dead letter, and gives how often it was applied.
async fn applied(method: &str) -> i64 {
    let host = tellers(Registry::new().with(CallDelivery))
        .start_local()
        .await
        .unwrap();
    let one = teller(&host, "one");
    let call = ObjectCall::new("Teller", "two", method, &[(); 0]).unwrap();
    let record = settled(&one, message("call", &call)).await;
    if record.status == Status::Failed {
        one.redrive(record.id).await.unwrap();
        settled_again(&one, record.id).await;
    }
    let count = teller(&host, "two").counted().await.unwrap();
    host.shutdown().await.unwrap();
    count.unwrap_or(0)
}

#[tokio::test]
async fn a_method_that_returns_a_list_with_one_entry_is_applied_once() {
    assert_eq!(applied("list").await, 1);
}

#[tokio::test]
async fn a_method_whose_result_json_cannot_say_is_applied_once() {
    assert_eq!(applied("grid").await, 1);
}

#[tokio::test]
async fn a_redriven_dead_letter_keeps_its_key_if_it_was_accepted() {
    let web = Receiver::start().await;
    web.decide(|_| {
        ReceiverAct::status(202).header("operation-location", "http://127.0.0.1:1/jobs/7")
    });
    let host = tellers(Registry::new().with(HttpDelivery::new()))
        .configure(|config| config.outbound.allow_private = AllowPrivate::All)
        .start_local()
        .await
        .unwrap();
    let teller = teller(&host, "one");
    let record = settled(&teller, message("http", &HttpCall::post(web.url("/jobs")))).await;
    assert_eq!(record.status, Status::Failed);
    assert!(record.unknown, "it may have had its effect: {record:?}");
    teller.redrive(record.id).await.unwrap();
    settled_again(&teller, record.id).await;
    let got = web.received();
    assert_eq!(got.len(), 2);
    assert_eq!(got[0].key(), got[1].key());
    host.shutdown().await.unwrap();
}

#[test]
fn a_request_whose_task_is_dropped_may_have_had_its_effect() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    // The node's requests are tasks of the runtime on which it was started; its objects have their own threads.
    let (requests, tests) = (runtime(), runtime());
    let start = tellers(Registry::new().with(HttpDelivery::new()))
        .configure(|config| config.outbound.allow_private = AllowPrivate::All)
        .start_local();
    let host = requests.block_on(start).unwrap();
    let record = tests.block_on(async {
        let web = Receiver::start().await;
        web.script([ReceiverAct::hang()]);
        let teller = teller(&host, "one");
        let call = message("http", &HttpCall::post(web.url("/")));
        let id = teller.tell(call).await.unwrap();
        web.wait_for(1).await;
        requests.shutdown_background();
        settled_again(&teller, id).await
    });
    let error = record.last_error.unwrap();
    assert!(error.contains("may have taken effect"), "{error}");
    assert_eq!(
        (record.status, record.attempts, record.unknown),
        (Status::Failed, 5, true),
        "it was tried again before it was given up: {error}"
    );
}

#[tokio::test]
async fn a_call_whose_method_says_that_another_time_will_do_is_made_again() {
    let host = tellers(Registry::new().with(CallDelivery))
        .start_local()
        .await
        .unwrap();
    let ada = teller(&host, "ada");
    for (name, kind, times) in [
        ("bob", ErrorKind::Overloaded, 1),
        ("eve", ErrorKind::Unavailable, 3),
    ] {
        let call = ObjectCall::new("Teller", name, "busy", &(kind, times)).unwrap();
        let record = settled(&ada, message("call", &call)).await;
        assert_eq!(record.status, Status::Sent, "{record:?}");
        let counted = teller(&host, name).counted().await.unwrap();
        assert_eq!(counted, Some(times + 1));
    }
    let call = ObjectCall::new("Teller", "sam", "busy", &(ErrorKind::Application, 3)).unwrap();
    let record = settled(&ada, message("call", &call)).await;
    assert_eq!((record.status, record.attempts), (Status::Failed, 1));
}
