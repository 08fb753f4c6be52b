//! Callbacks: an object learns that a message was sent, has failed or was canceled.

use std::time::Duration;

use abide::outbox::{OutboxOptions, RetryPolicy, Status};

use crate::outbox::support::{Act, Callback, Script, World, gone, note, plain, run};

fn world(options: OutboxOptions) -> World {
    let script = Script::default();
    script.call_back();
    World::scripted(script, options)
}

async fn told(world: &World) -> Vec<(String, String)> {
    world.sender().told().await.unwrap()
}

fn end(text: &str, status: Status) -> (String, String) {
    (text.to_owned(), status.as_str().to_owned())
}

#[test]
fn an_object_learns_how_each_message_has_ended() {
    run(async {
        let world = world(plain());
        world.script.say("dead", [gone()]);
        world.script.say("stuck", [Act::Hang]);
        for text in ["fine", "dead"] {
            world.enqueue(note(text, text)).await;
            world.rest().await;
        }
        let stuck = world.enqueue(note("bob", "stuck")).await;
        world.rest().await;
        world.sender().cancel(stuck).await.unwrap();
        world.sender().redrive(2).await.unwrap();
        world.rest().await;
        let expected = [
            end("fine", Status::Sent),
            end("dead", Status::Failed),
            end("stuck", Status::Canceled),
            end("dead", Status::Sent),
        ];
        assert_eq!(told(&world).await, expected);
        world.script.say("twice dead", [gone()]);
        let id = world.enqueue(note("bob", "twice dead")).await;
        world.until_status(id, Status::Failed).await;
        world.sender().discard(id).await.unwrap();
        assert_eq!(told(&world).await.len(), 5, "a discard is no other end");
        world.check_counts().await;
    });
}

#[test]
fn a_callback_and_the_end_are_stored_together_whenever_the_process_ends() {
    run(async {
        let mut world = world(plain());
        for number in 0..40 {
            let text = format!("m{number}");
            if number % 3 == 0 {
                world.script.say(&text, [gone()]);
            }
            world.enqueue(note(&text, &text)).await;
            for _ in 0..number % 4 {
                world.sender().fence().await.unwrap();
            }
            if number % 5 == 0 {
                world = match number % 2 {
                    0 => world.killed(),
                    _ => world.crashed(number),
                };
            }
            assert!(world.sender().all_ends_are_told().await.unwrap());
        }
        world.pass(Duration::from_secs(20)).await;
        let mut texts: Vec<_> = told(&world).await;
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 40);
        assert_eq!(told(&world).await.len(), 40);
        world.check_counts().await;
    });
}

#[test]
fn an_end_at_a_restart_reaches_the_callback() {
    run(async {
        let options = plain().retry(RetryPolicy::Schedule(Vec::new()));
        let mut world = world(options);
        world.script.say("poison", [Act::Hang, Act::Hang]);
        let id = world.enqueue(note("bob", "poison")).await;
        for attempts in 1..=2 {
            while world.script.calls().len() < attempts {
                world.pass(Duration::from_secs(1)).await;
            }
            world = world.killed();
        }
        world.until_status(id, Status::Failed).await;
        assert_eq!(told(&world).await, [end("poison", Status::Failed)]);
    });
}

#[test]
fn a_callback_that_fails_is_repeated_and_holds_nothing_up() {
    for act in [Callback::Fail, Callback::Panic] {
        run(async move {
            let mut world = world(plain());
            world.script.answer("hello", [act; 3]);
            let id = world.enqueue(note("bob", "hello").ordering_key("k")).await;
            let behind = world.enqueue(note("bob", "behind").ordering_key("k")).await;
            world.until_status(behind, Status::Sent).await;
            assert_eq!(world.status(id).await, Status::Sent);
            assert_eq!(told(&world).await, [end("behind", Status::Sent)]);
            let owed = world.sender().callbacks().await.unwrap();
            assert_eq!(owed.len(), 1);
            assert_eq!(
                (owed[0].message, owed[0].tries, owed[0].sent),
                (id, 1, true)
            );
            // The message of a panic is in the log alone.
            let error = match act {
                Callback::Panic => "the callback panicked; the log has its message, as panic ",
                _ => "the script says so",
            };
            assert!(owed[0].error.starts_with(error), "{owed:?}");
            world = world.killed();
            // After 2, 4 and 8 s, each up to a quarter longer.
            world.pass(Duration::from_secs(20)).await;
            let ends = [end("behind", Status::Sent), end("hello", Status::Sent)];
            assert_eq!(told(&world).await, ends);
            assert_eq!(world.sender().callbacks().await.unwrap(), []);
            assert_eq!(world.script.effects(), ["hello", "behind"]);
            world.check_counts().await;
        });
    }
}

#[test]
fn a_callback_without_tries_left_waits_for_an_operator() {
    run(async {
        let world = world(plain().keep_finished(Duration::from_mins(1)));
        world.script.answer("hello", [Callback::Fail; 12]);
        world.enqueue(note("bob", "hello")).await;
        let owed = async || world.sender().callbacks().await.unwrap();
        world.rest().await;
        while owed().await[0].next_at.is_some() {
            world.clock.advance(Duration::from_mins(1));
            world.sender().fence().await.unwrap();
            world.sender().fence().await.unwrap();
        }
        assert_eq!(owed().await[0].tries, 12);
        world.pass(Duration::from_mins(2)).await;
        assert_eq!(
            world.counts().await.sent,
            0,
            "the message is no longer kept"
        );
        let repeated = world.sender().repeat_callbacks().await.unwrap();
        assert_eq!(repeated, 1);
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(told(&world).await, [end("hello", Status::Sent)]);
        assert_eq!(owed().await, []);
    });
}

#[test]
fn a_callback_can_enqueue_and_end_other_messages() {
    run(async {
        let world = world(plain());
        world.script.say("stuck", [Act::Hang]);
        let stuck = world.enqueue(note("eve", "stuck")).await;
        world.rest().await;
        world.script.answer("one", [Callback::Enqueue]);
        world.script.answer("two", [Callback::Cancel(stuck)]);
        for text in ["one", "two"] {
            world.enqueue(note("bob", text)).await;
        }
        world.rest().await;
        assert_eq!(world.status(stuck).await, Status::Canceled);
        let mut effects = world.script.effects();
        effects.sort();
        assert_eq!(effects, ["after one", "one", "two"]);
        world.check_counts().await;
    });
}

#[test]
fn a_redrive_withdraws_a_failed_callback() {
    run(async {
        let world = world(plain());
        world.script.say("hello", [gone()]);
        world.script.answer("hello", [Callback::Fail]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.until_status(id, Status::Failed).await;
        world.sender().redrive(id).await.unwrap();
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(told(&world).await, [end("hello", Status::Sent)]);
    });
}
