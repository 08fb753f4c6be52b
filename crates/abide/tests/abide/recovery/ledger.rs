//! The object that the tests restore: a text, what it was set to before in memory, and its bookmarks.

use std::{
    cell::RefCell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use abide::{ClassOptions, clock::Clock as _, prelude::*};

use crate::support::{Signals, World, signals};

#[durable_object]
pub(crate) struct Ledger {
    ctx: Ctx,
    signals: Signals,
    memory: RefCell<Vec<String>>,
}

impl DurableObject for Ledger {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        signals.note("made");
        Ok(Self {
            ctx,
            signals,
            memory: RefCell::default(),
        })
    }
}

#[rpc]
impl Ledger {
    /// Sets the text. Returns the bookmark of the commit.
    pub(crate) async fn set(&self, text: String) -> Result<Bookmark> {
        self.memory.borrow_mut().push(text.clone());
        self.ctx.storage().put("text", &text)?;
        self.ctx.storage().bookmark()
    }

    pub(crate) async fn get(&self) -> Result<Option<String>> {
        self.ctx.storage().get("text")
    }

    pub(crate) async fn memory(&self) -> Vec<String> {
        self.memory.borrow().clone()
    }

    pub(crate) async fn called(&self) -> Option<String> {
        self.ctx.name()
    }

    pub(crate) async fn bookmark(&self) -> Result<Bookmark> {
        self.ctx.storage().bookmark()
    }

    pub(crate) async fn bookmark_at(&self, unix_millis: u64) -> Result<Bookmark> {
        let time = UNIX_EPOCH + Duration::from_millis(unix_millis);
        self.ctx.storage().bookmark_at(time).await
    }

    /// Asks for a restore; the object lives on.
    pub(crate) async fn restore_next(&self, to: Bookmark) -> Result<Bookmark> {
        self.ctx.storage().restore_at_next_start(&to)
    }

    /// Asks for a restore and makes it happen, after a write that the abort undoes.
    pub(crate) async fn restore_now(&self, to: Bookmark) -> Result<()> {
        self.ctx.storage().put("text", "undone")?;
        self.ctx.storage().restore_at_next_start(&to)?;
        self.ctx.abort("to be restored");
        Ok(())
    }

    /// Has itself restored, after a write that counts.
    pub(crate) async fn restore(&self, to: Bookmark, text: Option<String>) -> Result<Bookmark> {
        if let Some(text) = text {
            self.ctx.storage().put("text", &text)?;
        }
        self.ctx.restore(&to)
    }

    /// The same, and waits for what does not come.
    pub(crate) async fn restore_and_wait(&self, to: Bookmark) -> Result<()> {
        self.ctx.restore(&to)?;
        self.signals.wait("never").await;
        Ok(())
    }

    /// Asks for a restore and panics.
    pub(crate) async fn restore_and_panic(&self, to: Bookmark) -> Result<()> {
        self.ctx.storage().restore_at_next_start(&to)?;
        panic!("after the request");
    }

    pub(crate) async fn abort(&self) {
        self.ctx.abort("for the test");
    }

    /// Waits for the test.
    pub(crate) async fn wait(&self) {
        self.signals.give("waiting");
        self.signals.wait("go").await;
    }
}

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

pub(crate) fn world() -> World {
    World::new(|node| node.class::<Ledger>(ClassOptions::default()))
}

pub(crate) fn ledger(world: &World, name: &str) -> Stub<Ledger> {
    world.env().object::<Ledger>().get_by_name(name)
}

pub(crate) fn now(world: &World) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(world.clock.unix_millis())
}
