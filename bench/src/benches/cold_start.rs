//! (d) Cold start: the first call of an object that is not in memory.
//!
//! An existing object (its file holds a schema and rows) is opened and one row is read. A new object is made:
//! schema with an index, rows, and the reply leaves when they are durable. Through the runtime, from a caller
//! outside; and on the storage engine alone, beside plain SQLite.

use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use rusqlite::Connection;

use crate::{
    context::Context,
    figures::Latencies,
    ours::{
        commits::{self, Engine},
        node::Local,
        objects::Table,
    },
    peers::sqlite,
    report::{Measurement, Unit},
    workload,
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many objects are started, one after the other.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if context.wants_ours() {
        through_the_runtime(context, options.objects)?;
    }
    on_storage(context, options.objects)
}

fn through_the_runtime(context: &Context, objects: usize) -> Result<()> {
    let dir = context.fresh_dir("ours")?;
    let disk = context.probe()?;
    let local = Local::start(&dir)?;
    let new = first_calls(&local, objects)?;
    local.shutdown()?;
    let local = Local::start(&dir)?;
    let existing = first_calls(&local, objects)?;
    let resident = first_calls(&local, objects)?;
    local.shutdown()?;
    for (name, latencies) in [
        ("new", new),
        ("existing", existing),
        ("already-resident", resident),
    ] {
        let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
        for (figure, value) in [("p50", p50), ("p99", p99)] {
            let name = format!("cold-start/call/{name}/{figure}");
            context.print(&Measurement::new(name, Unit::Microseconds, disk).ours(value));
        }
    }
    Ok(())
}

fn first_calls(local: &Local, objects: usize) -> Result<Latencies> {
    let table = local.host.env().object::<Table>();
    let mut latencies = Latencies::default();
    for object in 0..objects {
        let stub = table.get_by_name(&format!("object-{object}"));
        let start = Instant::now();
        local
            .runtime
            .block_on(stub.value(1))
            .map_err(anyhow::Error::msg)?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

/// Open, read a row, close: with the newest pages in the log's overlay, and from the object's file.
fn on_storage(context: &Context, objects: usize) -> Result<()> {
    let disk = context.probe()?;
    let mut ours = None;
    if context.wants_ours() {
        let engine = Engine::open(&context.fresh_dir("ours")?, commits::options())?;
        let new = timed(objects, |object| {
            drop(engine.open_seeded(object)?);
            Ok(())
        })?;
        let overlay = timed(objects, |object| our_open(&engine, object))?;
        engine.store().checkpoint()?;
        ours = Some([
            new,
            overlay,
            timed(objects, |object| our_open(&engine, object))?,
        ]);
        engine.store().close()?;
    }
    let mut peer = None;
    if context.wants_peer() {
        let files = sqlite::Files::create(&context.fresh_dir("peer")?, objects)?;
        peer = Some(timed(objects, |object| peer_open(&files.open(object)?))?);
    }
    for (index, name) in ["new", "from-the-log", "from-its-file"]
        .into_iter()
        .enumerate()
    {
        let measurement = Measurement::new(
            format!("cold-start/storage/{name}/p50"),
            Unit::Microseconds,
            disk,
        );
        // A new object of ours waits for no disk here, so the peer has no fair counterpart.
        let peer = peer.filter(|_| index > 0);
        context.print(
            &measurement
                .ours(ours.map(|ours| ours[index]))
                .peer(sqlite::NAME, peer),
        );
    }
    Ok(())
}

fn our_open(engine: &Engine, object: usize) -> Result<()> {
    let value: String = engine
        .open_object(object)?
        .exec(workload::SELECT, (1,))?
        .one()?;
    drop(value);
    Ok(())
}

fn peer_open(db: &Connection) -> Result<()> {
    let value: String = db
        .query_row(workload::SELECT, (1,), |row| row.get(0))
        .context("the peer's row")?;
    drop(value);
    Ok(())
}

/// The median of the work on each object, in microseconds.
fn timed(objects: usize, mut work: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut latencies = Latencies::default();
    for object in 0..objects {
        let start = Instant::now();
        work(object)?;
        latencies.push(start.elapsed());
    }
    let [p50] = latencies.percentiles_us([50.0]);
    Ok(p50)
}
