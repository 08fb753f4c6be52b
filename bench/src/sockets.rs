//! The load generator for WebSockets: raw frames over non-blocking sockets, on one thread.
//!
//! Frames are written with a mask of zeros, which the protocol allows, and parsed only as far as needed, so that
//! the servers get the CPU. Messages are shorter than 126 bytes, so a frame's header has two bytes.

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use mio::{Events, Interest, Poll, Token, net::TcpStream};

use crate::figures::Latencies;

const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 << 10;
const LONGEST: usize = 125;
/// A final text frame, and a masked payload (RFC 6455, section 5.2).
const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const MASKED: u8 = 0x80;

struct Client {
    stream: TcpStream,
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// When each message was sent that has not been answered.
    asked: VecDeque<Instant>,
}

/// Open sockets of one server.
pub(crate) struct Sockets {
    poll: Poll,
    clients: Vec<Client>,
    scratch: Vec<u8>,
}

impl Sockets {
    /// Opens a socket at each path.
    pub(crate) fn open(addr: SocketAddr, paths: impl Iterator<Item = String>) -> Result<Self> {
        let poll = Poll::new()?;
        let mut clients = Vec::new();
        for (number, path) in paths.enumerate() {
            let mut stream = handshake(addr, &path)?;
            poll.registry()
                .register(&mut stream, Token(number), Interest::READABLE)?;
            clients.push(Client {
                stream,
                partial: Vec::new(),
                asked: VecDeque::new(),
            });
        }
        Ok(Self {
            poll,
            clients,
            scratch: vec![0; READ_BYTES],
        })
    }

    /// Each socket sends a message and, when it has come back, the next. The latency of each within the time.
    pub(crate) fn echo(&mut self, message: &str, length: Duration) -> Result<Latencies> {
        self.exchange(|| message.to_owned(), message, 1, length)
    }

    /// Each socket has this many messages in flight, each of which is answered by `expected`, in order. Returns the
    /// latency of each answer within the time.
    pub(crate) fn exchange(
        &mut self,
        mut next: impl FnMut() -> String,
        expected: &str,
        window: usize,
        length: Duration,
    ) -> Result<Latencies> {
        let (mut latencies, begun) = (Latencies::default(), Instant::now());
        for client in &mut self.clients {
            for _ in 0..window {
                client.ask(&frame(&next()))?;
            }
        }
        let mut waiting = self.clients.len() * window;
        while waiting > 0 {
            let mut clients = std::mem::take(&mut self.clients);
            let came = self.wait(&mut clients, expected.as_bytes());
            self.clients = clients;
            for number in came? {
                let client = &mut self.clients[number];
                let now = Instant::now();
                waiting -= 1;
                let asked = client.asked.pop_front();
                if now - begun <= length {
                    latencies.push(asked.map_or(Duration::ZERO, |asked| now - asked));
                    client.ask(&frame(&next()))?;
                    waiting += 1;
                }
            }
        }
        Ok(latencies)
    }

    /// The first socket asks for broadcasts, this many at a time. Returns frames per second, over all sockets.
    pub(crate) fn broadcast(
        &mut self,
        message: &str,
        in_flight: usize,
        length: Duration,
    ) -> Result<f64> {
        let begun = Instant::now();
        let frame = frame(&format!("all {message}"));
        let mut missing: VecDeque<usize> = VecDeque::new();
        let (mut frames, mut within) = (0_u64, 0_u64);
        for _ in 0..in_flight {
            self.clients[0].send(&frame)?;
            missing.push_back(self.clients.len());
        }
        // Each socket gets the broadcasts in order, so whatever comes belongs to the oldest that it has not had.
        let mut seen = vec![0_usize; self.clients.len()];
        let mut done = 0;
        while !missing.is_empty() {
            let mut clients = std::mem::take(&mut self.clients);
            let came = self.wait(&mut clients, message.as_bytes());
            self.clients = clients;
            for number in came? {
                missing[seen[number] - done] -= 1;
                seen[number] += 1;
                frames += 1;
            }
            let now = Instant::now();
            if now - begun <= length {
                within = frames;
            }
            while missing.front() == Some(&0) {
                missing.pop_front();
                done += 1;
                if now - begun <= length {
                    self.clients[0].send(&frame)?;
                    missing.push_back(self.clients.len());
                }
            }
        }
        Ok(within as f64 / length.as_secs_f64())
    }

    /// Waits for frames, which must be `expected`, and tells who got one; one entry for each frame.
    fn wait(&mut self, clients: &mut [Client], expected: &[u8]) -> Result<Vec<usize>> {
        let mut events = Events::with_capacity(1_024);
        self.poll.poll(&mut events, Some(REPLY_TIMEOUT))?;
        if events.is_empty() {
            bail!("no message within {} s", REPLY_TIMEOUT.as_secs());
        }
        let mut came = Vec::new();
        for event in &events {
            let number = event.token().0;
            let count = clients[number].receive(&mut self.scratch, expected)?;
            came.extend(std::iter::repeat_n(number, count));
        }
        Ok(came)
    }
}

impl Client {
    /// Sends a message that will be answered.
    fn ask(&mut self, frame: &[u8]) -> Result<()> {
        self.asked.push_back(Instant::now());
        self.send(frame)
    }

    fn send(&mut self, frame: &[u8]) -> Result<()> {
        let written = self
            .stream
            .write(frame)
            .context("the server closed a socket")?;
        if written != frame.len() {
            bail!("a message did not fit into the socket");
        }
        Ok(())
    }

    /// Takes what has come. How many messages that is.
    fn receive(&mut self, scratch: &mut [u8], expected: &[u8]) -> Result<usize> {
        let mut count = 0;
        loop {
            match self.stream.read(scratch) {
                Ok(0) => bail!("the server closed a socket"),
                Ok(read) => self.partial.extend_from_slice(&scratch[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("a socket broke"),
            }
            let mut rest = self.partial.as_slice();
            while let [opcode, length, after @ ..] = rest {
                let length = usize::from(*length);
                if length > LONGEST {
                    bail!("a message is longer than it was sent");
                }
                let Some((payload, next)) = after.split_at_checked(length) else {
                    break;
                };
                match *opcode {
                    TEXT if payload == expected => count += 1,
                    PING => {}
                    other => bail!("a frame of kind {other:#x} came: {payload:?}"),
                }
                rest = next;
            }
            self.partial = rest.to_vec();
        }
    }
}

fn frame(message: &str) -> Vec<u8> {
    assert!(message.len() <= LONGEST);
    let mut frame = vec![TEXT, MASKED | message.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(message.as_bytes());
    frame
}

/// Opens a WebSocket.
fn handshake(addr: SocketAddr, path: &str) -> Result<TcpStream> {
    let mut stream =
        std::net::TcpStream::connect(addr).context("the server refuses connections")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {addr}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    let mut piece = [0; 1_024];
    while !reply.ends_with(b"\r\n\r\n") {
        let read = stream
            .read(&mut piece)
            .context("the server did not answer a handshake")?;
        if read == 0 {
            bail!("the server closed a connection in its handshake");
        }
        reply.extend_from_slice(&piece[..read]);
    }
    if !reply.starts_with(b"HTTP/1.1 101") {
        bail!("the server answered {}", String::from_utf8_lossy(&reply));
    }
    stream.set_nonblocking(true)?;
    Ok(TcpStream::from_std(stream))
}
