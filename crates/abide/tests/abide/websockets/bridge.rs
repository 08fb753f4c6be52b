//! An object that serves a socket of another object as its client.

use std::cell::RefCell;

use abide::{prelude::*, socket::Endpoint};

use crate::{
    support::{Signals, World, is_answered, run, signals},
    websockets::room::{Room, client_of, request},
};

#[durable_object]
struct Bridge {
    ctx: Ctx,
    signals: Signals,
    endpoint: RefCell<Option<Endpoint>>,
}

impl DurableObject for Bridge {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            endpoint: RefCell::default(),
        })
    }
}

#[rpc]
impl Bridge {
    pub async fn join(&self) -> Result<()> {
        let room = self.ctx.env().object::<Room>().get_by_name("room");
        let response = room.fetch(request("/")).await?;
        *self.endpoint.borrow_mut() = Some(client_of(response).claim()?);
        Ok(())
    }

    /// Writes, and says something in the room; then it leaves.
    pub async fn write_say_and_leave(&self) -> Result<()> {
        self.ctx.storage().put("key", &1)?;
        let mut endpoint = self.endpoint.take().unwrap();
        endpoint.deliver("note written").await.unwrap();
        Ok(())
    }

    /// The same, in its own task.
    pub async fn write_and_say_beside(&self) -> Result<()> {
        self.ctx.storage().put("key", &1)?;
        let mut endpoint = self.endpoint.take().unwrap();
        let signals = self.signals.clone();
        tokio::spawn(async move {
            let refused = endpoint.deliver("note written").await.unwrap_err();
            signals.note(refused.reason.to_string());
            signals.give("refused");
        });
        Ok(())
    }
}

async fn world() -> (World, Stub<Bridge>) {
    let world = World::new(|node| {
        node.class::<Room>(ClassOptions::default())
            .class::<Bridge>(ClassOptions::default())
    });
    let bridge = world.env().object::<Bridge>().get_by_name("bridge");
    bridge.join().await.unwrap();
    (world, bridge)
}

fn notes(world: &World) -> Vec<String> {
    let mut notes = world.signals.notes();
    notes.retain(|note| note != "new");
    notes
}

#[test]
fn a_client_socket_s_frames_and_close_wait_for_durable_writes() {
    run(async {
        let (world, bridge) = world().await;
        world.disk.hold_syncs();
        let mut call = bridge.write_say_and_leave();
        world.fence().await;
        assert!(!is_answered(&mut call));
        assert_eq!(notes(&world), [""; 0]);
        world.disk.release_syncs();
        call.await.unwrap();
        world.until(|_| notes(&world).len() == 2).await;
        let notes = notes(&world);
        assert_eq!(notes[0], "written");
        assert!(notes[1].contains("1006"), "{notes:?}");
    });
}

#[test]
fn sending_on_a_client_socket_from_a_spawned_task_is_refused() {
    run(async {
        let (world, bridge) = world().await;
        world.disk.hold_syncs();
        let _call = bridge.write_and_say_beside();
        world.signals.wait("refused").await;
        let notes = notes(&world);
        assert!(notes[0].contains("ctx.spawn"), "{notes:?}");
        assert!(!notes.contains(&"written".to_owned()));
        world.disk.release_syncs();
    });
}
