//! (g) A hundred parents and their children, read inside an object: one query for each parent, and one JOIN.
//!
//! A database in the same thread makes the N+1 pattern cheap; this bench measures how cheap. The peer is plain SQLite
//! with prepared statements on the same rows.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use rusqlite::{Connection, params};

use crate::{
    context::Context,
    ours::{
        node::Local,
        objects::{Family, Fetch},
    },
    report::{Measurement, Unit, micros},
    workload,
};

const PEER: &str = "SQLite with prepared statements";

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 100)]
    parents: u32,
    /// Children of each parent.
    #[arg(long, default_value_t = 10)]
    children: u32,
    /// How often everything is fetched in one slice.
    #[arg(long, default_value_t = 500)]
    times: u32,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let local = if context.wants_ours() {
        Some(ours(context, options)?)
    } else {
        None
    };
    let peer = if context.wants_peer() {
        Some(peer(options)?)
    } else {
        None
    };
    for (fetch, name) in [
        (Fetch::OneByOne, "n-plus-one/one-query-for-each"),
        (Fetch::Join, "n-plus-one/join"),
    ] {
        let disk = context.probe()?;
        let sides = context.alternate(
            local
                .as_ref()
                .map(|local| move || our_slice(local, fetch, options)),
            peer.as_ref()
                .map(|peer| move || peer_slice(peer, fetch, options)),
        )?;
        let (ours, peer) = sides.figure(0);
        let note = format!(
            "{} parents with {} children each",
            options.parents, options.children
        );
        context.print(
            &Measurement::new(name, Unit::Microseconds, disk)
                .ours(ours)
                .peer(PEER, peer)
                .note(note),
        );
    }
    local.map_or(Ok(()), Local::shutdown)
}

fn ours(context: &Context, options: &Options) -> Result<Local> {
    let local = Local::start(&context.fresh_dir("ours")?)?;
    let stub = local.host.env().object::<Family>().get_by_name("family");
    let populated = local
        .runtime
        .block_on(stub.populate(options.parents, options.children));
    populated.map_err(anyhow::Error::msg)?;
    Ok(local)
}

fn our_slice(local: &Local, fetch: Fetch, options: &Options) -> Result<[f64; 1]> {
    let stub = local.host.env().object::<Family>().get_by_name("family");
    let measured = local.runtime.block_on(stub.measure(fetch, options.times));
    let (found, mean) = measured.map_err(anyhow::Error::msg)?;
    check(found, options)?;
    Ok([mean])
}

fn peer(options: &Options) -> Result<Connection> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(workload::FAMILY_SCHEMA)?;
    for parent in 1..=options.parents {
        db.execute(
            workload::INSERT_PARENT,
            params![parent, format!("parent {parent}")],
        )?;
        for child in 0..options.children {
            db.execute(
                workload::INSERT_CHILD,
                params![parent, format!("child {child} of {parent}")],
            )?;
        }
    }
    Ok(db)
}

fn peer_slice(db: &Connection, fetch: Fetch, options: &Options) -> Result<[f64; 1]> {
    let begun = Instant::now();
    for _ in 0..options.times {
        check(
            if fetch == Fetch::Join {
                peer_join(db)?
            } else {
                peer_one_by_one(db)?
            },
            options,
        )?;
    }
    Ok([micros(begun.elapsed()) / f64::from(options.times.max(1))])
}

fn peer_join(db: &Connection) -> rusqlite::Result<usize> {
    let mut statement = db.prepare_cached(workload::JOIN)?;
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows
        .collect::<rusqlite::Result<Vec<(String, String)>>>()?
        .len())
}

fn peer_one_by_one(db: &Connection) -> rusqlite::Result<usize> {
    let mut parents = db.prepare_cached(workload::PARENTS)?;
    let parents = parents.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let parents = parents.collect::<rusqlite::Result<Vec<(i64, String)>>>()?;
    let mut found = 0;
    for (id, _name) in parents {
        let mut children = db.prepare_cached(workload::CHILDREN)?;
        let children = children.query_map((id,), |row| row.get(0))?;
        found += children.collect::<rusqlite::Result<Vec<String>>>()?.len();
    }
    Ok(found)
}

fn check(found: usize, options: &Options) -> Result<()> {
    let expected = options.parents as usize * options.children as usize;
    ensure!(
        found == expected,
        "{found} children were found, not {expected}"
    );
    Ok(())
}
