//! `abide projection`: what the feed of an object has not handed over, why, and another try.

use std::io::Write;

use abide::{
    projection::{FeedStanding, WaitingRow},
    queue::Counts,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use crate::{
    node::{Node, NodeArgs, segment},
    object::ObjectArg,
    text::{plain, time},
};

/// Rows of one question; more are asked for page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Projection {
    /// Print where the feed of an object is: what waits for the read model, since when, and why
    Show(FeedArgs),
    /// List the rows that wait, by table and id
    Rows(FeedArgs),
    /// Hand over at once what waits, also after the queue has refused
    Retry(FeedArgs),
}

#[derive(Args)]
pub(crate) struct FeedArgs {
    #[command(flatten)]
    object: ObjectArg,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Deserialize)]
struct Standing {
    #[serde(flatten)]
    feed: FeedStanding,
    read_model: Option<Counts>,
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<WaitingRow>,
}

/// The feed of an object on a running node.
struct Opened {
    node: Node,
    path: String,
}

impl FeedArgs {
    fn open(&self) -> Result<Opened> {
        let node = self.node.node()?;
        let path = self.object.on_node(&node)?;
        let path = path.path("objects", "components/projection");
        Ok(Opened { node, path })
    }
}

pub(crate) fn run(command: &Projection, out: &mut impl Write) -> Result<()> {
    match command {
        Projection::Show(args) => {
            let Opened { node, path } = args.open()?;
            print(&node.get(&path)?, out)
        }
        Projection::Rows(args) => rows(args, out),
        Projection::Retry(args) => {
            let Opened { node, path } = args.open()?;
            print(&node.post(&format!("{path}/retry"), &json!({}))?, out)
        }
    }
}

fn print(standing: &Standing, out: &mut impl Write) -> Result<()> {
    let Standing { feed, read_model } = standing;
    let status = match (feed.waiting, feed.failures) {
        (0, _) => "up to date",
        (_, 0) => "handing over",
        _ => "refused",
    };
    writeln!(out, "status: {status}")?;
    writeln!(out, "rows that wait: {}", feed.waiting)?;
    writeln!(out, "oldest: {}", time(feed.oldest))?;
    writeln!(out, "refused in a row: {}", feed.failures)?;
    writeln!(
        out,
        "error: {}",
        plain(feed.last_error.as_deref().unwrap_or("-"))
    )?;
    writeln!(out, "asked again: {}", time(feed.retry_at))?;
    writeln!(out, "queue: {}", plain(&feed.queue))?;
    let Some(counts) = read_model else {
        writeln!(out, "rows in the queue: the queue does not answer")?;
        return Ok(());
    };
    writeln!(out, "rows in the queue: {}", counts.messages)?;
    writeln!(out, "oldest in the queue: {}", time(counts.oldest))?;
    writeln!(out, "dead letters: {}", counts.dead)?;
    let failing = counts.last_error.as_deref().filter(|_| counts.failing > 0);
    writeln!(
        out,
        "read model: {}",
        plain(failing.unwrap_or("takes rows"))
    )?;
    Ok(())
}

fn rows(args: &FeedArgs, out: &mut impl Write) -> Result<()> {
    let Opened { node, path } = args.open()?;
    let mut after = String::new();
    writeln!(out, "TABLE\tROW\tSEQ\tPUT")?;
    loop {
        let Rows { rows } = node.get(&format!("{path}/rows?limit={PAGE}{after}"))?;
        for row in &rows {
            let (table, id) = (plain(&row.table), plain(&row.id));
            writeln!(out, "{table}\t{id}\t{}\t{}", row.seq, time(Some(row.at)))?;
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => {
                after = format!("&table={}&id={}", segment(&last.table), segment(&last.id));
            }
            _ => return Ok(()),
        }
    }
}
