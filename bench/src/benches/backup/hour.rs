//! What a store is asked in an hour with default settings, and its price per month.
//!
//! An hour takes a minute: the intervals of checkpoints and copies are divided by 60, and so is the time between commits.
//! Each copy therefore has as many commits as it would have, and the archive is merged as often. It is the first hour of a
//! store: later ones send more, since larger files are merged.

use std::{
    thread,
    time::{Duration, Instant},
};

use abide::history::{Options as CopyOptions, Traffic};
use abide_storage::{ArchiveOptions, StoreOptions};
use anyhow::{Result, ensure};

use super::Options;
use crate::{
    context::Context,
    ours::{
        commits::{self, Engine},
        copies::{Bucket, Copier},
        node,
    },
    report::{Measurement, Unit},
    workload::Sequence,
};

/// How much faster time passes.
const FASTER: u32 = 60;
const HOUR: f64 = 3600.0;
/// Hours of a month, 365 days in 12.
const MONTH: f64 = 730.0;
const MEBIBYTE: f64 = 1_048_576.0;
const GIBIBYTE: f64 = 1_073_741_824.0;
/// Objects that commit.
const OBJECTS: usize = 100;

/// List prices of S3 Standard in us-east-1 in USD, up to 50 TB, from <https://aws.amazon.com/s3/pricing/>. Deleting and
/// uploading bytes cost nothing.
const PUT_OR_LIST: f64 = 0.005 / 1_000.0;
const GET: f64 = 0.0004 / 1_000.0;
/// For a GB in a month.
const STORED: f64 = 0.023;

/// What an hour has cost.
struct Hour {
    commits: u64,
    traffic: Traffic,
    /// By how many bytes the newest copy has grown.
    growth: u64,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<()> {
    context.say(&format!(
        "an hour takes {:.0} s: the intervals of checkpoints (60 s), uploads (10 s) and shipping (1 s), and the time between commits, are divided by {FASTER}",
        HOUR / f64::from(FASTER)
    ));
    options
        .rates
        .iter()
        .try_for_each(|rate| measure(context, *rate, options.hours))
}

fn measure(context: &Context, rate: u32, hours: f64) -> Result<()> {
    let disk = context.probe()?;
    let Hour {
        commits,
        traffic,
        growth,
    } = pass(context, rate, hours)?;
    let requests = traffic.requests;
    ensure!(
        rate > 0 || requests.total() == 0,
        "an idle node made requests: {requests:?}"
    );
    let asked = (requests.puts + requests.lists) as f64 * PUT_OR_LIST + requests.gets as f64 * GET;
    let asked = asked / hours * MONTH;
    // What the newest copy needs, and a day of all that was sent.
    let in_hours = |time: Duration| time.as_secs_f64() / HOUR;
    let bytes = growth as f64 * in_hours(ArchiveOptions::default().retention)
        + traffic.sent as f64 * in_hours(CopyOptions::default().keep);
    let stored = bytes / hours / GIBIBYTE;
    let kept = stored * STORED;

    let name = |figure: &str| format!("backup/hour/commits={rate}/{figure}");
    let per_hour = |value: u64| value as f64 / hours;
    let note = format!(
        "{:.0} puts, {:.0} lists, {:.0} gets, {:.0} deletes for {:.0} commits",
        per_hour(requests.puts),
        per_hour(requests.lists),
        per_hour(requests.gets),
        per_hour(requests.deletes),
        per_hour(commits)
    );
    let measurement = Measurement::new(name("requests"), Unit::RequestsPerHour, disk);
    context.print(&measurement.ours(per_hour(requests.total())).note(note));
    let note = format!(
        "the newest copy grows by {:.2} MiB/h",
        per_hour(growth) / MEBIBYTE
    );
    let measurement = Measurement::new(name("sent"), Unit::MebibytesPerHour, disk);
    context.print(
        &measurement
            .ours(per_hour(traffic.sent) / MEBIBYTE)
            .note(note),
    );
    let note = format!(
        "requests {asked:.3}, and {kept:.3} for {stored:.2} GiB: 30 days of history, and a day of all that was sent"
    );
    let measurement = Measurement::new(name("price"), Unit::DollarsPerMonth, disk);
    context.print(&measurement.ours(asked + kept).note(note));
    Ok(())
}

/// Commits at a rate for some hours, of a store that is copied to a bucket.
fn pass(context: &Context, rate: u32, hours: f64) -> Result<Hour> {
    let runtime = node::runtime()?;
    let bucket = Bucket::start()?;
    let place = bucket.open()?;
    let dir = context.fresh_dir("ours")?;
    let checkpoint = StoreOptions::default().checkpoint_interval / FASTER;
    let engine = Engine::open(&dir, commits::options().checkpoint_interval(checkpoint))?;
    let objects: Vec<_> = (0..OBJECTS)
        .map(|object| engine.open_seeded(object))
        .collect::<Result<_>>()?;
    let defaults = CopyOptions::default();
    let options = CopyOptions {
        interval: defaults.interval / FASTER,
        poll: defaults.poll / FASTER,
        ship: defaults.ship.map(|interval| interval / FASTER),
        ..defaults
    };
    let copier = Copier::start(&runtime, &dir, engine.store(), &place, options)?;
    copier.settle_for(checkpoint * 2)?;

    let (before, (_, small)) = (place.traffic(), copier.newest()?);
    let length = hours * HOUR / f64::from(FASTER);
    let (mut sequence, mut commits, begun) = (Sequence::new(0), 0, Instant::now());
    loop {
        let passed = begun.elapsed().as_secs_f64();
        if passed >= length {
            break;
        }
        if f64::from(rate * FASTER) * passed < commits as f64 || rate == 0 {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        let db = &objects[sequence.below(OBJECTS)];
        commits::commit(db, &mut sequence)?;
        commits += 1;
    }
    if rate > 0 {
        // The last checkpoint of the hour.
        copier.settle()?;
    }
    let (after, (_, large)) = (place.traffic(), copier.newest()?);
    Ok(Hour {
        commits,
        traffic: since(before, after),
        growth: large.saturating_sub(small),
    })
}

fn since(before: Traffic, mut after: Traffic) -> Traffic {
    after.requests.puts -= before.requests.puts;
    after.requests.gets -= before.requests.gets;
    after.requests.lists -= before.requests.lists;
    after.requests.deletes -= before.requests.deletes;
    after.sent -= before.sent;
    after.received -= before.received;
    after
}
