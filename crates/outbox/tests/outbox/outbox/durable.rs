//! Nothing is sent before its attempt is on disk.

use std::time::Duration;

use abide::{
    outbox::handlers::{HttpCall, HttpDelivery},
    outbox::{Deliver as _, Status},
};

use crate::outbox::support::{World, plain, run};

const URL: &str = "https://example.com/orders";

#[test]
fn a_request_leaves_when_its_attempt_is_on_disk_and_not_before() {
    run(async {
        let world = World::new(plain());
        // The outbox waits for it in memory: no alarm has to be written first.
        let soon = world.now() + 500;
        let message = HttpDelivery::message(&HttpCall::post(URL)).unwrap();
        let id = world.enqueue(message.not_before(soon)).await;
        let written = world.node.store().stats().appended_lsn;
        world.disk.hold_syncs();
        while world.node.store().stats().appended_lsn == written {
            world.clock.advance(Duration::from_millis(100));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The attempt is written, and not on disk.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(world.script.requests().is_empty());
        world.disk.release_syncs();
        world.until_status(id, Status::Sent).await;
        assert_eq!(world.script.requests(), [URL]);
    });
}
