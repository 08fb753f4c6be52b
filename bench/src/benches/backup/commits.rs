//! Commits with the archive alone, with copies to a directory and to a bucket, and with answers that wait for the bucket.

use std::time::Duration;

use abide::history::{Options as CopyOptions, Store as Copies};
use anyhow::Result;

use super::Options;
use crate::{
    context::Context,
    ours::{
        commits::{self, Engine},
        copies::{self, Bucket, Copier},
        node,
    },
    process,
    report::{Measurement, Unit},
};

const MEBIBYTE: f64 = 1_048_576.0;

pub(super) fn run(context: &Context, options: &Options) -> Result<()> {
    let directory = copies::directory(&context.fresh_dir("copies")?)?;
    measure(context, options, "directory", &directory, false)?;
    context.fresh_dir("copies")?;
    for (name, sync) in [("s3", false), ("s3-sync", true)] {
        let bucket = Bucket::start()?;
        measure(context, options, name, &bucket.open()?, sync)?;
    }
    Ok(())
}

fn measure(
    context: &Context,
    options: &Options,
    name: &str,
    place: &Copies,
    sync: bool,
) -> Result<()> {
    let interval = Duration::from_secs_f64(options.interval);
    let slice = Duration::from_secs_f64(options.slice);
    let store_options = || commits::options().checkpoint_interval(interval);
    let copy_options = CopyOptions {
        interval,
        poll: interval.min(CopyOptions::default().poll),
        eager: sync,
        ..CopyOptions::default()
    };
    let runtime = node::runtime()?;
    let dir = context.fresh_dir("ours")?;
    let engine = Engine::open(&dir, store_options().await_copy(sync))?;
    let copier = Copier::start(&runtime, &dir, engine.store(), place, copy_options)?;
    let alone = Engine::open(&context.fresh_dir("peer")?, store_options())?;
    let crew = |engine: &Engine| engine.crew(process::cores(), options.objects);
    let (our_crew, peer_crew) = (crew(&engine)?, crew(&alone)?);
    let disk = context.probe()?;
    for crew in [&our_crew, &peer_crew] {
        crew.run(options.inflight, slice / 4)?;
    }
    copier.settle()?;
    let (first, before) = (copier.newest()?.0, place.traffic());
    // What is left to be copied after a slice must not burden the other side's.
    let sides = context.alternate(
        context.wants_ours().then_some(|| {
            let figures = our_crew.run(options.inflight, slice)?;
            copier.settle()?;
            Ok(figures)
        }),
        context.wants_peer().then_some(|| {
            let figures = peer_crew.run(options.inflight, slice)?;
            alone.store().checkpoint()?;
            Ok(figures)
        }),
    )?;
    let (last, after) = (copier.newest()?.0, place.traffic());
    let note = format!(
        "{} copies, {:.1} MiB uploaded in {} requests",
        last - first,
        (after.sent - before.sent) as f64 / MEBIBYTE,
        after.requests.total() - before.requests.total()
    );
    let figures = [
        (0, "", Unit::CommitsPerSecond),
        (2, "/p99", Unit::Microseconds),
        (3, "/cpu", Unit::CpuMicroseconds),
    ];
    for (index, suffix, unit) in figures {
        let (ours, peer) = sides.figure(index);
        context.print(
            &Measurement::new(format!("backup/commits/{name}{suffix}"), unit, disk)
                .ours(ours)
                .peer("archive alone", peer)
                .note((index == 0).then(|| note.clone())),
        );
    }
    Ok(())
}
