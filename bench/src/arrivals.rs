//! The open-loop load generator: requests arrive at times that do not depend on the answers.
//!
//! A closed loop sends the next request when the last has been answered, so a slow server slows its own load down, and what
//! people would have waited for is left out of the figures (G. Tene calls that coordinated omission; B. Schroeder,
//! A. Wierman, M. Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006). Here arrivals are a Poisson process,
//! and a latency counts from the moment at which the request was to be sent. Who then finds no free connection sends nothing,
//! which is counted; a client whose patience has ended closes its connection, as people and proxies do, and opens another.
//!
//! One thread, non-blocking sockets, HTTP/1.1 with keep-alive and one request at a time on a connection. The closed loop is
//! here too, because capacity is measured with the same clients.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::{figures::Latencies, reply::Reply, workload::Sequence};

const REPLY_BYTES: usize = 4096;
/// How precisely the poll can wait.
const TICK: Duration = Duration::from_millis(1);

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// At random, this many a second, whatever the server does.
    Open(f64),
    /// Whenever one of this many connections is free.
    Closed(usize),
}

/// The outcomes of the requests of a stretch of time.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Answers with 200 within the clients' patience.
    pub(crate) good: Latencies,
    /// 503 with the code `overloaded` and a time to come back.
    pub(crate) refused: Latencies,
    /// Requests whose client gave up.
    pub(crate) late: u64,
    /// Requests that found no free connection, and were not sent.
    pub(crate) unsent: u64,
    /// Everything else, by what happened.
    pub(crate) errors: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    Idle,
    /// A request that was due at this moment.
    Busy(Instant),
}

struct Slot {
    stream: TcpStream,
    phase: Phase,
    buffer: Vec<u8>,
    /// Requests sent by this slot, over all its connections, to distinguish them.
    sent: u64,
}

/// Clients of one server.
pub(crate) struct Clients {
    addr: SocketAddr,
    requests: Vec<Vec<u8>>,
    patience: Duration,
    poll: Poll,
    slots: Vec<Slot>,
    idle: Vec<usize>,
    sequence: Sequence,
}

impl Clients {
    /// At most `connections` clients that ask for `paths` at random.
    pub(crate) fn new(
        addr: SocketAddr,
        paths: impl Iterator<Item = String>,
        connections: usize,
        patience: Duration,
    ) -> Result<Self> {
        let request = |path| format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n").into_bytes();
        let mut clients = Self {
            addr,
            requests: paths.map(request).collect(),
            patience,
            poll: Poll::new()?,
            slots: Vec::new(),
            idle: Vec::new(),
            sequence: Sequence::new(connections as u64),
        };
        for number in 0..connections {
            let slot = clients.connect(number, 0)?;
            clients.slots.push(slot);
        }
        Ok(clients)
    }

    fn connect(&self, number: usize, sent: u64) -> Result<Slot> {
        let mut stream = TcpStream::connect(self.addr).context("cannot open a connection")?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(number), both)?;
        Ok(Slot {
            stream,
            phase: Phase::Connecting,
            buffer: Vec::with_capacity(REPLY_BYTES),
            sent,
        })
    }

    /// Sends for `length` and waits for what was sent; `each` is called about every tenth of a second.
    pub(crate) fn run(
        &mut self,
        pace: Pace,
        length: Duration,
        mut each: impl FnMut() -> Result<()>,
    ) -> Result<Outcome> {
        const BETWEEN: Duration = Duration::from_millis(100);
        let mut outcome = Outcome::default();
        let mut events = Events::with_capacity(self.slots.len().max(1));
        let (mut waiting, mut sent) = (VecDeque::new(), VecDeque::new());
        let begun = Instant::now();
        let (end, mut arrival, mut told) = (begun + length, begun, begun);
        loop {
            let now = Instant::now();
            if now - told > BETWEEN {
                told = now;
                each()?;
            }
            match pace {
                Pace::Open(rate) => {
                    while arrival <= now.min(end) {
                        waiting.push_back(arrival);
                        arrival += self.gap(rate);
                    }
                }
                Pace::Closed(connections) => {
                    let in_use = self.slots.len() - self.idle.len();
                    if now < end {
                        waiting.resize(connections.saturating_sub(in_use), now);
                    }
                }
            }
            while let (Some(&due), Some(&slot)) = (waiting.front(), self.idle.last()) {
                waiting.pop_front();
                self.idle.pop();
                match self.send(slot, due) {
                    Ok(number) => sent.push_back((due, slot, number)),
                    Err(error) => self.broken(slot, error.kind(), &mut outcome)?,
                }
            }
            outcome.unsent += waiting.len() as u64;
            waiting.clear();
            while let Some(&(due, slot, number)) = sent.front()
                && (now - due > self.patience || !self.is_waiting(slot, number))
            {
                sent.pop_front();
                if self.is_waiting(slot, number) {
                    outcome.late += 1;
                    self.slots[slot] = self.connect(slot, number)?;
                }
            }
            if now >= end && sent.is_empty() {
                return Ok(outcome);
            }
            let pause = match pace {
                Pace::Open(_) if now < end => arrival.saturating_duration_since(now),
                _ => TICK,
            };
            let pause = if pause < TICK { Duration::ZERO } else { TICK };
            self.poll.poll(&mut events, Some(pause))?;
            for event in &events {
                let slot = event.token().0;
                if self.slots[slot].phase == Phase::Connecting && event.is_writable() {
                    self.slots[slot].phase = Phase::Idle;
                    self.idle.push(slot);
                }
                if event.is_readable() {
                    self.receive(slot, &mut outcome)?;
                }
            }
        }
    }

    /// The time to the next arrival.
    fn gap(&mut self, rate: f64) -> Duration {
        const STEPS: f64 = (1_u64 << 53) as f64;
        let uniform = ((self.sequence.next() >> 11) as f64 + 1.0) / STEPS;
        Duration::from_secs_f64(-uniform.ln() / rate)
    }

    fn send(&mut self, number: usize, due: Instant) -> std::io::Result<u64> {
        let request = &self.requests[self.sequence.below(self.requests.len())];
        let slot = &mut self.slots[number];
        slot.sent += 1;
        slot.buffer.clear();
        slot.phase = Phase::Busy(due);
        // A small request always fits into the buffer of an idle connection.
        slot.stream.write_all(request)?;
        Ok(slot.sent)
    }

    fn is_waiting(&self, slot: usize, number: u64) -> bool {
        let slot = &self.slots[slot];
        slot.sent == number && matches!(slot.phase, Phase::Busy(_))
    }

    /// Reads what has come. A connection that ended is replaced.
    fn receive(&mut self, number: usize, outcome: &mut Outcome) -> Result<()> {
        let mut bytes = [0; REPLY_BYTES];
        let slot = &mut self.slots[number];
        loop {
            match slot.stream.read(&mut bytes) {
                Ok(0) => return self.broken(number, ErrorKind::UnexpectedEof, outcome),
                Ok(read) => slot.buffer.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.broken(number, error.kind(), outcome),
            }
        }
        let (Phase::Busy(due), Some(reply)) = (slot.phase, Reply::parse(&slot.buffer)?) else {
            return Ok(());
        };
        outcome.take(&reply, due.elapsed());
        slot.phase = Phase::Idle;
        self.idle.push(number);
        Ok(())
    }

    fn broken(&mut self, number: usize, error: ErrorKind, outcome: &mut Outcome) -> Result<()> {
        match self.slots[number].phase {
            Phase::Busy(_) => *outcome.errors.entry(error.to_string()).or_default() += 1,
            Phase::Idle => self.idle.retain(|idle| *idle != number),
            Phase::Connecting => bail!("the server refuses connections: {error}"),
        }
        self.slots[number] = self.connect(number, self.slots[number].sent)?;
        Ok(())
    }
}

impl Outcome {
    fn take(&mut self, reply: &Reply<'_>, latency: Duration) {
        const CODE: &[u8] = b"\"code\":\"overloaded\"";
        let overloaded = || reply.body.windows(CODE.len()).any(|window| window == CODE);
        match reply.status {
            200 => self.good.push(latency),
            503 if reply.header("retry-after").is_some() && overloaded() => {
                self.refused.push(latency);
            }
            other => *self.errors.entry(format!("status {other}")).or_default() += 1,
        }
    }
}
