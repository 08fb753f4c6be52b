//! Calls with an idempotency key are applied once.

use std::time::Duration;

use abide::{Call, ErrorKind, prelude::*, storage::SimDisk};
use serde::{Deserialize, Serialize};

use crate::support::{Signals, World, run, signals};

#[durable_object]
struct Account {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Account {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PayError {
    TooMuch { balance: i64 },
}

#[rpc]
impl Account {
    pub async fn add(&self, amount: i64) -> Result<i64> {
        let balance = self.ctx.storage().get("balance")?.unwrap_or(0) + amount;
        self.ctx.storage().put("balance", &balance)?;
        Ok(balance)
    }

    pub async fn pay(&self, amount: i64) -> Result<i64, PayError> {
        let balance = self.add(0).await.unwrap();
        // A refusal, too, may have left its mark.
        self.ctx.storage().put("asked", &amount).unwrap();
        if amount > balance {
            return Err(PayError::TooMuch { balance });
        }
        Ok(self.add(-amount).await.unwrap())
    }

    /// Refuses for as long as there is nothing in it, which may change.
    pub async fn close(&self) -> Result<i64, PayError> {
        tokio::task::yield_now().await;
        let balance = self.add(0).await.unwrap();
        if balance == 0 {
            self.ctx.forget_call();
            return Err(PayError::TooMuch { balance });
        }
        Ok(self.add(-balance).await.unwrap())
    }

    /// Adds now and, when it is given leave, once more.
    pub async fn add_twice(&self, amount: i64) -> Result<i64> {
        self.add(amount).await?;
        self.signals.give("added");
        self.signals.wait("go").await;
        self.add(amount).await
    }

    pub async fn add_and_tell_all(&self, amount: i64) -> Result<String> {
        self.add(amount).await?;
        Ok("x".repeat(2 << 20))
    }

    pub async fn add_and_panic(&self, amount: i64) -> Result<()> {
        self.add(amount).await?;
        panic!("on purpose");
    }
}

fn classes(node: abide::NodeBuilder) -> abide::NodeBuilder {
    node.class::<Account>(ClassOptions::default())
}

fn world() -> World {
    World::new(classes)
}

fn account(world: &World) -> Stub<Account> {
    world.env().object::<Account>().get_by_name("ada")
}

async fn balance(world: &World) -> i64 {
    account(world).add(0).await.unwrap()
}

async fn kind<T: std::fmt::Debug, E>(call: Call<T, E>) -> ErrorKind {
    let Err(error) = call.answer().await else {
        panic!("the call has an answer");
    };
    assert!(!error.remote(), "{error:?}");
    error.kind()
}

#[test]
fn a_call_that_is_sent_again_with_its_key_is_answered_and_not_applied() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        assert_eq!(keyed.add(5).await.unwrap(), 5);
        assert_eq!(account(&world).add(1).await.unwrap(), 6);
        assert_eq!(keyed.add(5).await.unwrap(), 5, "the first answer");
        let another = account(&world).with_idempotency_key("two");
        assert_eq!(another.add(5).await.unwrap(), 11);
        assert_eq!(balance(&world).await, 11);
    });
}

#[test]
fn a_method_s_own_error_is_remembered_as_its_result() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        let refused = Err(PayError::TooMuch { balance: 0 });
        assert_eq!(keyed.pay(5).answer().await.unwrap(), refused);
        account(&world).add(100).await.unwrap();
        assert_eq!(keyed.pay(5).answer().await.unwrap(), refused);
    });
}

#[test]
fn a_refusal_that_the_method_will_not_have_remembered_is_asked_for_again() {
    run(async {
        let world = world();
        let once = account(&world).with_idempotency_key("close");
        let empty = Err(PayError::TooMuch { balance: 0 });
        assert_eq!(once.close().answer().await.unwrap(), empty);
        account(&world).add(5).await.unwrap();
        assert_eq!(once.close().answer().await.unwrap(), Ok(0));
        account(&world).add(7).await.unwrap();
        assert_eq!(
            once.close().answer().await.unwrap(),
            Ok(0),
            "that is remembered"
        );
        assert_eq!(balance(&world).await, 7);
    });
}

#[test]
fn a_key_belongs_to_one_call() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        keyed.add(5).await.unwrap();
        assert_eq!(kind(keyed.add(6)).await, ErrorKind::KeyReused);
        assert_eq!(kind(keyed.pay(5)).await, ErrorKind::KeyReused);
        assert_eq!(balance(&world).await, 5);
        // Another object has its own keys.
        let other = world.env().object::<Account>().get_by_name("bob");
        let keyed = other.with_idempotency_key("one");
        assert_eq!(keyed.add(6).await.unwrap(), 6);
    });
}

#[test]
fn a_call_that_comes_while_the_first_with_its_key_runs_is_told_so() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        let first = keyed.add_twice(5);
        world.signals.wait("added").await;
        let error = keyed.add_twice(5).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InProgress);
        assert!(error.retryable() && !error.remote(), "{error:?}");
        assert_eq!(kind(keyed.add_twice(6)).await, ErrorKind::KeyReused);
        world.signals.give("go");
        assert_eq!(first.await.unwrap(), 10);
        assert_eq!(keyed.add_twice(5).await.unwrap(), 10);
        assert_eq!(balance(&world).await, 10);
    });
}

#[test]
fn a_key_is_forgotten_after_a_day() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        assert_eq!(keyed.add(5).await.unwrap(), 5);
        world.clock.advance(Duration::from_hours(23));
        assert_eq!(keyed.add(5).await.unwrap(), 5);
        world.clock.advance(Duration::from_hours(1));
        assert_eq!(keyed.add(5).await.unwrap(), 10);
    });
}

#[test]
fn a_call_that_broke_off_may_be_made_again() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        for _ in 0..2 {
            assert_eq!(kind(keyed.add_and_panic(5)).await, ErrorKind::Reset);
        }
        let wrong = keyed.untyped().call::<()>("add", &("five",));
        assert_eq!(kind(wrong).await, ErrorKind::Decode);
        assert_eq!(keyed.add(5).await.unwrap(), 5);
    });
}

#[test]
fn a_result_too_large_to_keep_is_returned_once_and_applied_once() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        let all = keyed.add_and_tell_all(5).await.unwrap();
        assert_eq!(all.len(), 2 << 20);
        let error = keyed.add_and_tell_all(5).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResult);
        assert!(error.message().contains("was applied"), "{error}");
        assert_eq!(balance(&world).await, 5);
    });
}

#[test]
fn a_key_that_is_none_is_refused_before_anything_is_sent() {
    run(async {
        let world = world();
        for key in [String::new(), "x".repeat(256)] {
            let keyed = account(&world).with_idempotency_key(key);
            assert_eq!(kind(keyed.add(5)).await, ErrorKind::Input);
        }
        assert_eq!(world.node.stats().events, 0);
    });
}

#[test]
fn an_answer_from_memory_waits_until_its_data_is_durable() {
    run(async {
        let world = world();
        let keyed = account(&world).with_idempotency_key("one");
        world.disk.hold_syncs();
        let (first, mut again) = (keyed.add(5), keyed.add(5));
        world.fence().await;
        assert!(!crate::support::is_answered(&mut again));
        world.disk.release_syncs();
        assert_eq!(first.await.unwrap(), 5);
        assert_eq!(again.await.unwrap(), 5);
    });
}

/// Sends a call, cuts the power after this many changes of the disk, and sends it again until it is answered.
async fn cut_and_retry(change: u64) -> bool {
    let disk = SimDisk::new();
    let world = World::on(disk, 1, classes);
    assert_eq!(balance(&world).await, 0);
    let first = world.disk.changes();
    world.disk.stop_at(first + change);
    let keyed = account(&world).with_idempotency_key("one");
    let answered = keyed.add(5).await;
    let again = World::on(world.disk.crash(change), 1, classes);
    let keyed = account(&again).with_idempotency_key("one");
    assert_eq!(keyed.add(5).await.unwrap(), 5);
    assert_eq!(balance(&again).await, 5, "cut after {change} changes");
    answered.is_ok()
}

#[test]
fn a_call_repeated_after_a_crash_is_applied_once() {
    run(async {
        let mut change = 0;
        while !cut_and_retry(change).await {
            change += 1;
        }
        assert!(change > 0, "the first cut came before the call");
    });
}

#[test]
fn calls_in_json_have_the_types_of_the_method() {
    run(async {
        let world = world();
        let stub = account(&world).untyped().clone();
        let json = async |method: &'static str, args: &str| {
            let result = stub.call_json(method, args.as_bytes().to_vec()).await;
            result.map(|result| String::from_utf8(result).unwrap())
        };
        let most = i64::MAX;
        assert_eq!(
            json("add", &format!("[{most}]")).await.unwrap(),
            format!("{{\"Ok\":{most}}}")
        );
        for (args, why) in [
            ("[]", "expected 1, got 0"),
            ("[1,2]", "expected 1, got 2"),
            ("[\"1\"]", "invalid type: string \"1\", expected i64"),
            ("[1.5]", "invalid type: floating point `1.5`, expected i64"),
            ("{}", "they are not a JSON array"),
            ("[1", "they are not a JSON array"),
        ] {
            let error = json("add", args).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(error.message().contains(why), "{error}");
        }
        let refused = json("pay", "[10]").await.unwrap();
        assert_eq!(refused, format!("{{\"Ok\":{}}}", most - 10));
    });
}
