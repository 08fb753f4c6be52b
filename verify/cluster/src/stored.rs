//! Lists in the storage engine: each shard has one object, and its list is a table.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
};

use abide_cluster::{Generation, Lsn, Shard, Tenancy};
use abide_storage::{
    ArchiveOptions, EarlierLog, Inherited, ObjectDb, ObjectKey, ShardClaim, SharedNamespaces,
    SimDisk, Store, StoreOptions,
};

use crate::{
    lists::{Lists, Logs},
    tables::Record,
};

/// The most bytes of a part of the log.
const PART_BYTES: usize = 4_000;

/// A store on a disk in memory, which ends with its process.
#[derive(Debug)]
pub struct Stored {
    store: Store,
    /// The objects of the shards that it owns.
    open: BTreeMap<Shard, ObjectDb>,
    /// Shards that were closed and may have objects.
    closed: BTreeSet<Shard>,
    shipped: Lsn,
}

impl Default for Stored {
    fn default() -> Self {
        let options = StoreOptions::small()
            .manual(true)
            .claims_shards(true)
            .shared_namespaces(Some(Arc::new(OneNamespace) as Arc<_>))
            .await_copy(true)
            .unix_millis(Arc::new(|| 0))
            .archive(ArchiveOptions::default().enabled(false));
        let store = Store::open(Arc::new(SimDisk::new()), Path::new("/data"), options);
        Self {
            store: store.expect("an empty disk"),
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            shipped: Lsn(0),
        }
    }
}

/// All objects are of one class.
struct OneNamespace;

impl SharedNamespaces for OneNamespace {
    fn with(&self, unique_key: &str) -> io::Result<Vec<String>> {
        Ok(vec![unique_key.to_owned()])
    }
}

fn id(shard: Shard) -> [u8; 32] {
    let mut id = [7; 32];
    [id[0], id[1]] = (shard.0 << 6).to_be_bytes();
    id
}

fn storage_shard(shard: Shard) -> abide_storage::Shard {
    abide_storage::Shard::of(&id(shard))
}

impl Lists for Stored {
    fn adopt(
        &mut self,
        tenancy: Tenancy,
        since: Lsn,
        records: &[Record],
        logs: &Logs,
    ) -> Result<(), String> {
        let Tenancy { shard, generation } = tenancy;
        let failed = |error: abide_storage::Error| format!("{tenancy:?}: {error}");
        self.leave(shard);
        let mut inherited = Vec::new();
        for tenure in records.chunk_by(|a, b| a.tenancy == b.tenancy) {
            let [.., last] = tenure else { continue };
            let (since, log) = logs.of(last.tenancy).ok_or("a record without a tenure")?;
            let log = EarlierLog::read(log.iter().cloned()).map_err(failed)?;
            let log = Arc::new(log);
            inherited.push(Inherited {
                generation: last.tenancy.generation.0,
                since: since.0.into(),
                until: last.end.0.into(),
                log,
            });
        }
        let claim = ShardClaim {
            shard: storage_shard(shard),
            generation: generation.0,
            since: since.0.into(),
            floor: 0,
            inherited,
        };
        self.store.claim_shard(&claim).map_err(failed)?;
        let namespace = self.store.namespace("List").map_err(failed)?;
        let key = ObjectKey {
            namespace,
            id: id(shard),
        };
        let db = self.store.open_object(key).map_err(failed)?;
        db.exec("CREATE TABLE IF NOT EXISTS list (value INTEGER)", ())
            .map_err(failed)?;
        self.open.insert(shard, db);
        let expected: Vec<u64> = records.iter().map(|record| record.value).collect();
        let list = self.list(shard);
        if list != expected {
            return Err(format!("{tenancy:?} has {list:?} and not {expected:?}"));
        }
        Ok(())
    }

    fn add(&mut self, tenancy: Tenancy, value: u64) -> u64 {
        let begin = self.store.appended();
        let db = self.open.get(&tenancy.shard).expect("it is served");
        assert_eq!(Generation(db.generation()), tenancy.generation);
        let end = db
            .exec("INSERT INTO list VALUES (?1)", [value.cast_signed()])
            .and_then(|_| db.commit())
            .expect("the log has room");
        while self.store.write_group() {}
        end.map_or(0, |end| end.get() - begin.get())
    }

    fn list(&self, shard: Shard) -> Vec<u64> {
        let db = self.open.get(&shard).expect("it is served");
        let rows = db.exec("SELECT value FROM list ORDER BY rowid", ());
        let values = rows.and_then(|rows| rows.all::<i64>());
        let values = values.expect("a list").into_iter();
        values.map(i64::cast_unsigned).collect()
    }

    fn close(&mut self, shard: Shard) -> Option<Lsn> {
        let db = self.open.get(&shard).expect("it is served");
        let end = self
            .store
            .close_shard(storage_shard(shard))
            .expect("it is open");
        self.closed.insert(shard);
        let _ = db.exec("INSERT INTO list VALUES (0)", ());
        db.commit().expect_err("the shard is closed");
        Some(Lsn(end.get()))
    }

    fn ship(&mut self) -> Vec<Arc<[u8]>> {
        let mut parts = Vec::new();
        let part = |from: Lsn| self.store.log_part(Some(from.0.into()), PART_BYTES);
        while let Some(part) = part(self.shipped).expect("the log is kept") {
            assert_eq!(part.first.get(), self.shipped.0, "the log is kept");
            self.shipped = Lsn(part.end.get());
            parts.push(part.bytes.into());
        }
        parts
    }

    fn durable_up_to(&mut self, until: Lsn) {
        self.store.copied(until.0.into());
    }

    fn maintain(&mut self) {
        self.store.checkpoint().expect("the disk works");
    }
}

impl Stored {
    /// Forgets a shard that was owned before.
    fn leave(&mut self, shard: Shard) {
        self.open.remove(&shard);
        if self.closed.remove(&shard) {
            self.store
                .forget_shard(storage_shard(shard))
                .expect("it is closed");
        }
    }
}
