//! Methods that are not `async`: each is one transaction.

use abide::{ErrorKind, NodeBuilder, prelude::*};

use crate::support::{World, run};

#[durable_object]
struct Till {
    ctx: Ctx,
}

impl DurableObject for Till {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

impl Till {
    fn add(&self, amount: i64) -> Result<i64> {
        let total = self.ctx.storage().get("total")?.unwrap_or(0) + amount;
        self.ctx.storage().put("total", &total)?;
        Ok(total)
    }
}

/// A `Result` under another name.
type Counted = std::result::Result<i64, String>;

#[rpc]
impl Till {
    pub fn put_in(&self, amount: i64) -> Result<i64> {
        self.add(amount)
    }

    pub fn take_out(&self, amount: i64) -> Counted {
        let total = self.add(-amount).map_err(|error| error.to_string())?;
        self.ctx
            .storage()
            .set_alarm(1_000_000)
            .map_err(|error| error.to_string())?;
        if total < 0 {
            return Err(format!("{total} would be left"));
        }
        Ok(total)
    }

    pub async fn take_out_and_keep(&self, amount: i64) -> Counted {
        self.take_out(amount)
    }

    pub fn take_out_or_panic(&self, amount: i64) -> i64 {
        let total = self.add(-amount).unwrap();
        assert!(total >= 0, "{total} would be left");
        total
    }

    /// Returns what an error would be, as a value.
    pub fn total(&self) -> i64 {
        self.ctx.storage().get("total").unwrap().unwrap_or(0)
    }

    pub fn is_reminded(&self) -> Result<bool> {
        Ok(self.ctx.storage().alarm()?.is_some())
    }

    /// One of its two parts fails, and it does not.
    pub fn exchange(&self, amount: i64) -> Option<String> {
        let storage = self.ctx.storage();
        let part = storage.transaction(|| {
            self.take_out(amount)
                .map_err(|error| Error::with_kind(ErrorKind::Input, error))
        });
        self.add(1).unwrap();
        part.err().map(|error| error.to_string())
    }
}

fn classes(node: NodeBuilder) -> NodeBuilder {
    node.class::<Till>(ClassOptions::default())
}

fn till_of(world: &World) -> Stub<Till> {
    world.env().object::<Till>().get_by_name("till")
}

#[test]
fn an_error_undoes_what_the_method_wrote() {
    run(async {
        let world = World::new(classes);
        let till = till_of(&world);
        assert_eq!(till.put_in(5).await.unwrap(), 5);
        let refused = till.take_out(6).await.unwrap();
        assert_eq!(refused, Err("-1 would be left".to_owned()));
        assert_eq!(till.total().await.unwrap(), 5);
        assert!(!till.is_reminded().await.unwrap());
        assert_eq!(till.take_out(2).await.unwrap(), Ok(3));
        assert!(till.is_reminded().await.unwrap());
        let world = World::on(world.stop().await, 1, classes);
        let till = till_of(&world);
        assert_eq!(till.total().await.unwrap(), 3);
    });
}

#[test]
fn an_error_of_an_async_method_keeps_what_it_wrote() {
    run(async {
        let world = World::new(classes);
        let till = till_of(&world);
        let refused = till.take_out_and_keep(6).await.unwrap();
        assert!(refused.is_err());
        assert_eq!(till.total().await.unwrap(), -6);
    });
}

#[test]
fn a_panic_undoes_what_the_method_wrote() {
    run(async {
        let world = World::new(classes);
        let till = till_of(&world);
        assert_eq!(till.put_in(5).await.unwrap(), 5);
        let error = till.take_out_or_panic(6).await.unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
        assert_eq!(till.total().await.unwrap(), 5);
    });
}

#[test]
fn a_caught_error_undoes_only_its_part() {
    run(async {
        let world = World::new(classes);
        let till = till_of(&world);
        let part = till.exchange(6).await.unwrap();
        assert!(part.unwrap().contains("-6 would be left"));
        assert_eq!(till.total().await.unwrap(), 1);
    });
}

#[test]
fn a_json_call_of_a_failing_method_undoes_what_it_wrote() {
    run(async {
        let world = World::new(classes);
        let till = till_of(&world);
        let answer = till.untyped().call_json("take_out", b"[6]".to_vec()).await;
        let answer = String::from_utf8(answer.unwrap()).unwrap();
        assert_eq!(answer, r#"{"Err":"-6 would be left"}"#);
        assert_eq!(till.total().await.unwrap(), 0);
    });
}
