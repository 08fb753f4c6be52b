//! Silent destinations, and the messages to others meanwhile.

use std::time::Duration;

use abide::outbox::{Pace, Status};

use crate::support::{Act, World, note, plain, run};

#[test]
fn destinations_that_are_silent_do_not_hold_up_others() {
    run(async {
        let world = World::new(plain().pace(Pace::default()));
        for who in 0..4 {
            for number in 0..16 {
                let text = format!("silent {who} {number}");
                world.script.say(&text, [Act::Hang]);
                world.enqueue(note(&format!("silent{who}"), &text)).await;
            }
        }
        world.rest().await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn destinations_that_have_answered_are_not_held_up_by_any_number_of_silent_ones() {
    run(async {
        let world = World::new(plain().pace(Pace::default()));
        world.enqueue(note("eve", "first")).await;
        world.pass(Duration::from_secs(1)).await;
        for who in 0..60 {
            for number in 0..5 {
                let text = format!("silent {who} {number}");
                world.script.say(&text, [Act::Hang]);
                world.enqueue(note(&format!("silent{who}"), &text)).await;
            }
        }
        world.rest().await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}
