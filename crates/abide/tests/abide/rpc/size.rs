//! Arguments and results have at most 32 MiB; larger ones are an error.

use abide::{ErrorKind, limits::MAX_RPC_BYTES, prelude::*};

use crate::support::{World, run};

#[durable_object]
struct Carrier {
    ctx: Ctx,
}

impl DurableObject for Carrier {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Carrier {
    pub async fn length(&self, text: String) -> usize {
        text.len()
    }

    pub async fn text(&self, bytes: usize) -> Result<String> {
        self.ctx.storage().put("asked", &true)?;
        Ok("x".repeat(bytes))
    }

    pub async fn was_asked(&self) -> Result<bool> {
        Ok(self.ctx.storage().get("asked")?.unwrap_or_default())
    }
}

fn carrier(world: &World) -> Stub<Carrier> {
    world.env().object::<Carrier>().get_by_name("carrier")
}

fn world() -> World {
    World::new(|node| node.class::<Carrier>(ClassOptions::default()))
}

/// What CBOR adds to a text of this length that is the only argument: an array's head and a text's.
const ARGUMENT_HEADS: usize = 1 + 5;
/// What it adds to a text in `Ok`: a map's head, the key, and a text's head.
const RESULT_HEADS: usize = 1 + 3 + 5;

#[test]
fn arguments_of_32_mib_arrive_and_larger_ones_are_not_sent() {
    run(async {
        let world = world();
        let most = MAX_RPC_BYTES - ARGUMENT_HEADS;
        assert_eq!(
            carrier(&world).length("x".repeat(most)).await.unwrap(),
            most
        );
        let events = world.node.stats().events;
        let error = carrier(&world)
            .length("x".repeat(most + 1))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(!error.remote() && !error.retryable() && !error.object_reset());
        assert!(error.message().contains("the arguments take"), "{error}");
        assert_eq!(world.node.stats().events, events);
    });
}

#[test]
fn results_of_32_mib_arrive_and_larger_ones_fail_without_an_undo() {
    run(async {
        let world = world();
        let most = MAX_RPC_BYTES - RESULT_HEADS;
        let text = carrier(&world).text(most).await.unwrap();
        assert_eq!(text.len(), most);
        let error = carrier(&world).text(most + 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResult, "{error}");
        assert!(!error.remote() && !error.retryable() && !error.object_reset());
        assert!(error.message().contains("the result takes"), "{error}");
        assert!(carrier(&world).was_asked().await.unwrap());
    });
}
