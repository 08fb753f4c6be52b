//! `abide outbox`: manages the messages of a running node's outboxes, through the clients' API or the admin listener.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use abide::Timestamp;
use abide::outbox::{BulkResult, Change, Counts, Destination, Record, Status};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    data::DataArgs,
    node::{self, Node, TokenArgs, segment},
    object::ObjectArg,
};

/// Messages per request; more are requested page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Count an outbox's messages, and show destinations with errors
    Status(StatusArgs),
    /// List messages, newest first: id, status, attempts, polls, next attempt or poll, kind, destination, summary, last error
    List(ListArgs),
    /// Show what is failing: destinations, and messages that are retried without limit
    Failing(FailingArgs),
    /// Show all details of a message, including its payload and history
    Show(OneArgs),
    /// End the pause of a failing destination: messages that are due are sent
    Resume(ResumeArgs),
    /// Cancel a message that has not ended, even while it is being sent or polled
    Cancel(OneArgs),
    /// Make a dead letter of a message that has not ended, to edit or redrive it
    GiveUp(OneArgs),
    /// Change the payload of a dead letter, before redriving it
    Edit(EditArgs),
    /// Queue one or more dead letters again
    Redrive(SomeArgs),
    /// Discard one or more dead letters permanently
    Discard(SomeArgs),
}

/// The options that select an outbox.
#[derive(Args)]
pub(crate) struct OutboxArgs {
    /// The outbox: the name of a ready-made one, or CLASS/OBJECT for that of any object
    #[arg(value_name = "OUTBOX")]
    name: String,

    /// Listener of the running node, for CLASS/OBJECT its admin listener [default: according to the settings, such as
    /// <http://127.0.0.1:8080>; for CLASS/OBJECT the Unix socket in the data directory]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    #[command(flatten)]
    token: TokenArgs,

    #[command(flatten)]
    data: DataArgs,
}

#[derive(Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    outbox: OutboxArgs,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Only messages with this status: queued, sending, sent, failed (the dead letters), canceled, discarded [default:
    /// all but dead letters]
    #[arg(long)]
    status: Option<String>,

    /// Maximum number of messages [default: all]
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    outbox: OutboxArgs,
}

#[derive(Args)]
pub(crate) struct FailingArgs {
    /// Maximum number of messages [default: all]
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    outbox: OutboxArgs,
}

#[derive(Args)]
pub(crate) struct OneArgs {
    #[command(flatten)]
    outbox: OutboxArgs,

    /// The number of the message
    id: i64,
}

#[derive(Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    outbox: OutboxArgs,

    /// The destination, as shown by `status`
    destination: String,
}

#[derive(Args)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    outbox: OutboxArgs,

    /// The number of the dead letter
    id: i64,

    /// The new payload, as JSON [default: standard input]
    payload: Option<String>,
}

#[derive(Args)]
pub(crate) struct SomeArgs {
    #[command(flatten)]
    outbox: OutboxArgs,

    /// The number of the dead letter
    #[arg(required_unless_present = "all")]
    id: Option<i64>,

    /// Every dead letter
    #[arg(long, conflicts_with = "id")]
    all: bool,

    /// With --all: only dead letters of this kind
    #[arg(long, requires = "all")]
    kind: Option<String>,

    /// With --all: only dead letters to this destination
    #[arg(long, requires = "all")]
    destination: Option<String>,
}

#[derive(Deserialize)]
struct Overview {
    counts: Counts,
    destinations: Vec<Destination>,
}

#[derive(Deserialize)]
struct Page {
    messages: Vec<Record>,
    next: Option<i64>,
}

#[derive(Deserialize)]
struct Failing {
    destinations: Vec<Destination>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize)]
struct Whole {
    payload: Box<RawValue>,
    history: Vec<Change>,
}

/// An outbox of a running node.
struct Outbox {
    node: Node,
    path: String,
}

impl OutboxArgs {
    fn open(&self) -> Result<Outbox> {
        if self.name.contains('/') {
            let node = match &self.url {
                Some(url) => Node::at(url, "its admin listener with --url", &self.token)?,
                None => Node::of_directory(&self.data.config()?.data.dir)?,
            };
            let object = ObjectArg::new(&self.name).on_node(&node)?;
            let path = object.path("objects", "components/outbox");
            return Ok(Outbox { node, path });
        }
        let url = match &self.url {
            Some(url) => url.clone(),
            None => node::server_address(&self.data.config()?)?,
        };
        Ok(Outbox {
            node: Node::at(&url, "its listener with --url", &self.token)?,
            path: format!("/outbox/{}", segment(&self.name)),
        })
    }
}

impl Outbox {
    fn message(&self, id: i64) -> String {
        format!("{}/messages/{id}", self.path)
    }
}

pub(crate) fn run(command: &Command, out: &mut impl Write) -> Result<()> {
    match command {
        Command::Status(args) => status(&args.outbox.open()?, out),
        Command::List(args) => list(args, out),
        Command::Failing(args) => failing(args, out),
        Command::Show(args) => show(args, out),
        Command::Resume(args) => {
            let outbox = args.outbox.open()?;
            let path = format!("{}/destinations/resume", outbox.path);
            let which = json!({ "destination": args.destination });
            outbox.node.post::<()>(&path, &which)?;
            writeln!(out, "resumed sending to {}", plain(&args.destination))?;
            Ok(())
        }
        Command::Cancel(args) => {
            let outbox = args.outbox.open()?;
            // DELETE would also discard dead letters.
            let record: Record = outbox.node.get(&outbox.message(args.id))?;
            anyhow::ensure!(
                record.status != Status::Failed,
                "message {} is a dead letter: redrive or discard it",
                args.id
            );
            let record: Record = outbox.node.delete(&outbox.message(args.id))?;
            told(&record, out)
        }
        Command::GiveUp(args) => {
            let outbox = args.outbox.open()?;
            let path = format!("{}/give-up", outbox.message(args.id));
            told(&outbox.node.post::<Record>(&path, &())?, out)
        }
        Command::Edit(args) => edit(args, out),
        Command::Redrive(args) => {
            let outbox = args.outbox.open()?;
            match args.id {
                Some(id) => {
                    let path = format!("{}/redrive", outbox.message(id));
                    told(&outbox.node.post::<Record>(&path, &())?, out)
                }
                None => sweep(&outbox, "redrive", "redriven", args, out),
            }
        }
        Command::Discard(args) => {
            let outbox = args.outbox.open()?;
            match args.id {
                Some(id) => {
                    let record: Record = outbox.node.get(&outbox.message(id))?;
                    anyhow::ensure!(
                        record.status == Status::Failed,
                        "message {id} is {}: only a dead letter can be discarded",
                        record.status
                    );
                    told(&outbox.node.delete::<Record>(&outbox.message(id))?, out)
                }
                None => sweep(&outbox, "discard", "discarded", args, out),
            }
        }
    }
}

fn status(outbox: &Outbox, out: &mut impl Write) -> Result<()> {
    let Overview {
        counts,
        destinations,
    } = outbox.node.get(&outbox.path)?;
    for (status, count) in [
        (Status::Queued, counts.queued),
        (Status::Sending, counts.sending),
        (Status::Sent, counts.sent),
        (Status::Failed, counts.failed),
        (Status::Canceled, counts.canceled),
        (Status::Discarded, counts.discarded),
    ] {
        writeln!(out, "{status}\t{count}")?;
    }
    for to in destinations
        .iter()
        .filter(|to| to.failures > 0 || to.paused_until.is_some())
    {
        trouble(to, out)?;
    }
    Ok(())
}

fn trouble(to: &Destination, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "{}\tfailures in a row: {}\tpaused until {}\t{}",
        plain(&to.destination),
        to.failures,
        time(to.paused_until),
        plain(to.last_error.as_deref().unwrap_or("-"))
    )?;
    Ok(())
}

fn list(args: &ListArgs, out: &mut impl Write) -> Result<()> {
    let outbox = args.outbox.open()?;
    let status = args
        .status
        .as_ref()
        .map_or_else(String::new, |status| format!("&status={}", segment(status)));
    head(out)?;
    lines(args.limit, out, |limit, before| {
        let path = format!("{}/messages?limit={limit}{status}{before}", outbox.path);
        outbox.node.get(&path)
    })
}

fn failing(args: &FailingArgs, out: &mut impl Write) -> Result<()> {
    let outbox = args.outbox.open()?;
    let ask = |limit: usize, before: &str| -> Result<Failing> {
        let path = format!("{}/failing?limit={limit}{before}", outbox.path);
        outbox.node.get(&path)
    };
    for to in ask(1, "")?.destinations {
        trouble(&to, out)?;
    }
    head(out)?;
    lines(args.limit, out, |limit, before| {
        ask(limit, before).map(|failing| failing.page)
    })
}

fn head(out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "ID\tSTATUS\tATTEMPTS\tPOLLS\tNEXT\tKIND\tDESTINATION\tSUMMARY\tERROR"
    )?;
    Ok(())
}

/// Prints a line for each message, page by page. A page is requested by its size and the end of its query.
fn lines(
    limit: Option<usize>,
    out: &mut impl Write,
    ask: impl Fn(usize, &str) -> Result<Page>,
) -> Result<()> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut before = String::new();
    while left > 0 {
        let page = ask(left.min(PAGE), &before)?;
        left -= page.messages.len();
        for record in &page.messages {
            line(record, out)?;
        }
        match page.next {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    Ok(())
}

fn line(record: &Record, out: &mut impl Write) -> Result<()> {
    writeln!(
        out,
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        record.id,
        record.status,
        record.attempts,
        record.polls,
        time(record.next_at),
        plain(&record.kind),
        plain(&record.destination),
        plain(&record.summary),
        plain(record.last_error.as_deref().unwrap_or("-"))
    )?;
    Ok(())
}

fn show(args: &OneArgs, out: &mut impl Write) -> Result<()> {
    let outbox = args.outbox.open()?;
    let shown: Box<RawValue> = outbox.node.get(&outbox.message(args.id))?;
    let record: Record = serde_json::from_str(shown.get())?;
    let whole: Whole = serde_json::from_str(shown.get())?;
    line(&record, out)?;
    writeln!(out, "idempotency key\t{}", record.idempotency_key)?;
    for (name, value) in [
        ("dedup key", &record.dedup_key),
        ("ordering key", &record.ordering_key),
        ("operation", &record.operation),
    ] {
        if let Some(value) = value {
            writeln!(out, "{name}\t{}", plain(value))?;
        }
    }
    if record.unknown {
        writeln!(out, "an answer was lost: the message may have taken effect")?;
    }
    writeln!(out, "payload\t{}", plain_json(whole.payload.get()))?;
    for change in &whole.history {
        writeln!(
            out,
            "{}\t{}\t{}",
            time(Some(change.at)),
            plain(&change.event),
            plain(change.detail.as_deref().unwrap_or(""))
        )?;
    }
    Ok(())
}

fn edit(args: &EditArgs, out: &mut impl Write) -> Result<()> {
    let payload = match &args.payload {
        Some(payload) => payload.clone(),
        None => io::read_to_string(io::stdin()).context("cannot read standard input")?,
    };
    let payload: Box<RawValue> =
        serde_json::from_str(payload.trim()).context("the payload is not JSON")?;
    let outbox = args.outbox.open()?;
    let path = format!("{}/payload", outbox.message(args.id));
    outbox.node.put::<Record>(&path, &payload)?;
    writeln!(out, "message {} is changed: redrive it", args.id)?;
    Ok(())
}

fn sweep(
    outbox: &Outbox,
    verb: &str,
    done: &str,
    args: &SomeArgs,
    out: &mut impl Write,
) -> Result<()> {
    let mut which = json!({ "kind": args.kind, "destination": args.destination });
    let path = format!("{}/{verb}", outbox.path);
    let mut count = 0;
    loop {
        let swept: BulkResult = outbox.node.post(&path, &which)?;
        count += swept.count;
        if !swept.more {
            break;
        }
        // Dead letters that have failed again in the meantime are not included again.
        which["after"] = json!(swept.last);
    }
    let letters = if count == 1 { "letter" } else { "letters" };
    writeln!(out, "{count} dead {letters} {done}")?;
    Ok(())
}

fn told(record: &Record, out: &mut impl Write) -> Result<()> {
    writeln!(out, "message {} is {}", record.id, record.status)?;
    Ok(())
}

fn time(millis: Option<i64>) -> String {
    millis.map_or_else(
        || "-".to_owned(),
        |millis| Timestamp::from_unix_millis(millis).to_string(),
    )
}

/// Texts come from clients; a control character must not reach a terminal.
fn plain(text: &str) -> String {
    text.escape_debug().to_string()
}

/// The same for JSON text, on one line: it stays equivalent JSON, since such characters occur only in strings, except
/// for line breaks.
fn plain_json(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, letter| {
        if matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().len() == 1 {
            shown.push(letter);
        } else if letter.is_ascii_whitespace() {
            shown.push(' ');
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_payload_is_shown_as_json_without_control_characters() {
        let text = "{\n\t\"ä's\": \"\u{9b}2J\u{202e}\u{e0001}\\n\\\"\"\n}";
        let shown = plain_json(text);
        assert!(shown.chars().all(|letter| !letter.is_control()), "{shown}");
        assert!(
            shown.contains("\"ä's\": \"\\u009b2J\\u202e\\udb40\\udc01\\n"),
            "{shown}"
        );
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&shown), read(text));
    }
}
