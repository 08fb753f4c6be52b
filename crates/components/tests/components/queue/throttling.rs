//! Servers that ask for patience.

use std::time::Duration;

use abide::queue::{QueueOptions, Queues, RetryPolicy, ToHttp};

use crate::queue::support::{Script, World, plain, run};

fn to_a_server(options: QueueOptions) -> impl Fn(&Script, usize) -> Queues {
    move |_, _| {
        let to = ToHttp::new("https://example.com/mails").unwrap();
        Queues::new().with("words", options.clone(), to)
    }
}

/// The times between requests.
fn gaps(world: &World) -> Vec<u64> {
    let times = world.script.sent_at();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn a_throttling_server_uses_up_no_attempts() {
    run(async {
        let world = World::new(to_a_server(plain()));
        world.script.answer_later(20, 429, "1");
        world.send(&["a"]).await;
        world.pass_until_decided().await;
        let counts = world.counts().await;
        assert_eq!((counts.consumed, counts.dead), (1, 0), "{:?}", gaps(&world));
    });
}

#[test]
fn a_throttling_server_is_left_alone_by_all_batches() {
    run(async {
        let world = World::new(to_a_server(plain().max_batch(1)));
        // Batches that were sent before are answered.
        world.script.answer_later(1, 429, "60");
        world.send(&["a", "b", "c", "d", "e", "f"]).await;
        world.pass_until_consumed(6).await;
        let times = world.script.sent_at();
        assert_eq!(times.len(), 7);
        // Four were in flight together.
        assert!(times[4..].iter().all(|at| *at >= 60_000), "{times:?}");
    });
}

#[test]
fn retry_after_never_shortens_a_wait() {
    run(async {
        let waits = vec![Duration::from_secs(20); 3];
        let world = World::new(to_a_server(plain().retry(RetryPolicy::Schedule(waits))));
        world.script.answer_later(2, 500, "1");
        world.send(&["a"]).await;
        world.pass_until_consumed(1).await;
        assert!(
            gaps(&world).iter().all(|gap| *gap >= 20_000),
            "{:?}",
            gaps(&world)
        );
    });
}
