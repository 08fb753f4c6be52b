//! The clients: each knows what it was told, and looks whether it is so.
//!
//! A call whose outcome a client did not learn is repeated until it is acknowledged; each does its work once however often
//! it comes, so the client always knows what must be there.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::{connect_async, tungstenite::Message};

use super::{
    app::{Entries, Fired},
    facts::Facts,
};
use crate::{http_client::HttpClient, ours::alarms::now, workload::Sequence};

/// How long a call may take before its client thinks that it is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long after a call that failed.
const AGAIN: Duration = Duration::from_millis(50);
/// How long anything promised may take: restarts, retries, a machine whose disk stands still for minutes.
const LONGEST: Duration = Duration::from_mins(10);
/// How often a client looks whether its alarm has gone off.
const LOOK: Duration = Duration::from_millis(100);
/// Ledgers that one client writes to in turn.
const LEDGERS: usize = 8;
/// Numbers on their way over one socket.
const WINDOW: u64 = 4;

/// One client.
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) facts: Arc<Facts>,
    pub(crate) server: String,
    pub(crate) receiver: String,
    pub(crate) http: HttpClient,
    pub(crate) random: Sequence,
    /// The mean pause between two acts.
    pub(crate) pause: Duration,
}

impl Client {
    /// Writes entries, and reads them.
    pub(crate) async fn write(mut self) -> Result<()> {
        let mut last = [0; LEDGERS];
        while !self.facts.is_stopped() {
            let number = self.random.below(LEDGERS);
            let ledger = format!("{}-{number}", self.name);
            let entry = last[number] + 1;
            let text = format!("{ledger} {entry}");
            let post = json!({ "url": self.receiver, "text": text });
            let begun = Instant::now();
            self.surely::<Value>("Ledger", &ledger, "write", &json!([entry, post]))
                .await?;
            last[number] = entry;
            self.facts.written(&ledger, entry, begun.elapsed());
            if self.random.below(4) == 0 {
                self.read(&ledger, entry).await?;
            }
            self.rest().await;
        }
        for (number, entry) in last.into_iter().enumerate() {
            self.read(&format!("{}-{number}", self.name), entry).await?;
        }
        Ok(())
    }

    async fn read(&self, ledger: &str, written: u64) -> Result<()> {
        let entries: Entries = self.surely("Ledger", ledger, "read", &json!([])).await?;
        if entries.last != written || !entries.are_whole() {
            self.facts.broken(format!(
                "{ledger} has acknowledged entry {written}, and has {entries:?}"
            ));
        }
        Ok(())
    }

    /// Sets alarms and waits for them.
    pub(crate) async fn wake(mut self) -> Result<()> {
        let name = self.name.clone();
        let mut alarm = 0;
        while !self.facts.is_stopped() {
            alarm += 1;
            let at = now() + 20 + i64::from(self.random.below(1_500) as u32);
            self.surely::<Value>("Clock", &name, "set", &json!([alarm, at]))
                .await?;
            let due = Instant::now();
            let fired = loop {
                let fired: Fired = self.surely("Clock", &name, "fired", &json!([])).await?;
                if fired.alarm >= alarm {
                    break fired;
                }
                if due.elapsed() > LONGEST {
                    self.facts
                        .broken(format!("alarm {alarm} of {name} did not go off"));
                    return Ok(());
                }
                sleep(LOOK).await;
            };
            if fired.alarm > alarm || fired.at < at {
                self.facts.broken(format!(
                    "alarm {alarm} of {name}, set to {at}, went off as {fired:?}"
                ));
            }
            self.facts.fired(Duration::from_millis(
                (fired.at - at).max(0).cast_unsigned(),
            ));
            self.rest().await;
        }
        Ok(())
    }

    /// Sends numbers over a socket, and another when that breaks.
    pub(crate) async fn talk(mut self) -> Result<()> {
        let (mut sent, mut answered) = (0, 0);
        while !self.facts.is_stopped() {
            let name = self.name.clone();
            let known: u64 = self.surely("Line", &name, "last", &json!([])).await?;
            if known < answered || known > sent {
                self.facts.broken(format!(
                    "{name} has answered {answered} and was sent {sent}; it knows {known}"
                ));
                return Ok(());
            }
            (sent, answered) = (known, known);
            // Only a connection that breaks ends it; then another is made.
            let _ = self.converse(&mut sent, &mut answered).await;
            sleep(AGAIN).await;
        }
        Ok(())
    }

    async fn converse(&mut self, sent: &mut u64, answered: &mut u64) -> Result<()> {
        let url = format!("ws://{}/line/{}/", self.server, self.name);
        let (mut socket, _) = timeout(PATIENCE, connect_async(url)).await??;
        while !self.facts.is_stopped() {
            let begun = Instant::now();
            for _ in 0..WINDOW {
                *sent += 1;
                socket.send(Message::text(sent.to_string())).await?;
            }
            while answered < sent {
                let message = timeout(PATIENCE, socket.next())
                    .await?
                    .context("closed")??;
                if !message.is_text() {
                    continue;
                }
                let text = message.to_text()?;
                *answered += 1;
                if text != answered.to_string() {
                    self.facts.broken(format!(
                        "{} was to answer {answered}, and said {text:?}",
                        self.name
                    ));
                    bail!("out of order");
                }
                self.facts.answered(begun.elapsed());
            }
            self.rest().await;
        }
        socket.close(None).await?;
        Ok(())
    }

    /// A pause, now and then one that is long enough for objects to leave memory.
    async fn rest(&mut self) {
        let long = self.random.below(50) == 0;
        let most = if long {
            Duration::from_secs(3)
        } else {
            self.pause * 2
        };
        sleep(most.mul_f64(self.random.below(1_000) as f64 / 1e3)).await;
    }

    /// Calls until the call is acknowledged.
    async fn surely<R: DeserializeOwned>(
        &self,
        binding: &str,
        name: &str,
        method: &str,
        arguments: &Value,
    ) -> Result<R> {
        let url = format!("http://{}/rpc/{binding}/{name}/{method}", self.server);
        let begun = Instant::now();
        loop {
            match self.call(&url, arguments).await {
                Ok(answer) => return Ok(answer),
                Err(error) if begun.elapsed() > LONGEST => {
                    return Err(error).with_context(|| format!("{url} does not answer any more"));
                }
                Err(_) => self.facts.seen().total.repeated += 1,
            }
            sleep(AGAIN).await;
        }
    }

    async fn call<R: DeserializeOwned>(&self, url: &str, arguments: &Value) -> Result<R> {
        let json = ("content-type", "application/json");
        let answer = self.http.post(url, json, arguments.to_string());
        let (status, body) = timeout(PATIENCE, answer).await??;
        if !status.is_success() {
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(serde_json::from_slice(&body)?)
    }
}
