//! (r) Small commits, each awaited until it is durable, beside others that use the log up: with one checkpoint after the other
//! and the archive, and without.
//!
//! A commit that has to wait for a checkpoint, for the archive or for a new segment of the log shows in the last percentiles.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use abide_storage::{ArchiveOptions, ObjectKey, RealDisk, Store, StoreOptions};
use anyhow::{Result, anyhow};
use clap::Args;

use crate::{
    context::Context,
    figures::Latencies,
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Seconds of each slice; the shared `--seconds` is too short for the last percentiles.
    #[arg(long, default_value_t = 10.0)]
    slice: f64,
    /// Bytes of each of the other commits.
    #[arg(long, default_value_t = 100_000)]
    bulk: u32,
    /// Milliseconds between two of them.
    #[arg(long, default_value_t = 5)]
    pause: u64,
}

/// The activity during the measured commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// Others commit; no checkpoint is taken.
    Commits,
    /// Others commit, one checkpoint follows the other, and all is archived.
    Checkpoints,
}

/// Objects that others write.
const BULK_OBJECTS: u8 = 64;
const SMALL_PAUSE: Duration = Duration::from_micros(500);
/// A log that has failed notifies no one; the next commit reports it.
const LONGEST_PARK: Duration = Duration::from_millis(100);
/// Small compared to what the others write, so that segments fill up all the time.
const SEGMENT_BYTES: u64 = 16 << 20;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let side = |beside| {
        move || {
            let dir = context.fresh_dir("ours")?;
            Ok(measure(&dir, beside, options)?.percentiles_us([50.0, 99.0, 99.9, 100.0]))
        }
    };
    let sides = context.alternate(
        context.wants_ours().then(|| side(Beside::Checkpoints)),
        context.wants_peer().then(|| side(Beside::Commits)),
    )?;
    for (index, name) in ["p50", "p99", "p99.9", "worst"].into_iter().enumerate() {
        let (ours, peer) = sides.figure(index);
        context.print(
            &Measurement::new(format!("stalls/{name}"), Unit::Microseconds, disk)
                .ours(ours)
                .peer("no checkpoints", peer),
        );
    }
    Ok(())
}

/// The latencies of small commits, from their call until they are durable.
fn measure(dir: &Path, beside: Beside, options: &Options) -> Result<Latencies> {
    let busy = beside == Beside::Checkpoints;
    let store = Store::open(
        Arc::new(RealDisk),
        dir,
        StoreOptions::default()
            .segment_bytes(SEGMENT_BYTES)
            // None but those that are asked for.
            .checkpoint_bytes(1 << 40)
            .checkpoint_interval(Duration::from_hours(1))
            .archive(ArchiveOptions::default().enabled(busy)),
    )?;
    let namespace = store.namespace("stalls")?;
    let key = move |id: u8| ObjectKey {
        namespace,
        id: [id; 32],
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (bulk, pause) = (options.bulk, Duration::from_millis(options.pause));
    let mut others = vec![again_and_again(&store, &stop, move |store, round| {
        let db = store.open_object(key((round % u32::from(BULK_OBJECTS)) as u8))?;
        db.exec("CREATE TABLE IF NOT EXISTS bulk (noise BLOB)", ())?;
        db.exec("DELETE FROM bulk", ())?;
        db.exec("INSERT INTO bulk VALUES (randomblob(?1))", [bulk])?;
        db.commit()?;
        thread::sleep(pause);
        Ok(())
    })];
    if busy {
        others.push(again_and_again(&store, &stop, |store, _| {
            Ok(store.checkpoint()?)
        }));
    }
    let waiting = thread::current();
    store.subscribe(Box::new(move |_progress| waiting.unpark()));
    let db = store.open_object(key(u8::MAX))?;
    db.exec("CREATE TABLE n (id INTEGER PRIMARY KEY, n INTEGER)", ())?;
    db.exec("INSERT INTO n VALUES (1, 0)", ())?;
    db.commit()?;
    let mut latencies = Latencies::default();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs_f64(options.slice) {
        db.exec("UPDATE n SET n = n + 1 WHERE id = 1", ())?;
        let start = Instant::now();
        if let Some(lsn) = db.commit()? {
            while store.durable() < lsn {
                thread::park_timeout(LONGEST_PARK);
            }
        }
        latencies.push(start.elapsed());
        thread::sleep(SMALL_PAUSE);
    }
    stop.store(true, Ordering::Relaxed);
    for other in others {
        other
            .join()
            .map_err(|_| anyhow!("a thread beside the commits panicked"))??;
    }
    drop(db);
    store.close()?;
    Ok(latencies)
}

/// Does some work on its own thread until it is stopped.
fn again_and_again(
    store: &Store,
    stop: &Arc<AtomicBool>,
    work: impl Fn(&Store, u32) -> Result<()> + Send + 'static,
) -> JoinHandle<Result<()>> {
    let (store, stop) = (store.clone(), Arc::clone(stop));
    thread::spawn(move || {
        (0..)
            .take_while(|_| !stop.load(Ordering::Relaxed))
            .try_for_each(|round| work(&store, round))
    })
}
