//! Messages of the sync and awareness protocols (`y-protocols`).

use super::lib0::{Malformed, Reader, write_bytes, write_number};

const SYNC: u64 = 0;
const AWARENESS: u64 = 1;
const QUERY_AWARENESS: u64 = 3;

const STEP_1: u64 = 0;
const STEP_2: u64 = 1;
const UPDATE: u64 = 2;

/// What a client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// A state vector: "I have this; what do you have beyond it?"
    Step1(&'a [u8]),
    /// The answer to it: an update.
    Step2(&'a [u8]),
    /// A change: an update.
    Update(&'a [u8]),
    /// States of clients.
    Awareness(&'a [u8]),
    /// Asks for the states of all clients.
    QueryAwareness,
}

/// Why the bytes are not a valid Yjs message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    Malformed,
    Unknown(u64),
}

impl From<Malformed> for NoMessage {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl<'a> Request<'a> {
    /// Reads one message; a frame may have several.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, NoMessage> {
        match reader.number()? {
            SYNC => match reader.number()? {
                STEP_1 => Ok(Self::Step1(reader.bytes()?)),
                STEP_2 => Ok(Self::Step2(reader.bytes()?)),
                UPDATE => Ok(Self::Update(reader.bytes()?)),
                _ => Err(NoMessage::Malformed),
            },
            AWARENESS => Ok(Self::Awareness(reader.bytes()?)),
            QUERY_AWARENESS => Ok(Self::QueryAwareness),
            unknown => Err(NoMessage::Unknown(unknown)),
        }
    }
}

fn sync(step: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 8);
    write_number(&mut out, SYNC);
    write_number(&mut out, step);
    write_bytes(&mut out, content);
    out
}

pub(super) fn step1(state_vector: &[u8]) -> Vec<u8> {
    sync(STEP_1, state_vector)
}

pub(super) fn step2(update: &[u8]) -> Vec<u8> {
    sync(STEP_2, update)
}

pub(super) fn update(update: &[u8]) -> Vec<u8> {
    sync(UPDATE, update)
}

/// One client's state: its id, its clock, and JSON, which is `null` when it has left.
pub(super) type Entry<'a> = (u64, u32, &'a str);

pub(super) fn awareness<'a>(entries: impl ExactSizeIterator<Item = Entry<'a>>) -> Vec<u8> {
    let mut content = Vec::new();
    write_number(&mut content, entries.len() as u64);
    for (client, clock, state) in entries {
        write_number(&mut content, client);
        write_number(&mut content, clock.into());
        write_bytes(&mut content, state.as_bytes());
    }
    let mut out = Vec::with_capacity(content.len() + 8);
    write_number(&mut out, AWARENESS);
    write_bytes(&mut out, &content);
    out
}

/// The entries of an awareness message, at most `limit`.
pub(super) fn entries(content: &[u8], limit: usize) -> Result<Vec<Entry<'_>>, Malformed> {
    let reader = &mut Reader::new(content);
    let count = reader.count(3)?;
    if count > limit {
        return Err(Malformed);
    }
    let entry = |_| Ok((reader.client()?, reader.small()?, reader.text()?));
    (0..count).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_y_protocols() {
        assert_eq!(step1(&[0]), [0, 0, 1, 0]);
        assert_eq!(step2(&[0, 0]), [0, 1, 2, 0, 0]);
        assert_eq!(update(&[0, 0]), [0, 2, 2, 0, 0]);
        let states = awareness([(5, 2, "{}"), (300, 1, "null")].into_iter());
        let expected: Vec<u8> =
            [&[1, 14, 2, 5, 2, 2][..], b"{}", &[0xac, 2, 1, 4], b"null"].concat();
        assert_eq!(states, expected);
        let mut reader = Reader::new(&states);
        let Ok(Request::Awareness(content)) = Request::read(&mut reader) else {
            panic!("{states:?}");
        };
        assert_eq!(
            entries(content, 2),
            Ok(vec![(5, 2, "{}"), (300, 1, "null")])
        );
        assert_eq!(entries(content, 1), Err(Malformed));
    }

    #[test]
    fn what_is_no_message_is_told_from_what_is_unknown() {
        let read = |bytes: &[u8]| Request::read(&mut Reader::new(bytes)).unwrap_err();
        assert_eq!(read(&[]), NoMessage::Malformed);
        assert_eq!(read(&[0]), NoMessage::Malformed);
        assert_eq!(read(&[0, 7, 0]), NoMessage::Malformed);
        assert_eq!(read(&[0, 2, 5, 1]), NoMessage::Malformed);
        assert_eq!(read(&[2, 0]), NoMessage::Unknown(2));
        assert_eq!(read(&[42]), NoMessage::Unknown(42));
    }
}
