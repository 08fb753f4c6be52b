//! One SQLite file for each object, in WAL mode with `synchronous=FULL`: what an application builds without us.
//!
//! A commit blocks its thread until it is durable, so commits in flight are threads: the peer gets one thread
//! for each commit in flight (never more than objects) unless told otherwise.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result};
use rusqlite::{Connection, params};

use crate::{
    crew::{Crew, Outcome, Work},
    process,
    workload::{self, Commit, Sequence},
};

pub(crate) const NAME: &str = "SQLite file per object, WAL, synchronous=FULL";

/// Database, WAL and shared-memory file.
const DESCRIPTORS_PER_CONNECTION: usize = 3;
/// Descriptors left for everything else.
const DESCRIPTORS_RESERVED: usize = 256;

/// A directory with a database file for each object.
pub(crate) struct Files {
    dir: PathBuf,
    objects: usize,
}

impl Files {
    /// Makes one database with schema and seed rows, and copies it for each object.
    pub(crate) fn create(dir: &Path, objects: usize) -> Result<Self> {
        let template = dir.join("template.sqlite");
        let db = Connection::open(&template).context("cannot create the peer's database")?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.execute_batch(workload::SCHEMA)?;
        for row in 0..workload::SEED_ROWS {
            db.execute(workload::INSERT, params![row.cast_signed(), "seed"])?;
        }
        db.close().map_err(|(_, error)| error)?;
        let files = Self {
            dir: dir.to_owned(),
            objects,
        };
        for object in 0..objects {
            fs::copy(&template, files.path(object)).context("cannot copy the peer's database")?;
        }
        rustix::fs::sync(); // so that writing the copies back does not burden the first slices
        Ok(files)
    }

    fn path(&self, object: usize) -> PathBuf {
        path(&self.dir, object)
    }

    /// How many connections may be open at once, over all threads.
    pub(crate) fn open_connections(&self) -> usize {
        let room = process::descriptor_limit().saturating_sub(DESCRIPTORS_RESERVED)
            / DESCRIPTORS_PER_CONNECTION;
        room.clamp(1, self.objects)
    }

    /// A sentence if not all connections can stay open.
    pub(crate) fn note(&self) -> Option<String> {
        let open = self.open_connections();
        (open < self.objects).then(|| {
            format!(
                "peer: {} descriptors allow {open} open connections of {}; the least recently used are closed and opened again",
                process::descriptor_limit(),
                self.objects
            )
        })
    }

    pub(crate) fn crew(&self, threads: usize) -> Result<Crew> {
        let (dir, objects) = (self.dir.clone(), self.objects);
        let threads = threads.clamp(1, objects);
        // Rounded up only if that cannot pass the limit.
        let open = self.open_connections();
        let capacity = if open == objects {
            objects.div_ceil(threads)
        } else {
            (open / threads).max(1)
        };
        Crew::start(threads, move |thread| {
            let mut worker = Worker::new(
                &dir,
                workload::share_of(objects, threads, thread),
                capacity,
                thread,
            );
            worker.open_all()?;
            let work: Work = Box::new(move |slice| {
                let (mut outcome, begun) = (Outcome::default(), Instant::now());
                let mut start = begun;
                loop {
                    worker.commit()?;
                    let now = Instant::now();
                    if now - begun > slice.length {
                        return Ok(outcome);
                    }
                    outcome.push(now - start);
                    start = now;
                }
            });
            Ok(work)
        })
    }

    /// Opens the file as an application would at an object's cold start.
    pub(crate) fn open(&self, object: usize) -> Result<Connection> {
        open(&self.dir, object)
    }
}

fn path(dir: &Path, object: usize) -> PathBuf {
    dir.join(format!("{object}.sqlite"))
}

fn open(dir: &Path, object: usize) -> Result<Connection> {
    let db = Connection::open(path(dir, object))
        .with_context(|| format!("cannot open the peer's database {object}"))?;
    db.pragma_update(None, "synchronous", "FULL")?; // the file itself remembers WAL mode
    Ok(db)
}

/// A thread's objects and its open connections, least recently used first out.
struct Worker {
    dir: PathBuf,
    objects: Vec<usize>,
    capacity: usize,
    sequence: Sequence,
    open: HashMap<usize, (u64, Connection)>,
    by_use: BTreeMap<u64, usize>,
    uses: u64,
}

impl Worker {
    fn new(dir: &Path, objects: Vec<usize>, capacity: usize, thread: usize) -> Self {
        let (dir, sequence) = (dir.to_owned(), Sequence::new(thread as u64));
        Self {
            dir,
            objects,
            capacity,
            sequence,
            open: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Opens as many as may be open and writes to each, so that slices pay neither for opening nor for the
    /// creation of WAL files.
    fn open_all(&mut self) -> Result<()> {
        for index in 0..self.objects.len().min(self.capacity) {
            let db = self.connection(self.objects[index])?;
            db.pragma_update(None, "synchronous", "OFF")?;
            db.prepare_cached(workload::INSERT)?
                .execute(params![0, "warm"])?;
            db.prepare_cached(workload::UPDATE)?
                .execute(params![0, "warm", 1])?;
            db.pragma_update(None, "synchronous", "FULL")?;
        }
        Ok(())
    }

    fn connection(&mut self, object: usize) -> Result<&Connection> {
        self.uses += 1;
        if let Some((used, _)) = self.open.get(&object) {
            self.by_use.remove(used);
        } else {
            if self.open.len() >= self.capacity
                && let Some((_, oldest)) = self.by_use.pop_first()
            {
                self.open.remove(&oldest);
            }
            self.open.insert(object, (0, open(&self.dir, object)?));
        }
        self.by_use.insert(self.uses, object);
        let entry = self.open.get_mut(&object).context("just opened")?;
        entry.0 = self.uses;
        Ok(&entry.1)
    }

    fn commit(&mut self) -> Result<()> {
        let object = self.objects[self.sequence.below(self.objects.len())];
        let commit = self.sequence.commit();
        let db = self.connection(object)?;
        match commit {
            Commit::Insert { k, v } => db
                .prepare_cached(workload::INSERT)?
                .execute(params![k, v])?,
            Commit::Update { k, v, id } => db
                .prepare_cached(workload::UPDATE)?
                .execute(params![k, v, id])?,
        };
        Ok(())
    }
}
