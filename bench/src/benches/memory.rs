//! (e) Resident memory of each object that has been touched and stays in memory.
//!
//! Each object has a schema with an index and a few rows. The server's resident set is read before and after;
//! it runs in its own process. workerd, which keeps three descriptors an object, touches fewer.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    context::Context,
    load::{Generator, Plan, Target},
    ours::{node, objects::Table},
    peers::workerd,
    process::{self, Owned},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many objects are touched.
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// How many objects of workerd are touched.
    #[arg(long, default_value_t = 2_000)]
    peer_objects: usize,
}

const KIBIBYTE: f64 = 1024.0;
/// Connections over which workerd's objects are touched.
const TOUCH_CONNECTIONS: usize = 16;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let ours = if context.wants_ours() {
        Some(ours(context, options.objects)?)
    } else {
        None
    };
    let peer = if context.wants_peer() {
        Some(peer(context, options.peer_objects)?)
    } else {
        None
    };
    let name = format!("memory/objects={}", options.objects);
    let note = peer.map(|_| format!("workerd: {} objects", options.peer_objects));
    context.print(
        &Measurement::new(name, Unit::KibibytesPerObject, disk)
            .ours(ours)
            .peer(workerd::NAME, peer)
            .note(note),
    );
    Ok(())
}

fn per_object(before: u64, after: u64, objects: usize) -> f64 {
    after.saturating_sub(before) as f64 / KIBIBYTE / objects.max(1) as f64
}

fn ours(context: &Context, objects: usize) -> Result<f64> {
    let mut child = Owned::ourselves("memory", &context.fresh_dir("ours")?, objects)?;
    let mut lines = child.lines()?;
    let mut resident = || -> Result<u64> {
        lines
            .next()
            .context("our server has ended; its error is above")??
            .parse()
            .context("the child process did not print a number")
    };
    Ok(per_object(resident()?, resident()?, objects))
}

fn peer(context: &Context, objects: usize) -> Result<f64> {
    let server = workerd::Server::start(&context.fresh_dir("peer")?)?;
    let touch = |first: usize, objects: usize| -> Result<u64> {
        let paths = (first..first + objects).map(|object| format!("/touch/object-{object}"));
        // The reply is the number of rows: five, not the count that the generator would check.
        let target = Target::new(server.addr, paths).unchecked();
        Generator::connect(&target, TOUCH_CONNECTIONS)?.run(Plan::EachOnce)?;
        process::resident_bytes(server.pid())
    };
    let before = touch(objects, TOUCH_CONNECTIONS)?;
    Ok(per_object(before, touch(0, objects)?, objects))
}

/// The child's part: prints resident bytes before and after the objects are touched.
pub(crate) fn touch_and_tell(dir: &Path, objects: usize) -> Result<()> {
    let local = node::Local::start(dir)?;
    let touch = |object: usize| -> Result<()> {
        let stub = local
            .host
            .env()
            .object::<Table>()
            .get_by_name(&format!("object-{object}"));
        let value = local.runtime.block_on(stub.value(1));
        value.map_err(anyhow::Error::msg)?;
        Ok(())
    };
    // The first objects pay for what the process needs once.
    (objects..objects + TOUCH_CONNECTIONS).try_for_each(touch)?;
    println!("{}", process::resident_bytes(std::process::id())?);
    (0..objects).try_for_each(touch)?;
    println!("{}", process::resident_bytes(std::process::id())?);
    node::wait_for_owner()
}
