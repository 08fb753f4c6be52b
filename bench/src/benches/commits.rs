//! (a) Durable small commits per second.
//!
//! Each commit is one INSERT or one UPDATE (half and half) in a table with an index, in a random object. The
//! figure counts commits when they are durable. `inflight` is how many commits may wait for the disk, over all
//! threads: ours has one thread for each core and goes on while commits wait; the peer's commit blocks, so it
//! gets a thread for each.

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
            measure(
                context,
                objects,
                inflight,
                our_crew.as_ref(),
                peer_crew.as_ref(),
                note.as_deref(),
            )?;
        }
    }
    Ok(())
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
