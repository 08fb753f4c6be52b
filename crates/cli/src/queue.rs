//! `abide queue`: the state of a program's queues, and their dead letters.

use std::{
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use abide::limits::queue as limits;
use abide::queue::{Counts, DeadLetter, MessageId};
use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use crate::{
    node::{Node, NodeArgs, is_no_object, segment},
    text::{plain, time},
};

/// Dead letters listed per shard.
const LISTED: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Queue {
    /// Show the state of each shard
    Show(QueueArgs),
    /// List dead letters, shard by shard, newest first, at most 1000 of each
    DeadLetters(QueueArgs),
    /// Redeliver a dead letter, or all of them
    Redrive(WhichArgs),
    /// Remove a dead letter, or all of them
    Discard(WhichArgs),
    /// Pause delivery to the consumer
    Pause(QueueArgs),
    /// Resume delivery after a pause, or during the backoff after a failure
    Resume(QueueArgs),
}

#[derive(Args)]
pub(crate) struct QueueArgs {
    /// The name of the queue
    queue: String,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct WhichArgs {
    #[command(flatten)]
    queue: QueueArgs,

    /// The dead letter, such as 3-127
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<MessageId>,

    /// All current dead letters
    #[arg(long)]
    all: bool,
}

#[derive(Deserialize)]
struct Shard {
    shards: u32,
    paused: bool,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Deserialize)]
struct DeadLetters {
    dead_letters: Vec<DeadLetter>,
}

#[derive(Deserialize)]
struct Discarded {
    count: u64,
}

/// A queue on a running node.
struct Opened<'a> {
    node: Node,
    queue: &'a str,
}

impl QueueArgs {
    fn open(&self) -> Result<Opened<'_>> {
        Ok(Opened {
            node: self.node.node()?,
            queue: &self.queue,
        })
    }
}

impl Opened<'_> {
    fn path(&self, shard: u32) -> String {
        let name = segment(&format!("{}/{shard}", self.queue));
        format!("/objects/QueueShard/{name}/components/queue")
    }

    /// Each shard that has received messages, with its number.
    fn shards(&self) -> Result<Vec<(u32, Shard)>> {
        let mut shards: Vec<(u32, Shard)> = Vec::new();
        for number in 0..limits::MAX_SHARDS {
            if shards
                .first()
                .is_some_and(|(_, shard)| number >= shard.shards)
            {
                break;
            }
            match self.node.get(&self.path(number)) {
                Ok(shard) => shards.push((number, shard)),
                Err(error) if is_no_object(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let queue = self.queue;
        ensure!(
            !shards.is_empty(),
            "queue `{queue}` has received no messages on this node"
        );
        Ok(shards)
    }
}

pub(crate) fn run(command: &Queue, out: &mut impl Write) -> Result<()> {
    match command {
        Queue::Show(args) => show(args, out),
        Queue::DeadLetters(args) => dead_letters(args, out),
        Queue::Redrive(args) => end(args, "redrive", "redriven", out),
        Queue::Discard(args) => end(args, "discard", "discarded", out),
        Queue::Pause(args) => change(args, "pause", out),
        Queue::Resume(args) => change(args, "resume", out),
    }
}

fn show(args: &QueueArgs, out: &mut impl Write) -> Result<()> {
    print(&args.open()?.shards()?, out)
}

/// Any shard can change the whole queue.
fn change(args: &QueueArgs, verb: &str, out: &mut impl Write) -> Result<()> {
    let queue = args.open()?;
    if let Some((any, _)) = queue.shards()?.first() {
        let path = format!("{}/{verb}", queue.path(*any));
        let _: Shard = queue.node.post(&path, &json!({}))?;
    }
    print(&queue.shards()?, out)
}

fn print(shards: &[(u32, Shard)], out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "SHARD\tSTATE\tMESSAGES\tDEAD\tBYTES\tCONSUMED\tOLDEST\tERROR"
    )?;
    for (number, Shard { paused, counts, .. }) in shards {
        let state = match (paused, counts.failing) {
            (true, _) => "paused",
            (false, 0) => "running",
            (false, _) => "failing",
        };
        writeln!(
            out,
            "{number}\t{state}\t{}\t{}\t{}\t{}\t{}\t{}",
            counts.messages,
            counts.dead,
            counts.bytes,
            counts.consumed,
            time(counts.oldest),
            plain(counts.last_error.as_deref().unwrap_or("-"))
        )?;
    }
    Ok(())
}

fn dead_letters(args: &QueueArgs, out: &mut impl Write) -> Result<()> {
    let queue = args.open()?;
    writeln!(out, "MESSAGE\tKEY\tATTEMPTS\tSENT\tDIED\tERROR")?;
    for (shard, _) in queue.shards()? {
        let question = format!("{}/dead-letters?limit={LISTED}", queue.path(shard));
        let DeadLetters { dead_letters } = queue.node.get(&question)?;
        for letter in dead_letters {
            writeln!(
                out,
                "{}\t{}\t{}\t{}\t{}\t{}",
                letter.id,
                plain(letter.key.as_deref().unwrap_or("-")),
                letter.attempts,
                time(Some(letter.sent_at)),
                time(Some(letter.died_at)),
                plain(&letter.error)
            )?;
        }
    }
    Ok(())
}

fn end(args: &WhichArgs, verb: &str, told: &str, out: &mut impl Write) -> Result<()> {
    let queue = args.queue.open()?;
    if let Some(id) = args.id {
        let path = format!("{}/{verb}", queue.path(id.shard()));
        let _: Shard = queue.node.post(&path, &json!({ "id": id }))?;
        writeln!(out, "{id} {told}")?;
        return Ok(());
    }
    // Messages that become dead letters in the meantime are left out; otherwise this might never end.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let until = json!({ "died_until": u64::try_from(now)? });
    let mut total = 0;
    for (shard, _) in queue.shards()? {
        loop {
            let Discarded { count } = queue
                .node
                .post(&format!("{}/{verb}", queue.path(shard)), &until)?;
            total += count;
            if count == 0 {
                break;
            }
        }
    }
    writeln!(out, "{total} {told}")?;
    Ok(())
}
