//! A class that a program no longer has is deleted with its objects.

use std::{path::Path, sync::Arc};

use abide::{
    Node, NodeBuilder,
    prelude::*,
    storage::{AlarmState, SimDisk, Store, StoreOptions},
};

use crate::support::run;

#[durable_object]
struct Draft {
    ctx: Ctx,
}

impl DurableObject for Draft {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Draft {
    pub fn write(&self, text: String) -> Result<()> {
        let storage = self.ctx.storage();
        storage.set_alarm(self.ctx.now() + std::time::Duration::from_hours(1))?;
        storage.put("text", &text)
    }

    pub fn text(&self) -> Result<Option<String>> {
        self.ctx.storage().get("text")
    }
}

#[durable_object]
struct Letter {
    ctx: Ctx,
}

impl DurableObject for Letter {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Letter {
    pub fn send(&self) -> Result<i64> {
        let sent = self.ctx.storage().get("sent")?.unwrap_or(0) + 1;
        self.ctx.storage().put("sent", &sent)?;
        Ok(sent)
    }
}

/// One run of a program on a disk: starts it, does something, and stops it.
fn life<R>(
    disk: &SimDisk,
    classes: impl FnOnce(NodeBuilder) -> NodeBuilder,
    act: impl AsyncFnOnce(&Node) -> R,
) -> Result<R> {
    let store = Store::open(
        Arc::new(disk.clone()),
        Path::new("/data"),
        StoreOptions::small(),
    )?;
    let node = classes(Node::builder(store)).start()?;
    run(async {
        let done = act(&node).await;
        node.shutdown(std::time::Duration::from_secs(1)).await?;
        node.store().close()?;
        Ok(done)
    })
}

#[test]
fn a_deleted_class_is_gone_and_may_begin_anew() {
    let disk = SimDisk::new();
    let draft = |node: &Node| node.env().object::<Draft>().get_by_name("a");
    let letter = |node: &Node| node.env().object::<Letter>().get_by_name("a");
    let options = ClassOptions::default;
    life(
        &disk,
        |node| node.class::<Draft>(options()).class::<Letter>(options()),
        async |node| {
            draft(node).write("Dear".to_owned()).await.unwrap();
            assert_eq!(letter(node).send().await.unwrap(), 1);
        },
    )
    .unwrap();
    // A class is not both registered and deleted.
    let both = |node: NodeBuilder| node.class::<Draft>(options()).delete_class("Draft");
    let refused = life(&disk, both, async |_| ()).unwrap_err();
    assert!(refused.to_string().contains("both registered"), "{refused}");
    for sent in 2..4 {
        life(
            &disk,
            |node| node.class::<Letter>(options()).delete_class("Draft"),
            async |node| {
                assert_eq!(letter(node).send().await.unwrap(), sent);
                assert_eq!(node.alarms(AlarmState::Pending, None, 10).len(), 0);
            },
        )
        .unwrap();
    }
    life(
        &disk,
        |node| node.class::<Draft>(options()).class::<Letter>(options()),
        async |node| {
            assert_eq!(draft(node).text().await.unwrap(), None);
            assert_eq!(letter(node).send().await.unwrap(), 4);
        },
    )
    .unwrap();
}
