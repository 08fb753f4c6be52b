//! Consumers that are objects, or servers.

use abide::prelude::*;
use abide::queue::{Delivery, Exceptions, Queues, ToHttp, ToObject};

use crate::queue::support::{Script, World, message, plain, run};

/// An object that consumes: it does with a message what its body says.
#[durable_object]
pub(crate) struct Ledger {
    ctx: Ctx,
}

impl DurableObject for Ledger {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let table = "CREATE TABLE IF NOT EXISTS taken (id TEXT PRIMARY KEY, body TEXT)";
        ctx.sql().exec(table, ())?;
        Ok(Self { ctx })
    }
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Ledger {
    pub async fn take(&self, batch: Vec<Delivery>) -> Result<Exceptions> {
        let mut exceptions = Exceptions::default();
        for message in batch {
            let body: String = message.json()?;
            match body.as_str() {
                "again" if message.attempt == 1 => {
                    exceptions = exceptions.retry(message.id, "not yet");
                }
                "never" => exceptions = exceptions.dead(message.id, "I will not"),
                "trouble" if message.attempt == 1 => return Err(Error::new("trouble")),
                _ => {
                    let row = (message.id.to_string(), &body);
                    let insert = "INSERT OR IGNORE INTO taken VALUES (?1, ?2)";
                    self.ctx.sql().exec(insert, row)?;
                }
            }
        }
        Ok(exceptions)
    }

    pub async fn taken(&self) -> Result<Vec<String>> {
        let sql = self.ctx.sql();
        sql.exec("SELECT body FROM taken ORDER BY body", ())?.all()
    }
}

fn to_object(_: &Script, _: usize) -> Queues {
    Queues::new().with("words", plain(), ToObject::by_key("Ledger", "take"))
}

#[test]
fn an_object_consumes_and_excepts_messages() {
    run(async {
        let world = World::new(to_object);
        let queue = world.queue("words");
        let mut messages: Vec<_> = ["a", "again", "never", "b"]
            .map(|body| message(body).key("x"))
            .into();
        messages.push(message("trouble").key("y"));
        messages.push(message("c").key("y"));
        messages.push(message("homeless"));
        queue.send_batch(messages).await.unwrap();
        world.pass_until_decided().await;
        let taken = async |name| {
            let ledger = world.node.env().object::<Ledger>().get_by_name(name);
            ledger.taken().await.unwrap()
        };
        assert_eq!(taken("x").await, ["a", "again", "b"]);
        assert_eq!(taken("y").await, ["c", "trouble"]);
        let letters = queue.dead_letters(10).await.unwrap();
        let mut errors: Vec<&str> = letters.iter().map(|letter| letter.error.as_str()).collect();
        errors.sort_unstable();
        assert_eq!(errors, ["I will not", "it has no key to select an object"]);
    });
}

#[test]
fn a_server_consumes_and_excepts_messages() {
    run(async {
        let make = |_: &Script, _| {
            let to = ToHttp::new("https://example.com/mails").unwrap();
            let options = plain().concurrency(1);
            Queues::new().with("words", options, to)
        };
        let world = World::new(make);
        world.script.answer(
            200,
            r#"{"retry":[{"id":"0-2","after":60,"error":"busy"}],"dead":[{"id":"0-3","error":"no such customer"}]}"#,
        );
        let messages = ["a", "b", "c"].map(message).to_vec();
        world.queue("words").send_batch(messages).await.unwrap();
        world
            .until("the first answer", async || {
                world.counts().await.consumed == 1
            })
            .await;
        world.pass_until_consumed(2).await;
        let requests = world.script.requests();
        assert_eq!(requests.len(), 2);
        let first: serde_json::Value = serde_json::from_str(&requests[0]).unwrap();
        assert_eq!(first["queue"], "words");
        assert_eq!(first["messages"][1]["id"], "0-2");
        assert_eq!(first["messages"][1]["attempt"], 1);
        assert_eq!(first["messages"][1]["body"], "b");
        let second: serde_json::Value = serde_json::from_str(&requests[1]).unwrap();
        assert_eq!(second["messages"][0]["attempt"], 2);
        let letters = world.queue("words").dead_letters(10).await.unwrap();
        assert_eq!(letters[0].error, "no such customer");
    });
}

#[test]
fn a_server_that_fails_or_cannot_be_understood_gets_the_batch_again() {
    run(async {
        let make = |_: &Script, _| {
            let to = ToHttp::new("https://example.com/mails").unwrap();
            Queues::new().with("words", plain(), to)
        };
        let world = World::new(make);
        world.script.answer(503, "down");
        world.script.answer(302, "elsewhere");
        world.script.answer(200, "{\"retri\":[]}");
        world.send(&["a"]).await;
        world.pass_until_consumed(1).await;
        assert_eq!(world.script.requests().len(), 4);
    });
}

#[test]
fn a_server_needs_a_whole_url() {
    for bad in [
        "example.com",
        "ftp://example.com",
        "https://a:b@example.com",
    ] {
        assert!(ToHttp::new(bad).is_err(), "{bad}");
    }
}
