//! Parses bytes into messages (RFC 6455, section 5).
//!
//! Takes bytes as they arrive and keeps only those of an unfinished message. Memory is not reserved for a frame's
//! declared length before the payload has arrived.

use std::io::Cursor;

use abide_runtime::socket::{CloseFrame, Message, code};
use bytes::Bytes;
use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

use super::Role;

/// A header's longest form: two bytes, eight of length, four of mask.
const LONGEST_HEADER: usize = 14;

/// A control frame's longest payload (RFC 6455, section 5.5).
const LONGEST_CONTROL: u64 = 125;

/// The most that is reserved before a message's bytes arrive.
const FIRST_RESERVATION: u64 = 16 << 10;

/// Input from a peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    Message(Message),
    Ping(Bytes),
    Pong,
    Close(CloseFrame),
}

/// The peer violated the protocol or a limit: the close to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: u16,
    pub(super) reason: &'static str,
}

impl Violation {
    const fn protocol(reason: &'static str) -> Self {
        Self {
            code: code::PROTOCOL_ERROR,
            reason,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
}

/// A frame whose payload has not arrived completely.
#[derive(Debug)]
struct Arriving {
    header: FrameHeader,
    missing: u64,
    /// The mask position of the next byte.
    mask_at: usize,
}

#[derive(Debug)]
pub(super) struct Reader {
    role: Role,
    max_message: usize,
    /// The beginning of a header.
    head: Vec<u8>,
    frame: Option<Arriving>,
    /// The message that frames are adding to.
    message: Option<(Kind, Vec<u8>)>,
    /// The arriving control frame; it may come between the frames of a message.
    control: Vec<u8>,
    /// Frames without content that were read, and not yet told.
    idle: u32,
}

impl Reader {
    pub(super) fn new(role: Role, max_message: usize) -> Self {
        Self {
            role,
            max_message,
            head: Vec::new(),
            frame: None,
            message: None,
            control: Vec::new(),
            idle: 0,
        }
    }

    /// How many frames without content were read since the last call: control frames, and empty parts of messages.
    pub(super) fn take_idle(&mut self) -> u32 {
        std::mem::take(&mut self.idle)
    }

    /// Bytes kept of the arriving message.
    pub(super) fn arriving(&self) -> usize {
        self.message
            .as_ref()
            .map_or(0, |(_, bytes)| bytes.capacity())
    }

    /// Returns whether a message or a frame has begun and not ended.
    pub(super) fn is_within_message(&self) -> bool {
        self.message.is_some() || self.frame.is_some() || !self.head.is_empty()
    }

    /// Discards what has arrived: nothing more is read.
    pub(super) fn give_up(&mut self) {
        self.message = None;
        self.frame = None;
        self.head = Vec::new();
        self.control = Vec::new();
    }

    /// Takes bytes off `input` until something is complete. `None` if all bytes were taken and more are needed.
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Input>, Violation> {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.header(input)? {
                    Some(frame) => self.frame = Some(frame),
                    None => return Ok(None),
                }
                continue;
            };
            let now = usize::try_from(frame.missing)
                .unwrap_or(usize::MAX)
                .min(input.len());
            let (taken, rest) = input.split_at(now);
            *input = rest;
            let target = match (&frame.header.opcode, &mut self.message) {
                (OpCode::Data(_), Some((_, bytes))) => bytes,
                _ => &mut self.control,
            };
            let from = target.len();
            target.extend_from_slice(taken);
            if let Some(mask) = frame.header.mask {
                unmask(&mut target[from..], mask, frame.mask_at);
            }
            frame.mask_at = (frame.mask_at + now) % 4;
            frame.missing -= now as u64;
            if frame.missing > 0 {
                return Ok(None);
            }
            let Some(frame) = self.frame.take() else {
                continue;
            };
            if let Some(complete) = self.complete(&frame.header)? {
                return Ok(Some(complete));
            }
        }
    }

    /// Takes a header off `input`, if it has arrived completely.
    fn header(&mut self, input: &mut &[u8]) -> Result<Option<Arriving>, Violation> {
        if self.head.is_empty() {
            let mut cursor = Cursor::new(*input);
            if let Some(parsed) = parse(&mut cursor)? {
                *input = &input[cursor.position() as usize..];
                return self.begin(parsed).map(Some);
            }
        }
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            self.head.push(*byte);
            debug_assert!(self.head.len() <= LONGEST_HEADER);
            if let Some(parsed) = parse(&mut Cursor::new(self.head.as_slice()))? {
                self.head = Vec::new();
                return self.begin(parsed).map(Some);
            }
        }
        Ok(None)
    }

    /// Checks a frame's header and reserves memory for its payload.
    fn begin(&mut self, (header, length): (FrameHeader, u64)) -> Result<Arriving, Violation> {
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(Violation::protocol("a reserved bit is set"));
        }
        match (self.role, header.mask) {
            (Role::Server, None) => return Err(Violation::protocol("a frame is not masked")),
            (Role::Client, Some(_)) => return Err(Violation::protocol("a frame is masked")),
            _ => {}
        }
        let is_part = !header.is_final || header.opcode == OpCode::Data(Data::Continue);
        if matches!(header.opcode, OpCode::Control(_)) || is_part && length == 0 {
            self.idle = self.idle.saturating_add(1);
        }
        match header.opcode {
            OpCode::Control(_) if !header.is_final => {
                return Err(Violation::protocol("a control frame is fragmented"));
            }
            OpCode::Control(_) if length > LONGEST_CONTROL => {
                return Err(Violation::protocol("a control frame is too long"));
            }
            OpCode::Control(_) => {}
            OpCode::Data(data) => {
                let before = match (data, &self.message) {
                    (Data::Continue, Some((_, bytes))) => bytes.len(),
                    (Data::Continue, None) => {
                        return Err(Violation::protocol("there is no message to continue"));
                    }
                    (_, Some(_)) => {
                        return Err(Violation::protocol("a message begins inside another"));
                    }
                    (_, None) => 0,
                };
                if length > (self.max_message - before) as u64 {
                    return Err(Violation {
                        code: code::TOO_BIG,
                        reason: "the message is too long",
                    });
                }
                let first = length.min(FIRST_RESERVATION) as usize;
                match data {
                    Data::Text => self.message = Some((Kind::Text, Vec::with_capacity(first))),
                    Data::Binary => self.message = Some((Kind::Binary, Vec::with_capacity(first))),
                    _ => {}
                }
            }
        }
        Ok(Arriving {
            header,
            missing: length,
            mask_at: 0,
        })
    }

    /// Handles a frame that has arrived completely.
    fn complete(&mut self, header: &FrameHeader) -> Result<Option<Input>, Violation> {
        match header.opcode {
            OpCode::Control(Control::Ping) => Ok(Some(Input::Ping(self.take_control()))),
            OpCode::Control(Control::Pong) => {
                self.control = Vec::new();
                Ok(Some(Input::Pong))
            }
            OpCode::Control(_) => close(&self.take_control()).map(Input::Close).map(Some),
            OpCode::Data(_) if !header.is_final => Ok(None),
            OpCode::Data(_) => {
                let message = match self.message.take() {
                    Some((Kind::Binary, bytes)) => Message::Binary(bytes.into()),
                    Some((Kind::Text, bytes)) => {
                        let text = Bytes::from(bytes).try_into().map_err(|_| Violation {
                            code: code::INVALID_DATA,
                            reason: "a text message is not UTF-8",
                        })?;
                        Message::Text(text)
                    }
                    None => return Ok(None),
                };
                Ok(Some(Input::Message(message)))
            }
        }
    }

    fn take_control(&mut self) -> Bytes {
        std::mem::take(&mut self.control).into()
    }
}

/// A header and its payload's length, if it is complete.
fn parse(cursor: &mut Cursor<&[u8]>) -> Result<Option<(FrameHeader, u64)>, Violation> {
    FrameHeader::parse(cursor).map_err(|_| Violation::protocol("a frame of unknown kind"))
}

/// The content of a close frame.
fn close(payload: &[u8]) -> Result<CloseFrame, Violation> {
    let Some((number, reason)) = payload.split_first_chunk::<2>() else {
        return match payload.len() {
            0 => Ok(CloseFrame::of(code::NO_STATUS, "")),
            _ => Err(Violation::protocol("half a close code")),
        };
    };
    let number = u16::from_be_bytes(*number);
    if !code::may_be_sent(number) {
        return Err(Violation::protocol("a close code that must not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation {
        code: code::INVALID_DATA,
        reason: "a close reason is not UTF-8",
    })?;
    Ok(CloseFrame {
        code: number,
        reason: reason.into(),
    })
}

/// Unmasks bytes, the first of which is at position `at` of the mask.
pub(super) fn unmask(bytes: &mut [u8], mask: [u8; 4], at: usize) {
    let mask = u32::from_ne_bytes(mask);
    let mask = if cfg!(target_endian = "little") {
        mask.rotate_right(8 * at as u32)
    } else {
        mask.rotate_left(8 * at as u32)
    };
    let wide = u64::from(mask) << 32 | u64::from(mask);
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
    }
    for (byte, mask) in words
        .into_remainder()
        .iter_mut()
        .zip(wide.to_ne_bytes().into_iter().cycle())
    {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::protocol::frame::Frame;

    use super::*;

    const MASK: [u8; 4] = [1, 2, 3, 250];

    /// A frame as a client sends it.
    fn frame(opcode: OpCode, is_final: bool, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader {
            is_final,
            opcode,
            mask: Some(MASK),
            ..FrameHeader::default()
        };
        let mut bytes = Vec::new();
        let frame = Frame::from_payload(header, Bytes::copy_from_slice(payload));
        frame.format(&mut bytes).unwrap();
        bytes
    }

    fn text(payload: &str) -> Vec<u8> {
        frame(OpCode::Data(Data::Text), true, payload.as_bytes())
    }

    fn reader() -> Reader {
        Reader::new(Role::Server, 100_000)
    }

    /// Everything that the bytes say, fed in pieces of this size.
    fn read_in_pieces(bytes: &[u8], size: usize) -> Result<Vec<Input>, Violation> {
        let mut reader = reader();
        let mut inputs = Vec::new();
        for mut piece in bytes.chunks(size) {
            while let Some(input) = reader.read(&mut piece)? {
                inputs.push(input);
            }
            assert!(piece.is_empty());
        }
        Ok(inputs)
    }

    fn violation(bytes: &[u8]) -> u16 {
        read_in_pieces(bytes, bytes.len()).unwrap_err().code
    }

    #[test]
    fn messages_are_the_same_in_whatever_pieces_they_come() {
        let long = "é".repeat(40_000);
        let ping = OpCode::Control(Control::Ping);
        let bytes = [
            text("hello"),
            text(""),
            frame(OpCode::Data(Data::Binary), false, &[1, 2, 3]),
            frame(ping, true, b"there?"),
            frame(OpCode::Data(Data::Continue), false, &[4]),
            frame(OpCode::Control(Control::Pong), true, b"ignored"),
            frame(OpCode::Data(Data::Continue), true, &[5; 200]),
            text(&long),
            frame(OpCode::Control(Control::Close), true, b"\x03\xe8bye"),
        ]
        .concat();
        let expected = [
            Input::Message("hello".into()),
            Input::Message("".into()),
            Input::Ping(Bytes::from_static(b"there?")),
            Input::Pong,
            Input::Message([&[1, 2, 3, 4][..], &[5; 200]].concat().into()),
            Input::Message(long.into()),
            Input::Close(CloseFrame::of(1000, "bye")),
        ];
        for size in [1, 2, 3, 5, 7, 13, 64, 1_000, bytes.len()] {
            assert_eq!(read_in_pieces(&bytes, size).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn a_close_may_have_no_code() {
        let bytes = frame(OpCode::Control(Control::Close), true, b"");
        let expected = Input::Close(CloseFrame::of(code::NO_STATUS, ""));
        assert_eq!(read_in_pieces(&bytes, 1).unwrap(), [expected]);
    }

    #[test]
    fn what_is_not_the_protocol_is_1002() {
        let continued = OpCode::Data(Data::Continue);
        let close = OpCode::Control(Control::Close);
        let mut unmasked = Vec::new();
        let header = Frame::message("hi", OpCode::Data(Data::Text), true);
        header.format(&mut unmasked).unwrap();
        let mut reserved = text("hi");
        reserved[0] |= 0x40;
        let mut unknown = text("hi");
        unknown[0] = 0x83;
        for (what, bytes) in [
            ("not masked", unmasked),
            ("reserved bit", reserved),
            ("unknown kind", unknown),
            ("nothing to continue", frame(continued, true, b"x")),
            (
                "begins inside another",
                [frame(OpCode::Data(Data::Text), false, b"a"), text("b")].concat(),
            ),
            (
                "fragmented control",
                frame(OpCode::Control(Control::Ping), false, b""),
            ),
            (
                "long control",
                frame(OpCode::Control(Control::Ping), true, &[0; 126]),
            ),
            ("half a code", frame(close, true, b"\x03")),
            ("code 1005", frame(close, true, b"\x03\xed")),
            ("code 999", frame(close, true, b"\x03\xe7")),
        ] {
            assert_eq!(violation(&bytes), code::PROTOCOL_ERROR, "{what}");
        }
    }

    #[test]
    fn text_that_is_not_utf_8_is_1007() {
        let bytes = frame(OpCode::Data(Data::Text), true, &[0xff]);
        assert_eq!(violation(&bytes), code::INVALID_DATA);
        let bytes = frame(OpCode::Control(Control::Close), true, b"\x03\xe8\xff");
        assert_eq!(violation(&bytes), code::INVALID_DATA);
        // A character may be split between frames.
        let (first, second) = "é".as_bytes().split_at(1);
        let bytes = [
            frame(OpCode::Data(Data::Text), false, first),
            frame(OpCode::Data(Data::Continue), true, second),
        ]
        .concat();
        assert_eq!(
            read_in_pieces(&bytes, 3).unwrap(),
            [Input::Message("é".into())]
        );
    }

    #[test]
    fn a_message_over_the_limit_is_1009_before_it_has_arrived() {
        let whole = frame(OpCode::Data(Data::Binary), true, &vec![0; 100_001]);
        assert_eq!(violation(&whole[..14]), code::TOO_BIG);
        let parts = [
            frame(OpCode::Data(Data::Binary), false, &vec![0; 99_999]),
            frame(OpCode::Data(Data::Continue), true, &[0; 2]),
        ]
        .concat();
        assert_eq!(violation(&parts), code::TOO_BIG);
        let fits = frame(OpCode::Data(Data::Binary), true, &vec![0; 100_000]);
        assert_eq!(read_in_pieces(&fits, 4_096).unwrap().len(), 1);
    }

    #[test]
    fn a_header_that_promises_much_reserves_little() {
        let whole = frame(OpCode::Data(Data::Binary), true, &vec![0; 100_000]);
        let mut reader = reader();
        assert_eq!(reader.read(&mut &whole[..20]), Ok(None));
        let (_, bytes) = reader.message.unwrap();
        assert!(bytes.capacity() <= FIRST_RESERVATION as usize);
    }

    #[test]
    fn a_mask_continues_where_the_last_piece_ended() {
        let plain: Vec<u8> = (0..100).collect();
        for cut in 0..20 {
            let mut bytes: Vec<u8> = plain
                .iter()
                .zip(MASK.into_iter().cycle())
                .map(|(byte, mask)| byte ^ mask)
                .collect();
            let (first, second) = bytes.split_at_mut(cut);
            unmask(first, MASK, 0);
            unmask(second, MASK, cut % 4);
            assert_eq!(bytes, plain, "{cut}");
        }
    }
}
