//! A lost store comes back from a bucket: the download, the data directory, and the first answer.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Instant};

use abide::{
    history::{Download, Options as CopyOptions},
    server::{HistoryContent, HistoryPlace},
};
use abide_storage::{RealDisk, RestoreOptions, StoreOptions, restore_directory};
use anyhow::{Context as _, Result, ensure};
use tokio::runtime::Runtime;

use super::Options;
use crate::{
    benches::archive,
    context::Context,
    ours::{
        commits::{self, Engine},
        copies::{Bucket, Copier},
        node,
    },
    report::{Measurement, Unit},
    workload,
};

const MEBIBYTE: f64 = 1_048_576.0;

type Act = Box<dyn Fn(&Engine) -> Result<()>>;

/// What is lost.
struct Lost {
    name: String,
    objects: usize,
    fill: Act,
    /// The first question, whose answer must be right.
    ask: Act,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<()> {
    measure(context, &small(options.small))?;
    measure(context, &large(options.large))
}

fn small(objects: usize) -> Lost {
    Lost {
        name: format!("objects={objects}"),
        objects,
        fill: Box::new(move |engine| {
            (0..objects).try_for_each(|object| engine.open_seeded(object).map(drop))
        }),
        ask: Box::new(move |engine| {
            let db = engine.open_object(objects / 2)?;
            let value: String = db.exec(workload::SELECT, (1,))?.one()?;
            ensure!(value == "seed", "another value was restored: {value}");
            Ok(())
        }),
    }
}

fn large(mebibytes: u64) -> Lost {
    let rows = archive::rows(mebibytes << 20);
    Lost {
        name: format!("mebibytes={mebibytes}"),
        objects: 1,
        fill: Box::new(move |engine| {
            let db = engine.open_object(0)?;
            db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, noise BLOB)", ())?;
            archive::fill(&db, rows)
        }),
        ask: Box::new(move |engine| {
            let newest = "SELECT id FROM rows ORDER BY id DESC LIMIT 1";
            let newest: i64 = engine.open_object(0)?.exec(newest, ())?.one()?;
            ensure!(newest + 1 == rows.cast_signed(), "rows are missing");
            Ok(())
        }),
    }
}

fn measure(context: &Context, lost: &Lost) -> Result<()> {
    let runtime = node::runtime()?;
    let bucket = Bucket::start()?;
    let place = bucket.open()?;
    let dir = context.fresh_dir("ours")?;
    let engine = Engine::open(&dir, commits::options())?;
    (lost.fill)(&engine)?;
    // Before the first copy: the next would wait for the upload interval.
    engine.store().checkpoint()?;
    let copier = Copier::start(
        &runtime,
        &dir,
        engine.store(),
        &place,
        CopyOptions::default(),
    )?;
    copier.settle()?;
    drop(copier);
    engine.store().close()?;
    drop(engine);
    context.fresh_dir("ours")?;
    restore(context, &runtime, &bucket, lost, false)?;
    restore(context, &runtime, &bucket, lost, true)
}

/// Restores it on an empty machine. Lazily, the archive stays in the bucket, and what is needed is read there.
fn restore(
    context: &Context,
    runtime: &Runtime,
    bucket: &Bucket,
    lost: &Lost,
    lazy: bool,
) -> Result<()> {
    let place = bucket.place()?;
    let copies = place.copies();
    let dir = context.fresh_dir("restored")?;
    let archive_dir = dir.join("archive");
    fs::create_dir(&archive_dir)?;
    let disk = context.probe()?;
    let begun = Instant::now();
    let found = runtime.block_on(Download::find(copies, None))?;
    let mut remote = BTreeMap::new();
    if lazy {
        for run in runtime.block_on(found.leave(&archive_dir))? {
            remote.insert(run.number, run.place()?);
        }
    } else {
        runtime.block_on(found.save(&archive_dir, |_, _| {}))?;
    }
    let download = begun.elapsed().as_secs_f64();
    let manifest = found.manifest();
    let encoded = manifest.content.as_deref();
    let archive = HistoryContent::decode(encoded.context("there is no copy")?);
    let archive = archive.map_err(anyhow::Error::msg)?;

    let begun = Instant::now();
    let restored = restore_directory(
        Arc::new(RealDisk),
        &dir,
        archive.manifest.as_bytes(),
        RestoreOptions::default().lazy(lazy).remote(remote),
        &StoreOptions::default().remote_runs(place.remote_runs()),
        &|_| {},
    )?;
    let build = begun.elapsed().as_secs_f64();
    ensure!(
        restored.objects == lost.objects as u64 && restored.quarantined.is_empty(),
        "{} objects were restored instead of {}",
        restored.objects,
        lost.objects
    );

    let requests = if lazy {
        needed(&bucket.place()?, &dir, lost)?
    } else {
        0
    };
    let begun = Instant::now();
    let options = commits::options().remote_runs(place.remote_runs());
    let engine = Engine::open(&dir, options)?;
    (lost.ask)(&engine)?;
    let answer = begun.elapsed().as_secs_f64();
    let received = copies.traffic().received as f64 / MEBIBYTE;
    engine.store().close()?;
    drop(engine);
    context.fresh_dir("restored")?;

    let [from_store, on_disk] =
        [manifest.bytes(), restored.bytes].map(|bytes| bytes as f64 / MEBIBYTE);
    let steps = [
        (
            "download",
            download,
            (!lazy).then_some(from_store),
            format!("{from_store:.1} MiB in {} runs", manifest.runs.len()),
        ),
        (
            "build",
            build,
            (!lazy).then_some(on_disk),
            format!(
                "{on_disk:.1} MiB, {:.0} objects/s",
                lost.objects as f64 / build
            ),
        ),
        (
            "first-answer",
            answer,
            None,
            format!(
                "{:.2} s in all; {received:.1} MiB received; it needs {requests} requests",
                download + build + answer
            ),
        ),
    ];
    for (step, seconds, mebibytes, note) in steps {
        let how = if lazy { "lazy/" } else { "" };
        let name = format!("backup/restore/{}/{how}{step}", lost.name);
        let time = Measurement::new(&name, Unit::Seconds, disk);
        context.print(&time.ours(seconds).note(note));
        if let Some(mebibytes) = mebibytes {
            let rate = Measurement::new(name + "/rate", Unit::MebibytesPerSecond, disk);
            context.print(&rate.ours(mebibytes / seconds));
        }
    }
    Ok(())
}

/// How many requests the first answer needs, of a store without threads, so that hydration makes none.
fn needed(place: &HistoryPlace, dir: &Path, lost: &Lost) -> Result<u64> {
    let options = commits::options().remote_runs(place.remote_runs());
    let engine = Engine::open(dir, options.manual(true))?;
    let gets = || place.copies().traffic().requests.gets;
    let before = gets();
    (lost.ask)(&engine)?;
    Ok(gets() - before)
}
