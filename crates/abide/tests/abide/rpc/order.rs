//! Calls on one stub start in the order in which they were made, whatever they are and wherever they come from.

use abide::{Call, prelude::*, storage::SimDisk};

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Teller {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Teller {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        self.hear(request.uri().path().trim_start_matches('/').to_owned())
            .await;
        Ok(Response::new(Body::empty()))
    }
}

#[rpc]
impl Teller {
    pub async fn hear(&self, number: String) {
        self.signals.note(number);
    }

    /// Calls another object many times, by RPC and by HTTP, now with a write before it and now without.
    pub async fn tell(&self, other: String, count: u32) -> Result<()> {
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        let mut sent = Vec::new();
        for number in 0..count {
            if number % 3 == 0 {
                self.ctx.storage().put("key", &number)?;
            }
            sent.push(Sent::to(&other, number));
            if number % 2 == 0 {
                tokio::task::yield_now().await;
            }
        }
        for sent in sent {
            sent.arrived().await?;
        }
        Ok(())
    }

    pub async fn write(&self) -> Result<()> {
        self.ctx.storage().put("key", &1)
    }

    pub async fn write_and_tell(&self, other: String) -> Result<()> {
        self.write().await?;
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        other.hear("told".to_owned()).await
    }
}

/// A call of one kind or the other.
enum Sent {
    Rpc(Call<()>),
    Http(Call<Response>),
}

impl Sent {
    fn to(teller: &Stub<Teller>, number: u32) -> Self {
        if number % 5 < 3 {
            return Self::Rpc(teller.hear(number.to_string()));
        }
        let request = Request::builder().uri(format!("/{number}"));
        Self::Http(teller.fetch(request.body(Body::empty()).unwrap()))
    }

    async fn arrived(self) -> Result<()> {
        match self {
            Self::Rpc(call) => call.await,
            Self::Http(call) => call.await.map(drop),
        }
    }
}

fn world(workers: usize) -> World {
    World::on(SimDisk::new(), workers, |node| {
        node.class::<Teller>(ClassOptions::default())
    })
}

fn teller(world: &World, name: &str) -> Stub<Teller> {
    world.env().object::<Teller>().get_by_name(name)
}

fn numbers(count: u32) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

#[test]
fn calls_on_one_stub_start_in_the_order_in_which_they_were_made() {
    run(async {
        let world = world(1);
        let teller = teller(&world, "a");
        let mut last = None;
        for number in 0..50 {
            let sent = Sent::to(&teller, number);
            // Most futures are dropped: a call is on its way when it is made.
            if number % 10 == 9 {
                last = Some(sent);
            }
        }
        last.unwrap().arrived().await.unwrap();
        assert_eq!(world.signals.notes(), numbers(50));
    });
}

#[test]
fn an_object_s_calls_start_in_order_although_some_wait_for_the_log() {
    run(async {
        let world = world(2);
        world.disk.hold_syncs();
        let telling = teller(&world, "a").tell("b".into(), 60);
        world.until(|node| node.stats().held >= 60).await;
        assert!(world.signals.notes().is_empty());
        world.disk.release_syncs();
        telling.await.unwrap();
        assert_eq!(world.signals.notes(), numbers(60));
    });
}

#[test]
fn a_result_leaves_through_the_callees_output_gate() {
    run(async {
        let world = world(1);
        world.disk.hold_syncs();
        let mut call = teller(&world, "a").write();
        world.fence().await;
        assert!(!is_answered(&mut call));
        world.disk.release_syncs();
        call.await.unwrap();
    });
}

#[test]
fn a_call_leaves_through_the_callers_output_gate() {
    run(async {
        let world = world(1);
        world.disk.hold_syncs();
        let call = teller(&world, "a").write_and_tell("b".into());
        world.fence().await;
        assert!(world.signals.notes().is_empty());
        world.disk.release_syncs();
        call.await.unwrap();
        assert_eq!(world.signals.notes(), ["told"]);
    });
}
