//! Consumers that end the process.

use crate::queue::support::{Act, World, plain, run, words_with};

#[test]
fn a_message_in_flight_with_one_that_ends_the_process_is_not_given_up() {
    run(async {
        let mut world = World::new(words_with(plain().max_batch(1)));
        world.script.say("bad", vec![Act::Hang; 20]);
        world.script.say("a", vec![Act::HangUnlessAlone; 20]);
        world.script.say("b", vec![Act::HangUnlessAlone; 20]);
        world.send(&["a", "bad", "b"]).await;
        let mut attempts = 0;
        loop {
            world
                .pass_until("an attempt, or all is decided", async || {
                    world.script.times("bad").len() > attempts || world.counts().await.messages == 0
                })
                .await;
            if world.script.times("bad").len() == attempts {
                break;
            }
            attempts = world.script.times("bad").len();
            world = world.killed();
        }
        let counts = world.counts().await;
        assert_eq!((counts.consumed, counts.dead), (2, 1));
        let letters = world.queue("words").dead_letters(1).await.unwrap();
        assert_eq!(letters[0].body, "\"bad\"");
    });
}
