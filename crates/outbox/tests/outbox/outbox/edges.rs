//! Edge cases: the largest payloads and errors, alarms of the object's own, panics beside the handlers, much to
//! one destination, limits that meet.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::outbox::{
    self, Batch, BehindDeadLetter, Breaker, Counts, DeadLetterFilter, Deliver, Delivery, Failure,
    FanOut, Outbox, OutboxError, OutboxOptions, Pace, Polling, Registry, Status, Submitted, limits,
};
use abide::{
    Node,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};
use abide_harness::until;

use crate::{
    outbox::support::{Act, Circulate, World, at_a_time, gone, note, plain, refused, run},
    world::store,
};

/// What the objects of these tests share with them.
#[derive(Clone)]
struct Shared {
    options: Arc<OutboxOptions>,
    /// Held by each listener.
    token: Arc<()>,
    listener_panics: Arc<AtomicBool>,
}

struct Easy;

impl Deliver for Easy {
    type Payload = String;
    const KIND: &'static str = "easy";

    async fn submit(&self, _: &Delivery, _: &String) -> Result<Submitted, Failure> {
        Ok(Submitted::Done)
    }
}

struct Poison;

impl FanOut for Poison {
    type Command = ();
    const NAME: &'static str = "poison";

    fn batch(&self, _: &Storage, (): &(), _: Option<&str>, _: usize) -> Result<Batch> {
        panic!("the test wants it")
    }
}

/// An object with an outbox, a listener and its own alarm.
#[durable_object]
struct Owner {
    ctx: Ctx,
    outbox: Outbox,
}

impl DurableObject for Owner {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let shared = env.require::<Shared>()?;
        let options = (*shared.options).clone();
        let outbox = Outbox::open(&ctx, options)?;
        let token = Arc::clone(&shared.token);
        let panics = Arc::clone(&shared.listener_panics);
        outbox.on_change(move |_| {
            assert!(
                Arc::strong_count(&token) > 0 && !panics.load(Ordering::SeqCst),
                "the test wants it"
            );
        });
        Ok(Self { ctx, outbox })
    }
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Owner {
    pub async fn enqueue(&self, text: String) -> Result<i64, OutboxError> {
        Ok(Easy::enqueue(&self.outbox, &text)?.id)
    }

    pub async fn poison(&self) -> Result<i64, OutboxError> {
        self.outbox.fan_out::<Poison>(&())
    }

    /// As the example in the outbox's documentation does it.
    pub async fn join(&self, name: String, kind: String) -> Result<()> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            storage.put("member", &name)?;
            let message = outbox::OutboxMessage::from_json(kind, "{}");
            self.outbox.enqueue(&message)?;
            Ok(())
        })
    }

    pub async fn member(&self) -> Result<Option<String>> {
        self.ctx.storage().get("member")
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn set_own_alarm(&self, at: i64) -> Result<()> {
        self.ctx.storage().set_alarm(at)
    }

    pub async fn alarm_time(&self) -> Result<Option<i64>> {
        let at = self.ctx.storage().alarm()?;
        Ok(at.map(Timestamp::unix_millis))
    }

    pub async fn fence(&self) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put("fence", &1)?;
        storage.sync().await
    }
}

struct Small {
    node: Node,
    clock: TestClock,
    shared: Shared,
}

impl Small {
    fn new() -> Self {
        let shared = Shared {
            options: Arc::new(plain()),
            token: Arc::new(()),
            listener_panics: Arc::new(AtomicBool::new(false)),
        };
        let clock = TestClock::default();
        let node = Node::builder(store(&SimDisk::new(), &clock))
            .class::<Owner>(ClassOptions::default())
            .with(Registry::new().with(Easy).with_fan_out(Poison))
            .with(shared.clone())
            .clock(Arc::new(clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        Self {
            node,
            clock,
            shared,
        }
    }

    fn owner(&self) -> Stub<Owner> {
        self.node.env().object::<Owner>().get_by_name("ada")
    }

    /// Moves the clock for this many seconds.
    async fn pass(&self, seconds: u32) {
        for _ in 0..seconds * 2 {
            for _ in 0..6 {
                let _ = self.owner().fence().await;
            }
            self.clock.advance(Duration::from_millis(500));
        }
    }

    async fn sent(&self) -> i64 {
        loop {
            if let Ok(counts) = self.owner().counts().await {
                return counts.sent;
            }
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn the_objects_own_alarm_outlives_a_delivery() {
    run(async {
        let small = Small::new();
        let hour = small.clock.unix_millis().cast_signed() + 3_600_000;
        small.owner().set_own_alarm(hour).await.unwrap();
        small.owner().enqueue("hello".into()).await.unwrap();
        small.pass(1).await;
        assert_eq!(small.sent().await, 1);
        let alarm = small.owner().alarm_time().await.unwrap().unwrap();
        assert!(alarm <= hour, "{} ms later", alarm - hour);
    });
}

#[test]
fn the_objects_own_alarm_goes_off_in_time_while_something_is_on_its_way() {
    run(async {
        let world = World::new(plain());
        world.script.say("slow", [Act::Hang]);
        world.enqueue(note("bob", "slow")).await;
        // The outbox wakes its object every 5 s meanwhile.
        let at = world.now() + 6_000;
        world.sender().set_own_alarm(at).await.unwrap();
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.sender().rang().await.unwrap(), None);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.sender().rang().await.unwrap(), Some(at));
        assert_eq!(world.counts().await.sending, 1);
    });
}

#[test]
fn the_object_s_own_alarm_does_not_stop_the_outbox_s_retries() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [refused(), refused(), refused()]);
        let id = world.enqueue(note("bob", "hello")).await;
        // The third attempt is due after 1 s + 2 s, the fourth 4 s later.
        world.pass(Duration::from_secs(4)).await;
        let hour = world.now() + 3_600_000;
        world.sender().set_own_alarm(hour).await.unwrap();
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn an_object_restarts_after_a_crash_with_the_largest_payloads() {
    run(async {
        let world = World::new(OutboxOptions::default());
        let long = "x".repeat(limits::MAX_PAYLOAD_BYTES - 100);
        // They have as many at a time as they may once they have answered.
        for number in 0..12 {
            let first = note(&format!("to {}", number % 4), &format!("first {number}"));
            world.enqueue(first).await;
        }
        world.until_counts(|counts| counts.sent == 12).await;
        for number in 0..64 {
            let text = format!("{number}{long}");
            world.script.say(&text, [Act::Hang]);
            let message = note(&format!("to {}", number % 4), &text);
            world.enqueue(message).await;
        }
        world.until_counts(|counts| counts.sending == 64).await;
        let world = world.killed();
        let is_settled = |counts: Counts| (counts.sending, counts.queued) == (0, 64);
        world.until_counts(is_settled).await;
    });
}

#[test]
fn the_largest_payloads_are_sent_although_many_are_due() {
    run(async {
        let world = World::new(plain().pace(Pace::unlimited(100)));
        let long = "x".repeat(limits::MAX_PAYLOAD_BYTES - 100);
        let at = world.now() + 1_000;
        for number in 0..70 {
            let message = note("bob", &format!("{number}{long}"));
            world.enqueue(message.not_before(at)).await;
        }
        world.pass(Duration::from_secs(7)).await;
        assert_eq!(world.counts().await.sent, 70);
        world.check_counts().await;
    });
}

#[test]
fn an_error_of_any_length_has_a_clear_result() {
    run(async {
        let world = World::new(plain());
        let long = "x".repeat(3 << 20);
        let act = || Act::Submit(Err(Failure::refused(long.clone())));
        world.script.say("bad", std::iter::repeat_with(act).take(5));
        let bad = world.enqueue(note("bob", "bad")).await;
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.status(bad).await, Status::Failed);
        world.check_counts().await;
    });
}

#[test]
fn a_history_keeps_no_more_of_an_error_than_its_row() {
    run(async {
        let world = World::new(plain());
        let long = "x".repeat(1 << 20);
        world
            .script
            .say("bad", [Act::Submit(Err(Failure::refused(long)))]);
        let bad = world.enqueue(note("bob", "bad")).await;
        world.until(bad, |record| record.last_error.is_some()).await;
        let history = world.sender().history(bad).await.unwrap();
        for change in history {
            let bytes = change.detail.unwrap_or_default().len();
            assert!(bytes <= limits::MAX_ERROR_BYTES, "{bytes} bytes");
        }
    });
}

#[test]
fn an_outbox_leaves_memory_with_its_object() {
    run(async {
        let small = Small::new();
        small.owner().enqueue("hello".into()).await.unwrap();
        small.pass(1).await;
        assert_eq!(small.sent().await, 1);
        small.clock.advance(Duration::from_mins(1));
        // The test's own, and the node's.
        until("the listener to go", async || {
            let held = Arc::strong_count(&small.shared.token);
            (small.node.stats().resident == 0 && held == 2).then_some(())
        })
        .await;
    });
}

#[test]
fn a_fan_out_that_panics_does_not_stop_the_outbox() {
    run(async {
        let small = Small::new();
        let _ = small.owner().poison().await;
        small.pass(1).await;
        let mut taken = false;
        for _ in 0..20 {
            taken = taken || small.owner().enqueue("hello".into()).await.is_ok();
            small.pass(1).await;
        }
        assert!(taken);
        assert!(small.sent().await > 0, "nothing is sent any more");
    });
}

#[test]
fn a_listener_that_panics_does_not_stop_the_outbox() {
    run(async {
        let small = Small::new();
        small.shared.listener_panics.store(true, Ordering::SeqCst);
        let _ = small.owner().enqueue("hello".into()).await;
        small.pass(60).await;
        assert_eq!(small.sent().await, 1);
    });
}

fn accepted() -> Act {
    Act::Submit(Ok(Submitted::Accepted {
        operation: "op".into(),
        after: Some(Duration::from_secs(1)),
    }))
}

#[test]
fn operations_that_do_not_answer_do_not_hold_up_what_goes_elsewhere() {
    run(async {
        let world = World::new(at_a_time(4, 2));
        for number in 0..12 {
            let text = format!("b{number}");
            let hangs = std::iter::repeat_n(Act::Hang, 100);
            world
                .script
                .say(&text, std::iter::once(accepted()).chain(hangs));
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_secs(3)).await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.pass(Duration::from_mins(2)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn polls_count_among_what_is_on_its_way_to_a_destination() {
    run(async {
        let world = World::new(at_a_time(64, 2));
        for number in 0..10 {
            let text = format!("b{number}");
            world.script.say(&text, [accepted(), Act::Hang]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_secs(3)).await;
        assert!(world.script.most() <= 2, "{}", world.script.most());
    });
}

#[test]
fn polls_that_an_overloaded_node_missed_do_not_count() {
    run(async {
        let world = World::new(
            plain().polling(
                Polling::default()
                    .interval(Duration::from_secs(1))
                    .deadline(Duration::from_secs(100))
                    .max_errors(3),
            ),
        );
        let busy = || Act::Poll(Err(Failure::not_sent("busy here")));
        let acts = std::iter::once(accepted()).chain(std::iter::repeat_with(busy).take(4));
        world.script.say("hello", acts);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn a_fan_out_is_made_also_by_an_outbox_that_holds_few_messages() {
    run(async {
        let world = World::new(plain().max_queued(100));
        let command = Circulate {
            count: 300,
            fails_at: None,
            ..Circulate::default()
        };
        world.sender().fan_out(command).await.unwrap();
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.counts().await.sent, 300);
    });
}

#[test]
fn dead_letters_are_redriven_oldest_first() {
    run(async {
        let world = World::new(plain());
        for text in ["a", "b", "c"] {
            world.script.say(text, [gone()]);
            world.enqueue(note("bob", text)).await;
        }
        world.until_counts(|counts| counts.failed == 3).await;
        let filter = DeadLetterFilter::default().limit(2);
        let swept = world.sender().redrive_all(filter).await.unwrap();
        assert_eq!((swept.count, swept.more), (2, true));
        world.until_counts(|counts| counts.sent == 2).await;
        assert_eq!(world.script.last(2), ["a", "b"]);
    });
}

#[test]
fn a_destination_with_much_to_do_lets_another_have_its_turn() {
    run(async {
        let world = World::new(plain().pace(Pace::unlimited(4)));
        let many = (0..300).map(|number| note("bob", &format!("b{number}")));
        world.enqueue_all(many.chain([note("eve", "hello")])).await;
        world.until_counts(|counts| counts.sent == 301).await;
        let calls = world.script.calls();
        let place = calls.iter().position(|call| call.text == "hello").unwrap();
        assert!(place < 50, "it is the {place}th");
    });
}

#[test]
fn the_pause_between_probes_doubles_despite_a_shorter_retry_after() {
    run(async {
        let world = World::new(
            plain().pace(Pace::unlimited(1)).breaker(
                Breaker::default()
                    .failures(1)
                    .pause(Duration::from_secs(20))
                    .max_pause(Duration::from_mins(1)),
            ),
        );
        for number in 0..5 {
            let act = || {
                let failure = Failure::refused("503").retry_after(Some(Duration::from_secs(1)));
                Act::Submit(Err(failure))
            };
            let text = format!("b{number}");
            world.script.say(&text, std::iter::repeat_with(act).take(9));
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_secs(21)).await;
        assert_eq!(world.script.calls().len(), 2, "one, and a probe after 20 s");
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.script.calls().len(), 2, "the next after 40 s more");
    });
}

#[test]
fn a_message_that_was_enqueued_is_known_also_after_its_deadline() {
    run(async {
        let world = World::new(plain());
        let deadline = world.now() + 1_000;
        let message = note("bob", "hello").dedup_key("k").deadline(deadline);
        let id = world.enqueue(message.clone()).await;
        world.until_status(id, Status::Sent).await;
        world.pass(Duration::from_secs(2)).await;
        let again = world.sender().enqueue(message).await.unwrap();
        assert!(again.duplicate);
    });
}

#[test]
fn messages_behind_a_dead_letter_move_when_the_program_now_allows_it() {
    run(async {
        let world = World::new(plain());
        world.script.say("a", [gone()]);
        for text in ["a", "b"] {
            world.enqueue(note("bob", text).ordering_key("k")).await;
        }
        world.until_counts(|counts| counts.failed == 1).await;
        world.rest().await;
        let options = plain().behind_dead_letter(BehindDeadLetter::GoOn);
        let world = world.killed_with(options);
        world.enqueue(note("bob", "c").ordering_key("k")).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.script.effects(), ["b", "c"]);
    });
}

#[test]
fn a_change_whose_message_is_refused_is_not_made() {
    run(async {
        let small = Small::new();
        let joined = small.owner().join("ada".into(), "unknown".into()).await;
        assert!(joined.is_err());
        let member = small.owner().member().await.unwrap();
        assert_eq!(member, None, "both, or neither");
    });
}

#[test]
fn ticks_continue_when_the_wall_clock_is_set_back() {
    run(async {
        let world = World::new(plain().pace(Pace::CLASSIC));
        let first = world.enqueue(note("bob", "first")).await;
        world.until_status(first, Status::Sent).await;
        world.clock.set_wall(-86_400_000);
        let other = world.enqueue(note("bob", "other")).await;
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.status(other).await, Status::Sent);
    });
}

#[test]
fn a_message_that_waits_long_does_not_hold_back_its_destination() {
    run(async {
        let world = World::new(plain());
        let throttled = Act::Submit(Err(Failure::throttled("429", None)));
        world.script.say("patient", [throttled]);
        let year = Duration::from_hours(24 * 365);
        world
            .enqueue(note("bob", "patient").schedule(&[year]))
            .await;
        world.rest().await;
        let other = world.enqueue(note("bob", "other")).await;
        for _ in 0..50 {
            world.clock.advance(Duration::from_hours(1));
            world.rest().await;
        }
        assert_eq!(world.status(other).await, Status::Sent);
    });
}

#[test]
fn queued_messages_wait_when_the_one_ahead_becomes_a_dead_letter() {
    run(async {
        let world = World::new(plain());
        world.script.say("a1", [gone()]);
        let all = ["a1", "a2"].map(|text| note("bob", text).ordering_key("a"));
        world.enqueue_all(all).await;
        world.until_counts(|counts| counts.failed == 1).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.counts().await.queued, 1);
        assert!(world.script.effects().is_empty());
    });
}

#[test]
fn no_attempt_begins_after_the_deadline_however_many_messages_have_one() {
    run(async {
        let world = World::new(plain().pace(Pace::unlimited(1_000)));
        let throttled = Failure::throttled("429", Some(Duration::from_secs(10)));
        world.script.say("first", [Act::Submit(Err(throttled))]);
        let first = world.enqueue(note("bob", "first")).await;
        world
            .until(first, |record| record.last_error.is_some())
            .await;
        // They are due when the destination has rested, and their deadline has passed then.
        let deadline = world.now() + 5_000;
        let late = |number| note("bob", &format!("late {number}")).deadline(deadline);
        let count = 3 * limits::MAX_SWEPT;
        world.enqueue_all((0..count).map(late)).await;
        world.clock.advance(Duration::from_secs(30));
        world
            .until_counts(|counts| counts.queued + counts.sending == 0)
            .await;
        let counts = world.counts().await;
        assert_eq!(counts.failed, i64::try_from(count).unwrap(), "{counts:?}");
    });
}

#[test]
fn operations_of_one_destination_are_asked_about_as_fast_as_it_answers() {
    run(async {
        let world = World::new(at_a_time(64, 2));
        for number in 0..100 {
            let text = format!("b{number}");
            world.script.say(&text, [accepted()]);
            world.enqueue(note("bob", &text)).await;
        }
        // The first answers of all of them come after a second; then there is a turn every 25 ms.
        for _ in 0..250 {
            world.clock.advance(Duration::from_millis(20));
            world.rest().await;
        }
        assert_eq!(world.counts().await.sent, 100);
        assert!(world.script.most() <= 2, "{}", world.script.most());
    });
}
