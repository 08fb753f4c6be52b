//! Commits straight on the storage engine: each thread owns objects and continues while commits become durable.

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, Thread},
    time::Instant,
};

use abide_storage::{
    Lsn, NamespaceNo, ObjectDb, ObjectKey, RealDisk, SplitMix64, Store, StoreOptions,
};
use anyhow::{Context, Result, bail};

use crate::{
    crew::{Crew, Outcome, Slice, Work},
    workload::{self, Commit, Sequence},
};

const UNIQUE_KEY: &str = "bench-commits";

/// The store as an application gets it.
pub(crate) fn options() -> StoreOptions {
    StoreOptions::default()
}

/// A store, and the threads that wait for its log.
#[derive(Clone)]
pub(crate) struct Engine {
    store: Store,
    namespace: NamespaceNo,
    waiting: Arc<Mutex<Vec<Thread>>>,
}

impl Engine {
    pub(crate) fn open(dir: &Path, options: StoreOptions) -> Result<Self> {
        let store =
            Store::open(Arc::new(RealDisk), dir, options).context("cannot open the store")?;
        let namespace = store.namespace(UNIQUE_KEY)?;
        let waiting = Arc::<Mutex<Vec<Thread>>>::default();
        let listeners = Arc::clone(&waiting);
        store.subscribe(Box::new(move |_progress| {
            for thread in listeners
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
            {
                thread.unpark();
            }
        }));
        Ok(Self {
            store,
            namespace,
            waiting,
        })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn key(&self, object: usize) -> ObjectKey {
        // Evenly spread, as the ids of names are.
        let mut id = [0; 32];
        let number = object as u64;
        id[..8].copy_from_slice(&SplitMix64::new(number).draw().to_be_bytes());
        id[8..16].copy_from_slice(&number.to_be_bytes());
        ObjectKey {
            namespace: self.namespace,
            id,
        }
    }

    pub(crate) fn open_object(&self, object: usize) -> Result<ObjectDb> {
        Ok(self.store.open_object(self.key(object))?)
    }

    /// Opens an object, with schema and seed rows if it is new.
    pub(crate) fn open_seeded(&self, object: usize) -> Result<ObjectDb> {
        let db = self.open_object(object)?;
        if db.is_new() {
            db.exec(workload::SCHEMA, ())?;
            for row in 0..workload::SEED_ROWS {
                db.exec(workload::INSERT, (row.cast_signed(), "seed"))?;
            }
            db.commit()?;
        }
        Ok(db)
    }

    /// Threads that own `objects` objects together.
    pub(crate) fn crew(&self, threads: usize, objects: usize) -> Result<Crew> {
        let engine = self.clone();
        let threads = threads.clamp(1, objects);
        Crew::start(threads, move |number| {
            let mut worker = Worker::new(
                engine.clone(),
                workload::share_of(objects, threads, number),
                number,
            )?;
            let work: Work = Box::new(move |slice| worker.run(slice));
            Ok(work)
        })
    }
}

struct Worker {
    engine: Engine,
    objects: Vec<ObjectDb>,
    sequence: Sequence,
    /// Commits that are not durable yet, oldest first.
    pending: VecDeque<(Lsn, Instant)>,
}

impl Worker {
    fn new(engine: Engine, objects: Vec<usize>, number: usize) -> Result<Self> {
        engine
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread::current());
        let objects = objects
            .into_iter()
            .map(|object| engine.open_seeded(object))
            .collect::<Result<_>>()?;
        Ok(Self {
            engine,
            objects,
            sequence: Sequence::new(number as u64),
            pending: VecDeque::new(),
        })
    }

    fn run(&mut self, slice: Slice) -> Result<Outcome> {
        let (mut outcome, begun) = (Outcome::default(), Instant::now());
        loop {
            let now = Instant::now();
            let over = now - begun > slice.length;
            let durable = self.engine.store.durable();
            while let Some((_, start)) = self.pending.pop_front_if(|(lsn, _)| *lsn <= durable) {
                if !over {
                    outcome.push(now - start);
                }
            }
            if over && self.pending.is_empty() {
                return Ok(outcome);
            }
            if self.engine.store.failed() {
                bail!("the log has failed: see the disk's errors");
            }
            if over || self.pending.len() >= slice.window {
                thread::park(); // until the log has made progress
            } else {
                let lsn = self.commit()?;
                self.pending.push_back((lsn, now));
            }
        }
    }

    fn commit(&mut self) -> Result<Lsn> {
        let db = &self.objects[self.sequence.below(self.objects.len())];
        commit(db, &mut self.sequence)
    }
}

/// Makes the next commit of a sequence. It is durable later.
pub(crate) fn commit(db: &ObjectDb, sequence: &mut Sequence) -> Result<Lsn> {
    match sequence.commit() {
        Commit::Insert { k, v } => db.exec(workload::INSERT, (k, v))?,
        Commit::Update { k, v, id } => db.exec(workload::UPDATE, (k, v, id))?,
    };
    db.commit()?.context("a write made no record")
}
