//! Fan-out: one command, many messages, one batch at a time.

use std::time::Duration;

use abide::outbox::{FanOutStatus, Limit, Pace, Rate};

use crate::outbox::support::{Circulate, World, note, plain, run};

fn to(count: usize) -> Circulate {
    Circulate {
        count,
        fails_at: None,
        ..Circulate::default()
    }
}

#[test]
fn one_command_becomes_many_messages_each_of_them_once() {
    run(async {
        let world = World::new(plain());
        let id = world.sender().fan_out(to(1_250)).await.unwrap();
        world.until_counts(|counts| counts.sent == 1_250).await;
        let record = &world.sender().fan_outs().await.unwrap()[0];
        assert_eq!((record.id, record.made), (id, 1_250));
        assert_eq!(record.status, FanOutStatus::Done);
        assert_eq!(world.get(7).await.fan_out, Some(id));
        let mut effects = world.script.effects();
        effects.sort();
        effects.dedup();
        assert_eq!(effects.len(), 1_250);
        assert_eq!(world.script.effects().len(), 1_250);
        world.check_counts().await;
    });
}

#[test]
fn an_interrupted_fan_out_resumes_where_it_stopped() {
    run(async {
        let mut world = World::new(plain());
        world.sender().fan_out(to(3_000)).await.unwrap();
        for life in 1..=4 {
            loop {
                let made = world.sender().fan_outs().await.unwrap()[0].made;
                if made >= 500 * life {
                    break;
                }
                tokio::task::yield_now().await;
            }
            world = world.killed();
            world.clock.advance(Duration::from_secs(5));
        }
        // A message that was on its way at each kill waits 8 s.
        world.pass(Duration::from_secs(10)).await;
        world.until_counts(|counts| counts.sent == 3_000).await;
        assert_eq!(world.sender().fan_outs().await.unwrap()[0].made, 3_000);
        world.check_counts().await;
    });
}

#[test]
fn a_fan_out_that_fails_says_why_and_what_it_made_stays() {
    run(async {
        let world = World::new(plain());
        let command = Circulate {
            count: 2_000,
            fails_at: Some(700),
            ..Circulate::default()
        };
        world.sender().fan_out(command).await.unwrap();
        world.until_counts(|counts| counts.sent == 500).await;
        world.rest().await;
        let record = &world.sender().fan_outs().await.unwrap()[0];
        assert_eq!((record.status, record.made), (FanOutStatus::Failed, 500));
        assert_eq!(record.error.as_deref(), Some("the script says so"));
        world.check_counts().await;
    });
}

#[test]
fn a_fan_out_waits_while_the_outbox_is_full() {
    run(async {
        let world = World::new(plain().max_queued(600));
        world.sender().fan_out(to(2_000)).await.unwrap();
        world.until_counts(|counts| counts.sent == 2_000).await;
        world.check_counts().await;
    });
}

#[test]
fn a_fan_out_can_be_ended() {
    run(async {
        let world = World::new(plain().pace(abide::outbox::Pace::CLASSIC).max_queued(500));
        let id = world.sender().fan_out(to(2_000)).await.unwrap();
        world.until_counts(|counts| counts.sent > 0).await;
        let record = world.sender().cancel_fan_out(id).await.unwrap();
        assert_eq!(record.status, FanOutStatus::Canceled);
        world.rest().await;
        let made = world.sender().fan_outs().await.unwrap()[0].made;
        assert!(made < 2_000);
        assert!(world.sender().cancel_fan_out(99).await.is_err());
    });
}

#[test]
fn a_failed_fan_out_is_kept_until_it_is_ended() {
    run(async {
        let world = World::new(plain().keep_finished(Duration::from_mins(1)));
        let command = Circulate {
            count: 20,
            fails_at: Some(7),
            ..Circulate::default()
        };
        let id = world.sender().fan_out(command).await.unwrap();
        world.rest().await;
        let statuses = async || {
            let all = world.sender().fan_outs().await.unwrap();
            all.iter().map(|record| record.status).collect::<Vec<_>>()
        };
        // What is forgotten is forgotten when messages are.
        let forget = async || {
            world.enqueue(note("bob", "hello")).await;
            world.pass(Duration::from_mins(3)).await;
            assert_eq!(world.counts().await.sent, 0);
        };
        forget().await;
        assert_eq!(statuses().await, [FanOutStatus::Failed]);
        world.sender().cancel_fan_out(id).await.unwrap();
        assert_eq!(statuses().await, [FanOutStatus::Canceled]);
        forget().await;
        assert_eq!(statuses().await, []);
    });
}

/// At most a thousand queued messages, and ten attempts a second to each destination.
fn slow() -> abide::outbox::OutboxOptions {
    let limit = |rate| Limit {
        rate,
        concurrency: 16,
    };
    plain().max_queued(1_000).pace(Pace::AtOnce {
        outbox: limit(None),
        destination: limit(Some(Rate::per_second(10, 1))),
    })
}

#[test]
fn a_fan_out_larger_than_the_outbox_leaves_room_for_other_messages() {
    run(async {
        let world = World::new(slow());
        world.sender().fan_out(to(5_000)).await.unwrap();
        world.rest().await;
        for number in 0..60 {
            let order = note("eve", &format!("order {number}"));
            world.sender().enqueue(order).await.unwrap();
            world.pass(Duration::from_secs(1)).await;
        }
        let effects = world.script.effects();
        let orders = effects.iter().filter(|text| text.starts_with("order"));
        assert_eq!(orders.count(), 60);
        let made = world.sender().fan_outs().await.unwrap()[0].made;
        assert!(made >= 600, "the fan-out continues: {made}");
    });
}

#[test]
fn two_fan_outs_share_the_outbox() {
    run(async {
        let world = World::new(slow());
        for name in ["a ", "b "] {
            let command = Circulate {
                name: name.to_owned(),
                ..to(5_000)
            };
            world.sender().fan_out(command).await.unwrap();
        }
        world.pass(Duration::from_mins(1)).await;
        let all = world.sender().fan_outs().await.unwrap();
        assert!(all.iter().all(|record| record.made >= 50), "{all:?}");
    });
}
