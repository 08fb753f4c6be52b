//! Bounds the work that a peer can cause with frames that carry nothing.
//!
//! Contract: control frames of HTTP/2 (such as PING and SETTINGS, and empty DATA) and of WebSockets (pings, pongs, empty
//! fragments) are read at [`limits::IDLE_FRAMES`] per second on average, after a burst. A connection that sends more is
//! not closed: it is not read for a while, so that TCP slows its peer down. Requests, messages and content are not
//! delayed themselves, and what is exchanged earns further HTTP/2 frames, because clients confirm what they receive.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use crate::{head::ArrivingHead, limits};

const PER_SECOND: f64 = limits::IDLE_FRAMES as f64;
const MOST: f64 = limits::IDLE_FRAMES_BURST as f64;

/// The frames without content that a connection may still send.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Negative: the connection is not read until it is zero.
    left: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            left: MOST,
            at: Instant::now(),
        }
    }

    /// Counts frames without content.
    pub(crate) fn spend(&mut self, frames: u32) {
        if frames > 0 {
            self.refill();
            let most = PER_SECOND * limits::IDLE_FRAMES_PAUSE.as_secs_f64();
            self.left = (self.left - f64::from(frames)).max(-most);
        }
    }

    /// Allows further ones.
    fn earn(&mut self, frames: f64) {
        self.left = (self.left + frames).min(MOST);
    }

    /// Until when the connection is not read; `None` if it is read.
    pub(crate) fn paused_until(&mut self) -> Option<Instant> {
        if self.left >= 0.0 {
            return None;
        }
        self.refill();
        (self.left < 0.0).then(|| self.at + Duration::from_secs_f64(-self.left / PER_SECOND))
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.at);
        self.at = now;
        self.earn(since.as_secs_f64() * PER_SECOND);
    }
}

/// A connection of which HTTP/2 control frames, and heads of HTTP/1.1 requests, are counted as they are read.
pub(crate) struct Paced<S> {
    stream: S,
    frames: Frames,
    head: ArrivingHead,
    pace: Pace,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, head: ArrivingHead) -> Self {
        Self {
            stream,
            frames: Frames::Preface { seen: 0 },
            head,
            pace: Pace::new(),
            alarm: None,
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Content that was sent earns the frames with which the client confirms it.
    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Frames::Header { .. }) = (&outcome, &self.frames) {
            self.pace
                .earn(*bytes as f64 / f64::from(limits::BYTES_PER_IDLE_FRAME));
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while let Some(until) = this.pace.paused_until() {
            let alarm = this
                .alarm
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if alarm.deadline() != until {
                alarm.as_mut().reset(until);
            }
            ready!(alarm.as_mut().poll(cx));
        }
        this.head.observe();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        let counted = this.frames.count(read);
        if this.frames == Frames::None {
            this.head.arrived(read.len())?;
        }
        this.pace.earn(f64::from(counted.requests));
        this.pace.spend(counted.idle);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// How an HTTP/2 connection begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The header of a frame: three bytes of length, a type, flags, and four of a stream (RFC 9113, section 4.1).
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// Where in a connection's frames the next byte is.
#[derive(Debug, PartialEq, Eq)]
enum Frames {
    Preface {
        seen: usize,
    },
    /// Not HTTP/2.
    None,
    Header {
        bytes: [u8; HEADER],
        seen: usize,
    },
    Payload {
        left: usize,
    },
}

/// The frames that began in some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Requests and trailers.
    requests: u32,
    /// Frames without content.
    idle: u32,
}

impl Frames {
    const NEXT: Self = Self::Header {
        bytes: [0; HEADER],
        seen: 0,
    };

    /// Counts the frames whose headers end in these bytes.
    fn count(&mut self, mut bytes: &[u8]) -> Counted {
        let mut counted = Counted::default();
        while !bytes.is_empty() {
            match self {
                Self::None => break,
                Self::Preface { seen } => {
                    let now = bytes.len().min(PREFACE.len() - *seen);
                    if bytes[..now] != PREFACE[*seen..*seen + now] {
                        *self = Self::None;
                        break;
                    }
                    *seen += now;
                    bytes = &bytes[now..];
                    if *seen == PREFACE.len() {
                        *self = Self::NEXT;
                    }
                }
                Self::Header {
                    bytes: header,
                    seen,
                } => {
                    let now = bytes.len().min(HEADER - *seen);
                    header[*seen..*seen + now].copy_from_slice(&bytes[..now]);
                    *seen += now;
                    bytes = &bytes[now..];
                    if *seen < HEADER {
                        break;
                    }
                    let [high, middle, low, kind, ..] = *header;
                    let left =
                        usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                    match kind {
                        HEADERS => counted.requests += 1,
                        CONTINUATION => {}
                        DATA if left > 0 => {}
                        _ => counted.idle += 1,
                    }
                    *self = match left {
                        0 => Self::NEXT,
                        left => Self::Payload { left },
                    };
                }
                Self::Payload { left } => {
                    let now = bytes.len().min(*left);
                    *left -= now;
                    bytes = &bytes[now..];
                    if *left == 0 {
                        *self = Self::NEXT;
                    }
                }
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::activity::Activity;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        let header = [length[1], length[2], length[3], kind, 0, 0, 0, 0, 0];
        [&header[..], &vec![7; payload]].concat()
    }

    #[test]
    fn frames_are_counted_in_whatever_pieces_they_arrive() {
        const PING: u8 = 6;
        let sent = [
            PREFACE.to_vec(),
            frame(4, 0),
            frame(PING, 8),
            frame(HEADERS, 300),
            frame(CONTINUATION, 70_000),
            frame(DATA, 1),
            frame(DATA, 0),
            frame(PING, 8),
        ]
        .concat();
        for piece in [1, 7, 24, 1_000, sent.len()] {
            let mut frames = Frames::Preface { seen: 0 };
            let mut all = Counted::default();
            for bytes in sent.chunks(piece) {
                let counted = frames.count(bytes);
                all.requests += counted.requests;
                all.idle += counted.idle;
            }
            assert_eq!((all.requests, all.idle), (1, 4), "{piece}");
            assert_eq!(frames, Frames::NEXT);
        }
        let mut other = Frames::Preface { seen: 0 };
        assert_eq!(other.count(b"PRI / HTTP/1.1\r\n"), Counted::default());
        assert_eq!(other, Frames::None);
    }

    #[tokio::test]
    async fn a_flood_of_frames_without_content_is_read_slowly() {
        let pings = limits::IDLE_FRAMES_BURST as usize * 2;
        let sent = [PREFACE.to_vec(), frame(6, 8).repeat(pings)].concat();
        let (mut client, server) = duplex(sent.len());
        client.write_all(&sent).await.unwrap();
        let head = ArrivingHead::new(Activity::new(), None);
        let mut server = Paced::new(server, head);
        let (mut buffer, mut read) = (vec![0; 4 << 10], 0);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(200) {
            let more = tokio::time::timeout(Duration::from_millis(50), server.read(&mut buffer));
            read += more.await.map_or(0, Result::unwrap);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let frames = |bytes: usize| bytes as f64 / (HEADER + 8) as f64;
        let most = frames(PREFACE.len() + buffer.len()) + MOST + seconds * PER_SECOND;
        assert!(frames(read) <= most && read < sent.len(), "{read}");
    }
}
