//! The load generator: raw HTTP/1.1 with keep-alive over non-blocking sockets, on one thread.
//!
//! It is a closed loop: each connection has one request in flight and sends the next when the reply has come.
//! Requests are prepared bytes and replies are parsed only as far as needed, so that the servers get the CPU.
//! A counter's reply is its new value and is checked: it must be above every value that had been received
//! for that object when the request was sent, and the values of a slice must have neither hole nor repetition.

use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::{figures::Latencies, reply::Reply, workload::Sequence};

const REPLY_BYTES: usize = 4096;
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// The requests for the objects of a server.
#[derive(Clone)]
pub(crate) struct Target {
    addr: SocketAddr,
    requests: Vec<Vec<u8>>,
    answer: Answer,
}

/// What a server answers to each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A counter's new value.
    Counter,
    /// A number.
    Number,
    /// 202, with whatever body.
    Accepted,
}

impl Target {
    /// One `GET` path for each object.
    pub(crate) fn new(addr: SocketAddr, paths: impl Iterator<Item = String>) -> Self {
        let request = |path| format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n").into_bytes();
        Self {
            addr,
            requests: paths.map(request).collect(),
            answer: Answer::Counter,
        }
    }

    /// A `POST` of the same JSON to one path for each object, each answered with 202.
    pub(crate) fn posts(addr: SocketAddr, paths: impl Iterator<Item = String>, json: &str) -> Self {
        let length = json.len();
        let request = |path| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: {addr}\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{json}"
            )
            .into_bytes()
        };
        Self {
            addr,
            requests: paths.map(request).collect(),
            answer: Answer::Accepted,
        }
    }

    /// Replies are numbers that are not checked.
    pub(crate) fn unchecked(self) -> Self {
        Self {
            answer: Answer::Number,
            ..self
        }
    }
}

/// Which objects are asked, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// Each object once, in order.
    EachOnce,
    /// Objects at random, for this long.
    For(Duration),
}

struct Connection {
    stream: TcpStream,
    buffer: Box<[u8; REPLY_BYTES]>,
    filled: usize,
    object: usize,
    /// The object's highest value when the request was sent.
    floor: u64,
    sent: Instant,
}

/// What is known about an object's counter.
#[derive(Clone, Copy, Default)]
struct Counter {
    highest: u64,
    replies: u64,
}

/// Connections to one server, and what its counters have said so far.
pub(crate) struct Generator {
    target: Target,
    poll: Poll,
    connections: Vec<Connection>,
    counters: Vec<Counter>,
    sequence: Sequence,
    values: Vec<(usize, u64)>,
    next: usize,
}

impl Generator {
    pub(crate) fn connect(target: &Target, connections: usize) -> Result<Self> {
        let mut generator = Self {
            target: target.clone(),
            poll: Poll::new()?,
            connections: Vec::new(),
            counters: vec![Counter::default(); target.requests.len()],
            sequence: Sequence::new(connections as u64),
            values: Vec::new(),
            next: 0,
        };
        generator.use_connections(connections)?;
        Ok(generator)
    }

    /// Replaces the connections; the known values of the counters stay.
    pub(crate) fn use_connections(&mut self, connections: usize) -> Result<()> {
        self.connections.clear();
        for number in 0..connections {
            let stream = std::net::TcpStream::connect(self.target.addr)
                .context("the server refuses connections")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            self.poll
                .registry()
                .register(&mut stream, Token(number), Interest::READABLE)?;
            let buffer = Box::new([0; REPLY_BYTES]);
            self.connections.push(Connection {
                stream,
                buffer,
                filled: 0,
                object: 0,
                floor: 0,
                sent: Instant::now(),
            });
        }
        Ok(())
    }

    /// Runs the plan and returns the latency of each request answered within it.
    pub(crate) fn run(&mut self, plan: Plan) -> Result<Latencies> {
        let (mut latencies, begun) = (Latencies::default(), Instant::now());
        let mut events = Events::with_capacity(self.connections.len());
        self.next = 0;
        let mut waiting = 0;
        for number in 0..self.connections.len() {
            waiting += usize::from(self.send_next(number, plan, begun, begun)?);
        }
        while waiting > 0 {
            self.poll.poll(&mut events, Some(REPLY_TIMEOUT))?;
            if events.is_empty() {
                bail!("no reply within {} s", REPLY_TIMEOUT.as_secs());
            }
            for event in &events {
                let number = event.token().0;
                let Some(value) = self.connections[number].receive(self.target.answer)? else {
                    continue;
                };
                let now = Instant::now();
                if self.target.answer == Answer::Counter {
                    self.check(number, value)?;
                }
                waiting -= 1;
                if !matches!(plan, Plan::For(length) if now - begun > length) {
                    latencies.push(now - self.connections[number].sent);
                }
                waiting += usize::from(self.send_next(number, plan, begun, now)?);
            }
        }
        self.check_values()?;
        Ok(latencies)
    }

    /// Sends the plan's next request; false if the plan has ended.
    fn send_next(
        &mut self,
        number: usize,
        plan: Plan,
        begun: Instant,
        now: Instant,
    ) -> Result<bool> {
        let object = match plan {
            Plan::EachOnce if self.next < self.target.requests.len() => self.next,
            Plan::For(length) if now - begun < length => {
                self.sequence.below(self.target.requests.len())
            }
            Plan::EachOnce | Plan::For(_) => return Ok(false),
        };
        self.next += 1;
        let connection = &mut self.connections[number];
        connection.object = object;
        connection.floor = self.counters[object].highest;
        connection.filled = 0;
        connection.sent = now;
        let request = &self.target.requests[object];
        let written = connection
            .stream
            .write(request)
            .context("the server closed a connection")?;
        if written != request.len() {
            bail!(
                "a request of {} bytes did not fit into the socket",
                request.len()
            );
        }
        Ok(true)
    }

    fn check(&mut self, number: usize, value: u64) -> Result<()> {
        let Connection { object, floor, .. } = self.connections[number];
        if value <= floor {
            bail!(
                "counter {object} answered {value} to a request sent after it had answered {floor}"
            );
        }
        let counter = &mut self.counters[object];
        counter.highest = counter.highest.max(value);
        self.values.push((object, value));
        Ok(())
    }

    /// Every reply has come: the values of each object continue from the last slice without hole or repetition.
    fn check_values(&mut self) -> Result<()> {
        self.values.sort_unstable();
        for (object, value) in self.values.drain(..) {
            let counter = &mut self.counters[object];
            counter.replies += 1;
            if value != counter.replies {
                bail!(
                    "reply {} of counter {object} is {value}: an increment was lost or answered twice",
                    counter.replies
                );
            }
        }
        Ok(())
    }
}

impl Connection {
    /// The reply's value, once the reply is complete; 0 if it has none.
    fn receive(&mut self, answer: Answer) -> Result<Option<u64>> {
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => bail!(
                    "the server closed a connection, or its reply is longer than {REPLY_BYTES} bytes"
                ),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("the connection broke"),
            }
            if let Some(reply) = Reply::parse(&self.buffer[..self.filled])? {
                let text = std::str::from_utf8(reply.body)?.trim();
                let status = match answer {
                    Answer::Counter | Answer::Number => 200,
                    Answer::Accepted => 202,
                };
                if reply.status != status {
                    bail!("the server answered {}: {text}", reply.status);
                }
                if answer == Answer::Accepted {
                    return Ok(Some(0));
                }
                return text
                    .parse()
                    .map(Some)
                    .with_context(|| format!("the reply {text:?} is not a number"));
            }
        }
    }
}
