//! Large objects of a directory that was restored lazily: they answer before they have files, and others do not wait with them.

use std::{path::Path, sync::Arc, time::Duration};

use abide::{
    Node, Registrar,
    prelude::*,
    storage::{Disk, OpenMode, RestoreOptions, SimDisk, Store, StoreOptions, restore_directory},
};

use abide_storage::{DiskOp, FaultyDisk, errno};
use tokio::time::timeout;

use crate::support::World;

const DIR: &str = "/data";

/// An answer that takes longer never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps values.
#[durable_object]
struct Shelf {
    ctx: Ctx,
}

impl DurableObject for Shelf {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Shelf {
    /// Puts this many values, each of which repeats its number.
    pub async fn fill(&self, values: u32) -> Result<()> {
        let text = |number: u32| number.to_string().repeat(2_000);
        (0..values).try_for_each(|number| {
            self.ctx
                .storage()
                .put(&format!("{number:04}"), &text(number))
        })
    }

    pub async fn first_digit(&self, number: u32) -> Result<Option<String>> {
        let text = self.ctx.storage().get::<String>(&format!("{number:04}"))?;
        Ok(text.map(|text| text[..1].to_owned()))
    }
}

/// The disk of a lazily restored directory with objects `small` and `large`.
async fn restored() -> SimDisk {
    let world = World::new(Registrar::object::<Shelf>);
    for (name, values) in [("small", 2), ("large", 300)] {
        let shelf = world.env().object::<Shelf>().get_by_name(name);
        shelf.fill(values).await.unwrap();
    }
    let ended = world.node.shutdown(Duration::from_secs(5));
    ended.await.unwrap();
    world.node.store().close().unwrap();
    let read = |path: &Path| {
        let file = world.disk.open(path, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let (disk, archive) = (SimDisk::new(), Path::new(DIR).join("archive"));
    disk.create_dir_all(&archive).unwrap();
    for name in world.disk.list(&archive).unwrap() {
        let run = archive.join(name);
        let file = disk.open(&run, OpenMode::Create).unwrap();
        file.write_at(&read(&run), 0).unwrap();
    }
    disk.barrier(&archive).unwrap().wait().unwrap();
    let manifest = read(&Path::new(DIR).join("MANIFEST"));
    let how = RestoreOptions::default().lazy(true).large_bytes(1 << 20);
    let (to, options) = (Arc::new(disk.clone()), StoreOptions::small());
    restore_directory(to, Path::new(DIR), &manifest, how, &options, &|_| {}).unwrap();
    disk
}

#[test]
fn others_do_not_wait_while_a_large_object_waits_for_the_archive() {
    abide_harness::run(async {
        let disk = FaultyDisk::new(restored().await);
        // Its file is not written in the background.
        let id = ObjectId::from_name("Shelf", "large").to_string();
        disk.fail(&[DiskOp::Write], &id, errno::EIO);
        let store = Store::open(
            Arc::new(disk.clone()),
            Path::new(DIR),
            StoreOptions::small(),
        );
        let node = Node::builder(store.unwrap()).object::<Shelf>().workers(1);
        let node = node.start().unwrap();
        let shelf = |name: &str| node.env().object::<Shelf>().get_by_name(name);
        let (small, large) = (shelf("small"), shelf("large"));
        assert_eq!(small.first_digit(1).await.unwrap().as_deref(), Some("1"));
        assert_eq!(large.first_digit(17).await.unwrap().as_deref(), Some("1"));

        disk.hold(&[DiskOp::Read], ".run");
        let waiting = tokio::spawn(async move { large.first_digit(293).await });
        let held = disk.clone();
        tokio::task::spawn_blocking(move || held.wait_until_held())
            .await
            .unwrap();
        let answered = timeout(PATIENCE, small.first_digit(0)).await;
        let is_waiting = !waiting.is_finished();
        // Otherwise a thread that is blocked would never end.
        disk.clear();
        assert_eq!(answered.unwrap().unwrap().as_deref(), Some("0"));
        assert!(is_waiting);
        let answer = waiting.await.unwrap().unwrap();
        assert_eq!(answer.as_deref(), Some("2"));
        let large = shelf("large");
        large.fill(301).await.unwrap();
        assert_eq!(large.first_digit(300).await.unwrap().as_deref(), Some("3"));
    });
}
