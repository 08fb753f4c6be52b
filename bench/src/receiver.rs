//! A receiver of deliveries, as cheap as one can be: its own process, one thread, connections kept alive.
//!
//! Contract: every POST is answered with an empty 200. Its body begins with a [`Stamp`]; the receiver counts how many
//! messages it has had, each once, and how long each was on its way.

use std::{
    collections::HashSet,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};

use crate::{
    figures::Latencies,
    ours::{alarms::since_1970, node},
    process::Owned,
};

/// The beginning of a body: which message it is, and when it was enqueued, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) message: u64,
    pub(crate) at: u64,
}

/// Bytes of a message's text, a small notification's.
const TEXT_BYTES: usize = 256;
/// Bytes of a stamp: two numbers in hexadecimal digits.
const STAMP_BYTES: usize = 32;
/// A request of the bench has at most this many bytes.
const REQUEST_BYTES: usize = 4096;
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const LISTENER: Token = Token(usize::MAX);

impl Stamp {
    pub(crate) fn now(message: u64) -> Self {
        Self {
            message,
            at: micros(since_1970()),
        }
    }

    /// The text of a message with this stamp.
    pub(crate) fn text(self) -> String {
        let Self { message, at } = self;
        format!(
            "{message:016x}{at:016x}{:.<1$}",
            "",
            TEXT_BYTES - STAMP_BYTES
        )
    }

    fn read(body: &[u8]) -> Option<Self> {
        let digits = std::str::from_utf8(body.get(..STAMP_BYTES)?).ok()?;
        let (message, at) = digits.split_at(STAMP_BYTES / 2);
        Some(Self {
            message: u64::from_str_radix(message, 16).ok()?,
            at: u64::from_str_radix(at, 16).ok()?,
        })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The receiver's process, as the bench sees it.
pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    questions: std::net::TcpStream,
    _process: Owned,
}

/// What a receiver has had since it was last asked to forget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Received {
    /// Messages, each counted once.
    pub(crate) messages: usize,
    /// Requests that brought a message again.
    pub(crate) repeated: usize,
    /// From enqueuing to arrival.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Receiver {
    pub(crate) fn start() -> Result<Self> {
        let mut process = Owned::ourselves("receiver", ".".as_ref(), 0)?;
        let line = process
            .lines()?
            .next()
            .context("the receiver did not start; its error is above")??;
        let addr = line.parse()?;
        let questions = std::net::TcpStream::connect(addr)?;
        questions.set_nodelay(true)?;
        Ok(Self {
            addr,
            questions,
            _process: process,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }

    /// What has arrived so far.
    pub(crate) fn messages(&mut self) -> Result<usize> {
        Ok(self.ask("GET /count")?.messages)
    }

    /// What has arrived, and forgets it.
    pub(crate) fn take(&mut self) -> Result<Received> {
        self.ask("GET /take")
    }

    fn ask(&mut self, what: &str) -> Result<Received> {
        write!(
            self.questions,
            "{what} HTTP/1.1\r\nhost: receiver\r\ncontent-length: 0\r\n\r\n"
        )?;
        let mut answer = [0; 128];
        let mut filled = 0;
        loop {
            let read = self.questions.read(&mut answer[filled..])?;
            ensure!(read > 0, "the receiver has ended");
            filled += read;
            let text = std::str::from_utf8(&answer[..filled])?;
            if let Some(line) = text.strip_suffix('\n') {
                return line.parse();
            }
        }
    }
}

impl FromStr for Received {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [messages, repeated, p50, p99] = fields[..] else {
            bail!("the receiver answered {line:?}");
        };
        Ok(Self {
            messages: messages.parse()?,
            repeated: repeated.parse()?,
            p50_us: p50.parse()?,
            p99_us: p99.parse()?,
        })
    }
}

/// The child's part: receives until its owner ends. Prints the address.
pub(crate) fn serve() -> Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("{}", listener.local_addr()?);
    let owner = std::thread::spawn(node::wait_for_owner);
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut record = Record::default();
    while !owner.is_finished() {
        match poll.poll(&mut events, Some(Duration::from_millis(500))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&poll, &listener, &mut connections)?;
                continue;
            }
            let slot = &mut connections[event.token().0];
            if let Some(connection) = slot
                && !connection.serve(&mut record)
            {
                *slot = None;
            }
        }
    }
    Ok(())
}

fn accept(
    poll: &Poll,
    listener: &TcpListener,
    connections: &mut Vec<Option<Connection>>,
) -> Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("no connection can be taken"),
        };
        stream.set_nodelay(true)?;
        let token = Token(connections.len());
        poll.registry()
            .register(&mut stream, token, Interest::READABLE)?;
        connections.push(Some(Connection {
            stream,
            buffer: Box::new([0; REQUEST_BYTES]),
            filled: 0,
        }));
    }
}

#[derive(Default)]
struct Record {
    seen: HashSet<u64>,
    requests: usize,
    latencies: Latencies,
}

impl Record {
    fn received(&self) -> (usize, usize) {
        (self.seen.len(), self.requests - self.seen.len())
    }

    fn post(&mut self, body: &[u8]) -> Option<()> {
        let stamp = Stamp::read(body)?;
        self.requests += 1;
        if self.seen.insert(stamp.message) {
            let late = micros(since_1970()).saturating_sub(stamp.at);
            self.latencies.push(Duration::from_micros(late));
        }
        Some(())
    }

    fn count(&self) -> String {
        let (messages, repeated) = self.received();
        format!("{messages} {repeated} 0 0\n")
    }

    fn take(&mut self) -> String {
        let (messages, repeated) = self.received();
        let [p50, p99] = std::mem::take(self).latencies.percentiles_us([50.0, 99.0]);
        format!("{messages} {repeated} {p50} {p99}\n")
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Box<[u8; REQUEST_BYTES]>,
    filled: usize,
}

impl Connection {
    /// Answers what has come; false when the connection is of no use any more.
    fn serve(&mut self, record: &mut Record) -> bool {
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return false,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            }
            // A client sends the next request after the answer, so there is one in the buffer at most.
            let Some((head, body)) = request(&self.buffer[..self.filled]) else {
                continue;
            };
            let answered = match head.first() {
                Some(b'P') => record.post(body).and_then(|()| self.stream.write(OK).ok()),
                _ if head.starts_with(b"GET /count") => {
                    self.stream.write(record.count().as_bytes()).ok()
                }
                _ => self.stream.write(record.take().as_bytes()).ok(),
            };
            if answered.is_none() {
                return false;
            }
            self.filled = 0;
        }
    }
}

/// The head and the body of a complete request.
fn request(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    let length = head
        .split(|byte| *byte == b'\n')
        .find_map(|line| {
            let (name, value) = line.split_at_checked(15)?;
            name.eq_ignore_ascii_case(b"content-length:")
                .then_some(value)
        })
        .and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok())
        .unwrap_or(0);
    (body.len() >= length).then_some((head, body))
}

#[cfg(test)]
mod tests {
    use super::{Record, Stamp, request};

    #[test]
    fn a_message_counts_once_however_often_it_comes() {
        let mut record = Record::default();
        for message in [1, 2, 1] {
            let text = Stamp::now(message).text();
            let whole = format!(
                "POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            assert!(request(&whole.as_bytes()[..whole.len() - 1]).is_none());
            let (_, body) = request(whole.as_bytes()).unwrap();
            record.post(body).unwrap();
        }
        assert_eq!(record.received(), (2, 1));
        assert!(record.take().starts_with("2 1 "));
        assert_eq!(record.received(), (0, 0));
    }
}
