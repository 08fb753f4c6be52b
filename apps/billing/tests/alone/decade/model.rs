//! A read model that is stopped, slow, or gone when a test wants it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use abide::projection::{
    Begun, Found, ProjectionError, ReadModel, Row, SqliteModel, Tables, Written,
};
use abide::{
    Value,
    clock::{Clock, TestClock},
};
use billing::read;
use futures_util::future::BoxFuture;
use tempfile::TempDir;

/// How long a slow one takes for a batch: less than it has.
const SLOW: Duration = Duration::from_secs(10);

/// What ails it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// It refuses everything.
    Stopped,
    /// It takes ten seconds for each batch.
    Slow,
    /// It never answers.
    Stuck,
}

/// A read model with moods. It outlives the node; clones are the same one.
#[derive(Clone)]
pub(crate) struct Model {
    inner: Arc<dyn ReadModel>,
    clock: TestClock,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mood: Mutex<Mood>,
    /// Batches that are being written.
    writing: AtomicU32,
    failed: AtomicBool,
    /// Where it is, if it is its own file.
    dir: Option<TempDir>,
}

impl Model {
    /// In an SQLite file.
    pub(crate) fn sqlite(clock: &TestClock, dir: TempDir) -> Self {
        let model = SqliteModel::open(dir.path().join("read-model.db"), read::tables().unwrap());
        let mut this = Self::of(clock, Arc::new(model.unwrap()));
        this.shared = Arc::new(Shared {
            dir: Some(dir),
            ..Shared::default()
        });
        this
    }

    pub(crate) fn of(clock: &TestClock, model: Arc<dyn ReadModel>) -> Self {
        Self {
            inner: model,
            clock: clock.clone(),
            shared: Arc::default(),
        }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// The file is removed.
    pub(crate) fn vanishes(&self) {
        let dir = self.shared.dir.as_ref().expect("a file");
        for file in std::fs::read_dir(dir.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
    }

    /// Whether it has taken the last batch.
    pub(crate) fn is_well(&self) -> bool {
        !self.shared.failed.load(Ordering::SeqCst)
    }

    /// Whether it is about to write, which takes real time.
    pub(crate) fn is_writing(&self) -> bool {
        self.shared.writing.load(Ordering::SeqCst) > 0
    }
}

/// Counts a batch for as long as a caller waits for it.
struct Writing(Arc<Shared>);

impl Writing {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.writing.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ReadModel for Model {
    fn tables(&self) -> &Tables {
        self.inner.tables()
    }

    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>> {
        let this = self.clone();
        let mood = *self.shared.mood.lock().unwrap();
        Box::pin(async move {
            let written = match mood {
                Mood::Stuck => {
                    this.shared.failed.store(true, Ordering::SeqCst);
                    std::future::pending().await
                }
                Mood::Stopped => Err(ProjectionError::Unavailable("it is stopped".to_owned())),
                Mood::Well | Mood::Slow => {
                    if mood == Mood::Slow {
                        this.clock.sleep_until(this.clock.now() + SLOW).await;
                    }
                    let _writing = Writing::new(&this.shared);
                    this.inner.apply(rows).await
                }
            };
            let failed = matches!(written, Err(ProjectionError::Unavailable(_)));
            this.shared.failed.store(failed, Ordering::SeqCst);
            written
        })
    }

    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.inner.begin(timeline)
    }

    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>> {
        self.inner.query(sql, params)
    }

    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.inner.wipe()
    }
}
