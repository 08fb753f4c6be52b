//! Serializes frames into bytes.
//!
//! The frame header, up to 14 bytes, is built here; the payload is written from its shared buffer, which all sockets of
//! a broadcast use. Only a client's frames are copied, because each has its own mask.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use abide_runtime::{
    random::{Randomness, SystemRandomness},
    socket::{CloseFrame, Frame, Message, code},
};
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

use super::{Role, reader::unmask};

/// Frames taken out of the send buffer to be written together.
const BATCH: usize = 32;

/// Frames being written to the kernel.
#[derive(Debug)]
pub(super) struct Writer {
    role: Role,
    queue: VecDeque<Chunk>,
    /// Bytes of the first chunk that have been written.
    written: usize,
    /// Total bytes written.
    total: u64,
    flushed: bool,
}

#[derive(Debug)]
struct Chunk {
    head: [u8; 14],
    head_len: u8,
    payload: Bytes,
    /// The original frame, unless it is a ping or pong.
    frame: Option<Frame>,
}

impl Chunk {
    fn len(&self) -> usize {
        usize::from(self.head_len) + self.payload.len()
    }
}

impl Writer {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            queue: VecDeque::new(),
            written: 0,
            total: 0,
            flushed: true,
        }
    }

    /// Returns whether more frames may be taken out of the send buffer.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < BATCH
    }

    /// Bytes written so far, to detect whether the peer receives any.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds a frame at the end.
    pub(super) fn push(&mut self, frame: Frame) {
        let chunk = match &frame {
            Frame::Message(Message::Text(text)) => {
                self.chunk(OpCode::Data(Data::Text), text.as_bytes().clone())
            }
            Frame::Message(Message::Binary(bytes)) => {
                self.chunk(OpCode::Data(Data::Binary), bytes.clone())
            }
            Frame::Close(close) => self.chunk(OpCode::Control(Control::Close), content(close)),
        };
        self.queue.push_back(Chunk {
            frame: Some(frame),
            ..chunk
        });
    }

    /// Queues a ping or pong before all chunks that have not begun to be written. Of several waiting pongs only the
    /// last is sent (RFC 6455, section 5.5.3).
    pub(super) fn control(&mut self, control: Control, payload: Bytes) {
        let chunk = self.chunk(OpCode::Control(control), payload);
        let first = usize::from(self.written > 0);
        match self.queue.get_mut(first) {
            Some(waiting) if waiting.frame.is_none() => *waiting = chunk,
            _ => self.queue.insert(first.min(self.queue.len()), chunk),
        }
    }

    /// Writes. Ready when everything is written; `done` is called for each frame.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        mut done: impl FnMut(&Frame),
    ) -> Poll<io::Result<()>> {
        while !self.queue.is_empty() {
            let count = ready!(self.poll_once(cx, stream))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.flushed = false;
            self.written += count;
            self.total += count as u64;
            while let Some(first) = self.queue.front() {
                if self.written < first.len() {
                    break;
                }
                self.written -= first.len();
                if let Some(frame) = self.queue.pop_front().and_then(|chunk| chunk.frame) {
                    done(&frame);
                }
            }
        }
        // An idle socket keeps no buffer.
        self.queue = VecDeque::new();
        if !self.flushed {
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// One system call.
    fn poll_once<S: AsyncWrite + Unpin>(
        &self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSlice::new(&[]); 2 * BATCH + 2];
        let mut skip = self.written;
        let mut count = 0;
        for chunk in &self.queue {
            if count + 2 > slices.len() {
                break;
            }
            for part in [&chunk.head[..usize::from(chunk.head_len)], &chunk.payload] {
                let skipped = skip.min(part.len());
                skip -= skipped;
                if skipped < part.len() {
                    slices[count] = IoSlice::new(&part[skipped..]);
                    count += 1;
                }
            }
        }
        Pin::new(stream).poll_write_vectored(cx, &slices[..count])
    }

    fn chunk(&self, opcode: OpCode, payload: Bytes) -> Chunk {
        let (mask, payload) = match self.role {
            Role::Server => (None, payload),
            Role::Client => {
                let mut mask = [0; 4];
                SystemRandomness.fill(&mut mask);
                let mut masked = BytesMut::from(payload.as_ref());
                // Masking and unmasking are the same operation.
                unmask(&mut masked, mask, 0);
                (Some(mask), masked.freeze())
            }
        };
        let header = FrameHeader {
            opcode,
            mask,
            ..FrameHeader::default()
        };
        let mut head = [0; 14];
        let length = payload.len() as u64;
        header
            .format(length, &mut head.as_mut_slice())
            .expect("a header has at most 14 bytes");
        Chunk {
            head,
            head_len: header.len(length) as u8,
            payload,
            frame: None,
        }
    }
}

/// The payload of a close frame.
fn content(close: &CloseFrame) -> Bytes {
    if close.code == code::NO_STATUS {
        return Bytes::new();
    }
    let mut payload = BytesMut::with_capacity(2 + close.reason.len());
    payload.extend_from_slice(&close.code.to_be_bytes());
    payload.extend_from_slice(close.reason.as_bytes());
    payload.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::reader::{Input, Reader};

    /// A stream that takes `room` bytes in all, and at most `piece` at once.
    struct Narrow {
        taken: Vec<u8>,
        piece: usize,
        room: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.piece).min(self.room);
            if count == 0 {
                return Poll::Pending;
            }
            self.taken.extend_from_slice(&bytes[..count]);
            self.room -= count;
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn write(writer: &mut Writer, stream: &mut Narrow) -> (bool, Vec<Frame>) {
        let mut done = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let all = writer
            .poll_write(&mut cx, stream, |frame| done.push(frame.clone()))
            .is_ready();
        (all, done)
    }

    fn read(role: Role, bytes: &[u8]) -> Vec<Input> {
        let mut reader = Reader::new(role, 1 << 20);
        let mut input = bytes;
        std::iter::from_fn(|| reader.read(&mut input).unwrap()).collect()
    }

    #[test]
    fn what_is_written_in_pieces_reads_as_it_was_pushed() {
        for (writes, reads) in [(Role::Server, Role::Client), (Role::Client, Role::Server)] {
            let mut writer = Writer::new(writes);
            let messages: Vec<Message> = [0, 1, 125, 126, 65_535, 65_536]
                .into_iter()
                .map(|length| "x".repeat(length).into())
                .collect();
            for message in &messages {
                writer.push(Frame::Message(message.clone()));
            }
            writer.push(Frame::Close(CloseFrame::of(1000, "bye")));
            let mut stream = Narrow {
                taken: Vec::new(),
                piece: 1_001,
                room: usize::MAX,
            };
            let (all, done) = write(&mut writer, &mut stream);
            assert!(all && done.len() == 7 && writer.total() == stream.taken.len() as u64);
            let mut expected: Vec<_> = messages.into_iter().map(Input::Message).collect();
            expected.push(Input::Close(CloseFrame::of(1000, "bye")));
            assert_eq!(read(reads, &stream.taken), expected);
        }
    }

    #[test]
    fn a_control_frame_overtakes_messages_that_have_not_begun() {
        let mut writer = Writer::new(Role::Server);
        let mut stream = Narrow {
            taken: Vec::new(),
            piece: 3,
            room: 3,
        };
        writer.push(Frame::Message("first".into()));
        writer.push(Frame::Message("second".into()));
        let (all, done) = write(&mut writer, &mut stream);
        assert!(!all && done.is_empty());
        writer.control(Control::Pong, Bytes::from_static(b"one"));
        writer.control(Control::Pong, Bytes::from_static(b"two"));
        stream.room = usize::MAX;
        assert!(write(&mut writer, &mut stream).0);
        let said = read(Role::Client, &stream.taken);
        assert_eq!(
            said,
            [
                Input::Message("first".into()),
                Input::Pong,
                Input::Message("second".into())
            ]
        );
    }
}
