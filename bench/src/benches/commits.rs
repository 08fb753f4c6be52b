//! (a) Durable small commits per second.
//!
//! Each commit is one INSERT or one UPDATE (half and half) in a table with an index, in a random object. The
//! figure counts commits when they are durable. `inflight` is how many commits may wait for the disk, over all
//! threads: ours has one thread for each core and continues while commits wait; the peer's commit blocks, so it
//! gets a thread for each.

use abide_storage::StoreStats;
use anyhow::Result;
use clap::Args;

use crate::{
    context::Context,
    crew::Crew,
    ours,
    peers::sqlite,
    process,
    report::{Measurement, Unit},
};

/// The log's lock is timed for one commit of this many.
const SAMPLED: f64 = 64.0;

#[derive(Args)]
pub(crate) struct Options {
    /// How many objects; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 1_000, 10_000])]
    objects: Vec<usize>,
    /// How many commits may be in flight; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256])]
    inflight: Vec<usize>,
    /// Threads of the peer instead of one for each commit in flight.
    #[arg(long)]
    peer_threads: Option<usize>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    for &objects in &options.objects {
        let engine = if context.wants_ours() {
            let dir = context.fresh_dir("ours")?;
            Some(ours::commits::Engine::open(&dir, ours::commits::options())?)
        } else {
            None
        };
        let our_crew = engine
            .as_ref()
            .map(|engine| engine.crew(process::cores(), objects))
            .transpose()?;
        let files = if context.wants_peer() {
            Some(sqlite::Files::create(&context.fresh_dir("peer")?, objects)?)
        } else {
            None
        };
        let note = files.as_ref().and_then(sqlite::Files::note);
        for &inflight in &options.inflight {
            let threads = options.peer_threads.unwrap_or(inflight).min(inflight);
            let peer_crew = files
                .as_ref()
                .map(|files| files.crew(threads))
                .transpose()?;
            let before = engine.as_ref().map(|engine| engine.store().stats());
            measure(
                context,
                objects,
                inflight,
                our_crew.as_ref(),
                peer_crew.as_ref(),
                note.as_deref(),
            )?;
            if let (Some(engine), Some(before)) = (&engine, before) {
                context.say(&serial_time(&before, &engine.store().stats()));
            }
        }
    }
    Ok(())
}

/// What commits have to do one after the other, and how long each took for that: it bounds what more cores can do.
fn serial_time(before: &StoreStats, after: &StoreStats) -> String {
    let commits = (after.commits - before.commits).max(1) as f64;
    let each = |figure: fn(&StoreStats) -> f64| (figure(after) - figure(before)) / commits * 1e6;
    let groups = (after.groups - before.groups).max(1);
    format!(
        "    each commit: under the log's lock {:.2} us (waiting for it {:.2} us), writing {:.2} us, syncing {:.2} us, \
         releasing {:.2} us of which {:.2} us hold up the writer; {:.1} commits in a group, {:.0} % of the groups released while the next is written",
        each(|stats| stats.append_lock_seconds * SAMPLED),
        each(|stats| stats.append_wait_seconds * SAMPLED),
        each(|stats| stats.sync_seconds - stats.flush_seconds),
        each(|stats| stats.flush_seconds),
        each(|stats| stats.announce_seconds),
        each(|stats| stats.release_seconds),
        commits / groups as f64,
        (after.overlapped_groups - before.overlapped_groups) as f64 * 100.0 / groups as f64,
    )
}

fn measure(
    context: &Context,
    objects: usize,
    inflight: usize,
    ours: Option<&Crew>,
    peer: Option<&Crew>,
    note: Option<&str>,
) -> Result<()> {
    let disk = context.probe()?;
    for crew in [ours, peer].into_iter().flatten() {
        crew.run(inflight, context.warm_up())?;
    }
    let side = |crew: &Crew| crew.run(inflight, context.slice());
    let sides = context.alternate(
        ours.map(|crew| move || side(crew)),
        peer.map(|crew| move || side(crew)),
    )?;
    let name = format!("commits/objects={objects}/inflight={inflight}");
    let figures = [
        ("", Unit::CommitsPerSecond),
        ("/p50", Unit::Microseconds),
        ("/p99", Unit::Microseconds),
        ("/cpu", Unit::CpuMicroseconds),
    ];
    for (index, (suffix, unit)) in figures.into_iter().enumerate() {
        let (ours, peer) = sides.figure(index);
        let note = note.filter(|_| index == 0).map(str::to_owned);
        context.print(
            &Measurement::new(format!("{name}{suffix}"), unit, disk)
                .ours(ours)
                .peer(sqlite::NAME, peer)
                .note(note),
        );
    }
    Ok(())
}
