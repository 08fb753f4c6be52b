//! (h) The archive: what it costs commits, how many bytes it keeps for each, and how long a restore takes.
//!
//! Commits are those of (a), once with the archive and once without, with checkpoints often enough that both are at work
//! all the time. Then an object of incompressible rows is written, wholly changed, and brought back.

use std::time::Instant;

use abide_storage::{ArchiveOptions, ObjectDb, StoreOptions};
use anyhow::{Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    ours::commits::{self, Engine},
    process,
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many objects commit.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
    /// How many commits may be in flight.
    #[arg(long, default_value_t = 64)]
    inflight: usize,
    /// Megabytes of the object that is restored.
    #[arg(long, default_value_t = 100)]
    megabytes: u64,
}

const MEGABYTE: u64 = 1_000_000;
/// Log between two checkpoints.
const CHECKPOINT_BYTES: u64 = 32 << 20;
/// Bytes of a row of the restored object, and rows of a transaction.
const ROW_BYTES: u64 = 4_000;
const ROWS_AT_ONCE: u64 = 2_000;

fn options(enabled: bool) -> StoreOptions {
    commits::options()
        .checkpoint_bytes(CHECKPOINT_BYTES.max(commits::options().segment_bytes))
        .archive(ArchiveOptions::default().enabled(enabled))
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    commits(context, options)?;
    restore(context, options.megabytes)
}

fn commits(context: &Context, bench: &Options) -> Result<()> {
    let with = Engine::open(&context.fresh_dir("ours")?, options(true))?;
    let without = Engine::open(&context.fresh_dir("peer")?, options(false))?;
    let crew = |engine: &Engine| engine.crew(process::cores(), bench.objects);
    let (our_crew, peer_crew) = (crew(&with)?, crew(&without)?);
    let disk = context.probe()?;
    for crew in [&our_crew, &peer_crew] {
        crew.run(bench.inflight, context.warm_up())?;
    }
    let side = |crew: &crate::crew::Crew| crew.run(bench.inflight, context.slice());
    let sides = context.alternate(Some(|| side(&our_crew)), Some(|| side(&peer_crew)))?;
    let figures = [
        (0, "", Unit::CommitsPerSecond),
        (2, "/p99", Unit::Microseconds),
    ];
    for (index, suffix, unit) in figures {
        let (ours, peer) = sides.figure(index);
        context.print(
            &Measurement::new(format!("archive/commits{suffix}"), unit, disk)
                .ours(ours)
                .peer("archive off", peer),
        );
    }
    with.store().checkpoint()?;
    let stats = with.store().stats();
    let commits = stats.commits as f64;
    let note = format!(
        "{} commits, {:.0} bytes of log each, in {} files",
        stats.commits,
        stats.log_bytes as f64 / commits,
        stats.archive_runs
    );
    context.print(
        &Measurement::new("archive/bytes", Unit::BytesPerCommit, disk)
            .ours(stats.archive_bytes as f64 / commits)
            .note(note),
    );
    Ok(())
}

fn restore(context: &Context, megabytes: u64) -> Result<()> {
    let engine = Engine::open(&context.fresh_dir("ours")?, options(true))?;
    let (db, key) = (engine.open_object(0)?, engine.key(0));
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, noise BLOB)", ())?;
    let rows = rows(megabytes * MEGABYTE);
    fill(&db, rows)?;
    let (past, first) = (db.bookmark(), sum(&db)?);
    engine.store().checkpoint()?;
    fill(&db, rows)?;
    let second = sum(&db)?;
    ensure!(first != second, "the second filling changed nothing");
    drop(db);
    engine.store().checkpoint()?;

    let disk = context.probe()?;
    let begun = Instant::now();
    let undo = engine.store().restore(key, &past)?;
    let there = begun.elapsed().as_secs_f64();
    ensure!(
        sum(&engine.open_object(0)?)? == first,
        "another state was restored"
    );
    let begun = Instant::now();
    engine.store().restore(key, &undo)?;
    let back = begun.elapsed().as_secs_f64();
    ensure!(
        sum(&engine.open_object(0)?)? == second,
        "the restore was not undone"
    );
    let note = format!("every page differs; {megabytes} MB, undone in {back:.2} s");
    context.print(
        &Measurement::new("archive/restore", Unit::Seconds, disk)
            .ours(there)
            .note(note),
    );
    Ok(())
}

/// The rows of an object of this size.
pub(super) fn rows(bytes: u64) -> u64 {
    bytes / ROW_BYTES
}

/// Writes every row anew.
pub(super) fn fill(db: &ObjectDb, rows: u64) -> Result<()> {
    for row in 0..rows {
        db.exec(
            "INSERT OR REPLACE INTO rows VALUES (?1, randomblob(?2))",
            (row.cast_signed(), ROW_BYTES.cast_signed()),
        )?;
        if row % ROWS_AT_ONCE == 0 {
            db.commit()?;
        }
    }
    db.commit()?;
    Ok(())
}

/// Tells one content from another.
fn sum(db: &ObjectDb) -> Result<(i64, String)> {
    let query =
        "SELECT count(*), hex(substr(group_concat(substr(noise, 1, 1), ''), 1, 64)) FROM rows";
    Ok(db.exec(query, ())?.one()?)
}
