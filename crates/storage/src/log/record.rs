//! One record of the log: a header and the page entries of one transaction, or of one part of a large one.
//!
//! Bytes, little-endian (`docs/format.md` draws them):
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of the header from offset 4 |
//! | 4 | 4 | length of the record, header included |
//! | 8 | 8 | LSN: the record's own position |
//! | 16 | 8 | the durable LSN when its group was written (earlier versions: when the record was appended) |
//! | 24 | 4 | epoch |
//! | 28 | 4 | namespace |
//! | 32 | 32 | object id |
//! | 64 | 4 | commit number of the object |
//! | 68 | 4 | size of the database in pages |
//! | 72 | 4 | flags: 1 last part of its transaction, 2 sets an alarm, 4 clears the alarm, and of the alarm that it sets: 8 given up, 16 failing, 32 an attempt has begun, 64 beside few suspects, 128 beside none, bits 16–31 the attempts |
//! | 76 | 4 | number of page entries |
//! | 80 | 8 | time of the commit, milliseconds since 1970 |
//! | 88 | 8 | when the alarm is due, milliseconds since 1970, if flag 2 |
//! | 96 | 4 | CRC-32C of the payload |
//! | 100 | 4 | page size |
//!
//! A record's length is a multiple of 8; what is left behind the last entry is zero.

use crate::alarms::{AlarmChange, marks};
use crate::ident::{CommitNo, Epoch, Lsn, NamespaceNo, ObjectKey};
use crate::limits::PAGE_BYTES;

/// Bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 104;

/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const LAST: u32 = 1;
const ALARM_SET: u32 = 2;
const ALARM_CLEARED: u32 = 4;
/// Where the marks of a set alarm begin.
const MARKS_SHIFT: u32 = 3;
/// Where the number of the alarm's attempts begins.
const ATTEMPTS_SHIFT: u32 = 16;
/// What only a set alarm has.
const OF_SET_ALARM: u32 = marks::ALL << MARKS_SHIFT | (u16::MAX as u32) << ATTEMPTS_SHIFT;
const KNOWN_FLAGS: u32 = LAST | ALARM_SET | ALARM_CLEARED | OF_SET_ALARM;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: usize,
    pub(crate) lsn: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) epoch: Epoch,
    pub(crate) key: ObjectKey,
    pub(crate) commit: CommitNo,
    pub(crate) database_pages: u32,
    pub(crate) last_part: bool,
    pub(crate) alarm: Option<AlarmChange>,
    pub(crate) entries: u32,
    pub(crate) unix_millis: u64,
    pub(crate) payload_crc: u32,
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}

impl Header {
    /// Writes everything but the position; [`stamp`] completes it.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let (alarm_flags, alarm_due) = match self.alarm {
            None => (0, 0),
            Some(AlarmChange::Set(alarm)) => {
                let marks = marks::of(&alarm) << MARKS_SHIFT;
                let attempts = u32::from(alarm.attempts) << ATTEMPTS_SHIFT;
                (ALARM_SET | marks | attempts, alarm.due)
            }
            Some(AlarmChange::Cleared) => (ALARM_CLEARED, 0),
        };
        let flags = alarm_flags | if self.last_part { LAST } else { 0 };
        put(bytes, 4, &(self.length as u32).to_le_bytes());
        put(bytes, 24, &self.epoch.0.to_le_bytes());
        put(bytes, 28, &self.key.namespace.0.to_le_bytes());
        put(bytes, 32, &self.key.id);
        put(bytes, 64, &self.commit.0.to_le_bytes());
        put(bytes, 68, &self.database_pages.to_le_bytes());
        put(bytes, 72, &flags.to_le_bytes());
        put(bytes, 76, &self.entries.to_le_bytes());
        put(bytes, 80, &self.unix_millis.to_le_bytes());
        put(bytes, 88, &alarm_due.to_le_bytes());
        put(bytes, 96, &self.payload_crc.to_le_bytes());
        put(bytes, 100, &(PAGE_BYTES as u32).to_le_bytes());
        stamp(bytes, self.lsn, self.durable);
    }

    /// Reads a header; `None` if it is not one: bad checksum, or a field that no version writes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if u32_at(bytes, 0) != crc32c::crc32c(&bytes[4..]) {
            return None;
        }
        let length = u32_at(bytes, 4) as usize;
        let flags = u32_at(bytes, 72);
        let page_bytes = u32_at(bytes, 100) as usize;
        let alarm = match flags & (ALARM_SET | ALARM_CLEARED) {
            ALARM_SET => Some(AlarmChange::Set(marks::entry(
                flags >> MARKS_SHIFT & marks::ALL,
                u64_at(bytes, 88).cast_signed(),
                (flags >> ATTEMPTS_SHIFT) as u16,
            )?)),
            _ if flags & OF_SET_ALARM != 0 => return None,
            ALARM_CLEARED => Some(AlarmChange::Cleared),
            0 => None,
            _ => return None,
        };
        let known = flags & !KNOWN_FLAGS == 0 && page_bytes == PAGE_BYTES;
        if !known || length < HEADER_BYTES || !length.is_multiple_of(ALIGN) {
            return None;
        }
        let mut id = [0; 32];
        id.copy_from_slice(&bytes[32..64]);
        Some(Self {
            length,
            lsn: Lsn(u64_at(bytes, 8)),
            durable: Lsn(u64_at(bytes, 16)),
            epoch: Epoch(u32_at(bytes, 24)),
            key: ObjectKey {
                namespace: NamespaceNo(u32_at(bytes, 28)),
                id,
            },
            commit: CommitNo(u32_at(bytes, 64)),
            database_pages: u32_at(bytes, 68),
            last_part: flags & LAST != 0,
            alarm,
            entries: u32_at(bytes, 76),
            unix_millis: u64_at(bytes, 80),
            payload_crc: u32_at(bytes, 96),
        })
    }
}

/// Writes into a record's header where it stands and what is durable, and seals it with its checksum.
pub(crate) fn stamp(bytes: &mut [u8], lsn: Lsn, durable: Lsn) {
    put(bytes, 8, &lsn.0.to_le_bytes());
    put(bytes, 16, &durable.0.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[4..HEADER_BYTES]);
    put(bytes, 0, &crc.to_le_bytes());
}

/// Writes the time of the commit anew; [`stamp`] seals it.
pub(crate) fn set_time(bytes: &mut [u8], unix_millis: u64) {
    put(bytes, 80, &unix_millis.to_le_bytes());
}

/// The LSN field of a possible record: a cheap test before the checksum.
pub(crate) fn lsn_field(bytes: &[u8]) -> Option<Lsn> {
    (bytes.len() >= HEADER_BYTES).then(|| Lsn(u64_at(bytes, 8)))
}

/// Makes the checksums of the record at `at` right, and returns its length if it is whole.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8], at: usize) -> Option<usize> {
    let record = bytes.get_mut(at..)?;
    record.get(..HEADER_BYTES)?;
    let length = u32_at(record, 4) as usize;
    let payload = record.get(HEADER_BYTES..length).map(crc32c::crc32c);
    if let Some(crc) = payload {
        put(record, 96, &crc.to_le_bytes());
    }
    crate::fuzzing::put_crc(record, 0, 4..HEADER_BYTES);
    payload.map(|_| length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::{AlarmEntry, Isolation};
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            length: 256,
            lsn: Lsn(4096),
            durable: Lsn(1024),
            epoch: Epoch(3),
            key: ObjectKey {
                namespace: NamespaceNo(2),
                id: [9; 32],
            },
            commit: CommitNo(17),
            database_pages: 5,
            last_part: true,
            alarm: Some(AlarmChange::Set(AlarmEntry {
                attempts: 7,
                failed: true,
                ..AlarmEntry::at(1_700_000_060_000)
            })),
            entries: 2,
            unix_millis: 1_700_000_000_000,
            payload_crc: 0xdead_beef,
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for alarm in [
            None,
            Some(AlarmChange::Set(AlarmEntry {
                attempts: u16::MAX,
                ..AlarmEntry::at(i64::MAX)
            })),
            Some(AlarmChange::Set(AlarmEntry {
                attempts: 3,
                failing: true,
                begun: Some(Isolation::Few),
                ..AlarmEntry::at(-1)
            })),
            Some(AlarmChange::Cleared),
        ] {
            let header = Header { alarm, ..header() };
            let mut bytes = [0; HEADER_BYTES];
            header.write(&mut bytes);
            assert_eq!(Header::read(&bytes), Some(header));
        }
    }

    fn hex(header: &Header) -> String {
        let mut bytes = [0; HEADER_BYTES];
        header.write(&mut bytes);
        bytes.iter().fold(String::new(), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    #[test]
    fn the_bytes_of_a_header_are_those_of_format_1() {
        assert_eq!(hex(&header()), include_str!("header-v1.hex").trim());
    }

    #[test]
    fn the_bytes_of_a_header_with_an_attempt_that_has_begun_are_those_of_format_3() {
        let begun = AlarmEntry {
            attempts: 7,
            failing: true,
            begun: Some(Isolation::Alone),
            ..AlarmEntry::at(1_700_000_060_000)
        };
        let header = Header {
            alarm: Some(AlarmChange::Set(begun)),
            ..header()
        };
        assert_eq!(hex(&header), include_str!("header-v3.hex").trim());
    }

    proptest! {
        #[test]
        fn a_changed_header_is_refused(at in 0..HEADER_BYTES, bit in 0..8) {
            let mut bytes = [0; HEADER_BYTES];
            header().write(&mut bytes);
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(Header::read(&bytes), None);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Header::read(&bytes);
            let _ = lsn_field(&bytes);
        }
    }
}
