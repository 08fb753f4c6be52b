//! (t) Messages that clients enqueue over the outbox's HTTP API, beside the HTTP counter, whose requests write as little as can
//! be written.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::http::{measure, start, start_counter};
use crate::{context::Context, load::Target, ours::alarms::now};

#[derive(Args)]
pub(crate) struct Options {
    /// How many outboxes, chosen at random; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100])]
    outboxes: Vec<usize>,
    /// How many connections; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [64])]
    connections: Vec<usize>,
}

/// Bytes of a message's text, a small notification's.
const TEXT_BYTES: usize = 256;
/// A day, in milliseconds: nothing is delivered while it is measured.
const DAY: i64 = 86_400_000;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let message = json!({
        "kind": "http",
        "payload": { "url": "http://127.0.0.1:9/", "body": { "text": "x".repeat(TEXT_BYTES) } },
        "not_before": now() + DAY,
    });
    let message = message.to_string();
    for &outboxes in &options.outboxes {
        let mut ours = if context.wants_ours() {
            let target = |addr| {
                let paths = (0..outboxes).map(|number| format!("/outbox/sender-{number}/messages"));
                Target::posts(addr, paths, &message)
            };
            Some(start(context, "outboxes", outboxes, target)?)
        } else {
            None
        };
        let mut counter = if context.wants_peer() {
            Some(start_counter(context)?)
        } else {
            None
        };
        for &connections in &options.connections {
            let name = format!("outbox-http/outboxes={outboxes}/connections={connections}");
            let (ours, counter) = (ours.as_mut(), counter.as_mut());
            measure(
                context,
                &name,
                connections,
                ours,
                "our HTTP counter, one object",
                counter,
            )?;
        }
    }
    Ok(())
}
