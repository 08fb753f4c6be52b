//! Stores that share objects, and what they have logged, which outlives them.

use crate::common::DIR;
use abide_storage::{
    ArchiveOptions, Disk, DiskFile, EarlierLog, Inherited, Lsn, ObjectDb, ObjectKey, OpenMode,
    RemoteRuns, Result, Shard, ShardClaim, SharedNamespaces, SharedRun, SimDisk, Store,
    StoreOptions, WrittenRun,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Two shards that share a directory, and one that does not.
pub(super) const SHARDS: [u16; 3] = [4, 5, 900];

/// A shard by its number.
pub(super) fn shard(number: u16) -> Shard {
    Shard::of(&id(number, 0))
}

/// The id of an object of a shard.
pub(super) fn id(shard: u16, object: u8) -> [u8; 32] {
    let mut id = [object; 32];
    let first = shard << 6;
    [id[0], id[1]] = first.to_be_bytes();
    id
}

/// One process: a store with its log, from which it ships what is durable.
pub(super) struct Node {
    pub(super) store: Option<Store>,
    pub(super) disk: SimDisk,
    /// What it has shipped, and what remains of it.
    pub(super) log: Vec<Arc<[u8]>>,
    pub(super) shipped: Lsn,
    /// Where each part of the log ends.
    pub(super) ends: Vec<Lsn>,
}

impl Node {
    pub(super) fn start() -> Self {
        Self::start_with(options())
    }

    /// The same, with runs that all stores share.
    pub(super) fn start_with_runs(runs: &SharedRuns) -> Self {
        Self::start_with_store(Arc::new(runs.clone()))
    }

    /// The same, with this way to reach them.
    pub(super) fn start_with_store(runs: Arc<dyn RemoteRuns>) -> Self {
        Self::start_with(options().remote_runs(runs))
    }

    /// Opens the directory of a process that has ended.
    pub(super) fn open_again(&self, runs: &SharedRuns) -> Result<Store> {
        let runs: Arc<dyn RemoteRuns> = Arc::new(runs.clone());
        let options = options().remote_runs(runs);
        Store::open(Arc::new(self.disk.clone()), Path::new(DIR), options)
    }

    fn start_with(options: StoreOptions) -> Self {
        let disk = SimDisk::new();
        Self {
            store: Some(Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()),
            disk,
            log: Vec::new(),
            shipped: Lsn::ZERO,
            ends: Vec::new(),
        }
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Opens an object, whose class has this name.
    pub(super) fn open(&self, class: &str, id: [u8; 32]) -> Result<ObjectDb> {
        let namespace = self.store().namespace(class)?;
        self.store().open_object(ObjectKey { namespace, id })
    }

    /// Makes durable what was committed, and ships it.
    pub(super) fn ship(&mut self) {
        if self.store.is_none() {
            return;
        }
        while self.ship_part() {}
        let store = self.store();
        store.copied(self.shipped);
        assert_eq!(store.durable(), store.durable_here());
    }

    /// Ships one part of the log, which may end within a transaction. Returns whether there was one.
    pub(super) fn ship_part(&mut self) -> bool {
        while self.store().write_group() {}
        let part = self.store().log_part(Some(self.shipped), 5_000).unwrap();
        let Some(part) = part else { return false };
        assert_eq!(
            part.first, self.shipped,
            "the log is kept until it is shipped"
        );
        self.shipped = part.end;
        self.ends.push(part.end);
        self.log.push(part.bytes.into());
        true
    }

    /// The process ends. What it has not shipped is lost.
    pub(super) fn kill(&mut self) {
        self.store = None;
    }

    /// What the next owner of a shard reads of this node's log.
    pub(super) fn inherited(&self, generation: u32, since: Lsn, until: Lsn) -> Inherited {
        Inherited {
            generation,
            since,
            until,
            log: Arc::new(EarlierLog::read(self.log.clone()).unwrap()),
        }
    }

    /// Claims a shard at the end of the log.
    pub(super) fn claim(
        &self,
        number: u16,
        generation: u32,
        inherited: Vec<Inherited>,
    ) -> Result<Lsn> {
        self.claim_above(0, number, generation, inherited)
    }

    /// The same, after tenures in logs with this many bytes.
    pub(super) fn claim_above(
        &self,
        floor: u64,
        number: u16,
        generation: u32,
        inherited: Vec<Inherited>,
    ) -> Result<Lsn> {
        let since = self.shipped;
        let claim = ShardClaim {
            shard: shard(number),
            generation,
            since,
            floor,
            inherited,
        };
        self.store().claim_shard(&claim).map(|()| since)
    }

    /// Writes a run of these tenures, and puts it into the store of runs.
    pub(super) fn write_run(
        &self,
        runs: &SharedRuns,
        tenures: &[(u16, Inherited)],
    ) -> Option<SharedRun> {
        let tenures: Vec<_> = tenures
            .iter()
            .map(|(number, of)| (shard(*number), of.clone()))
            .collect();
        let number = runs.next_number();
        let written = self.store().write_run(number, &tenures).unwrap()?;
        Some(runs.take(&self.disk, written, number, (number, number)))
    }

    /// Merges runs that the node lists, and puts the result into the store of runs, in their places.
    pub(super) fn merge_runs(&self, runs: &SharedRuns) -> Option<SharedRun> {
        let number = runs.next_number();
        let merged = self.store().merge_runs(number).unwrap()?;
        let places = runs.places_of(&merged.replaces);
        Some(runs.take(&self.disk, merged.run, number, places))
    }

    /// Gives a shard up: no record of it is after the returned position.
    pub(super) fn give_up(&mut self, number: u16) -> Lsn {
        let until = self.store().close_shard(shard(number)).unwrap();
        self.ship();
        assert!(until <= self.shipped);
        self.store().forget_shard(shard(number)).unwrap();
        until
    }
}

/// A store of runs that all nodes reach.
#[derive(Clone, Default)]
pub(super) struct SharedRuns {
    pub(super) disk: SimDisk,
    next: Arc<Mutex<u64>>,
    /// The first and the last place of each in the list.
    places: Arc<Mutex<BTreeMap<String, (u64, u64)>>>,
}

impl SharedRuns {
    fn next_number(&self) -> u64 {
        let mut number = self.next.lock().unwrap();
        *number += 1;
        *number
    }

    fn places_of(&self, runs: &[String]) -> (u64, u64) {
        let places = self.places.lock().unwrap();
        let of = || runs.iter().map(|run| places[run]);
        let first = of().map(|(first, _)| first).min().unwrap();
        (first, of().map(|(_, last)| last).max().unwrap())
    }

    /// Moves a run from the disk of its node.
    fn take(
        &self,
        disk: &SimDisk,
        written: WrittenRun,
        number: u64,
        (first, last): (u64, u64),
    ) -> SharedRun {
        let place = format!("{DIR}/run {number}");
        let file = disk.open(&written.path, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        disk.remove(&written.path).unwrap();
        self.disk.create_dir_all(Path::new(DIR)).unwrap();
        let copy = self.disk.open(Path::new(&place), OpenMode::Create).unwrap();
        copy.write_at(&bytes, 0).unwrap();
        let mut places = self.places.lock().unwrap();
        places.insert(place.clone(), (first, last));
        SharedRun {
            about: written.about,
            place,
            first,
            last,
        }
    }
}

impl RemoteRuns for SharedRuns {
    fn open(&self, _: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(Path::new(place), OpenMode::Existing)
    }
}

/// Those of all stores of all tests.
struct AllNamespaces;

static NAMESPACES: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl SharedNamespaces for AllNamespaces {
    fn with(&self, unique_key: &str) -> io::Result<Vec<String>> {
        let mut all = NAMESPACES.lock().unwrap();
        if !all.iter().any(|key| key == unique_key) {
            all.push(unique_key.to_owned());
        }
        Ok(all.clone())
    }
}

pub(super) fn options() -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .claims_shards(true)
        .shared_namespaces(Some(Arc::new(AllNamespaces) as Arc<_>))
        .await_copy(true)
        .archive(ArchiveOptions::default().enabled(false))
}
