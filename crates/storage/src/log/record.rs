//! One record of the log: a header and the page entries of one transaction, or of one part of a large one.
//!
//! Bytes, little-endian (`docs/format.md` draws them):
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of the header from offset 4 |
//! | 4 | 4 | length of the record, header included |
//! | 8 | 8 | LSN: the record's own position |
//! | 16 | 8 | the durable LSN when its group was written |
//! | 24 | 4 | epoch |
//! | 28 | 4 | namespace |
//! | 32 | 32 | object id |
//! | 64 | 4 | commit number of the object |
//! | 68 | 4 | size of the database in pages |
//! | 72 | 4 | flags: 1 last part of its transaction, 2 sets an alarm, 4 clears the alarm, and for the alarm that it sets: 8 given up, 16 failing, 32 an attempt has begun, 64 beside few suspects, 128 beside none, 256 it is a wait, 512 one has a name, 1024 one was given up and another was not, bits 16–31 the attempts; 2048 the object did not exist before, 4096 it does not exist afterwards; 8192 the pages before it are those of a replacement ([`Header::replaces`]) |
//! | 76 | 4 | number of page entries |
//! | 80 | 8 | time of the commit, milliseconds since 1970 |
//! | 88 | 8 | when the alarm is due, milliseconds since 1970, if flag 2 |
//! | 96 | 4 | CRC-32C of the payload |
//! | 100 | 4 | page size |
//!
//! A record's length is a multiple of 8; the bytes after the last entry are zero.

use crate::alarm_entry::{AlarmChange, flags};
use crate::ident::{CommitNo, Epoch, Life, Lsn, ObjectKey};
use crate::limits::PAGE_BYTES;
use bytes::{Buf, BufMut};

/// Bytes of a record's header.
pub(crate) const HEADER_BYTES: usize = 104;

/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const LAST: u32 = 1;
const ALARM_SET: u32 = 2;
const ALARM_CLEARED: u32 = 4;
/// The bit at which the flags of a set alarm begin.
const FLAGS_SHIFT: u32 = 3;
/// The bit at which the number of the alarm's attempts begins.
const ATTEMPTS_SHIFT: u32 = 16;
/// Flags that only a set alarm has.
const OF_SET_ALARM: u32 = flags::ALL << FLAGS_SHIFT | (u16::MAX as u32) << ATTEMPTS_SHIFT;
/// The bit at which the flags of the object's life begin.
const LIFE_SHIFT: u32 = 11;
const OF_LIFE: u32 = Life::BITS << LIFE_SHIFT;
const REPLACES: u32 = 8192;
const KNOWN_FLAGS: u32 = LAST | ALARM_SET | ALARM_CLEARED | OF_SET_ALARM | OF_LIFE | REPLACES;

/// The fields of a header.
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
    pub(crate) life: Life,
    /// The commit continues a replacement of the object's whole state, which is in a separate file, and not the commit
    /// before: pages that it does not have are as there. On the first part of a transaction.
    pub(crate) replaces: bool,
    pub(crate) alarm: Option<AlarmChange>,
    pub(crate) entries: u32,
    pub(crate) unix_millis: u64,
    pub(crate) payload_crc: u32,
}

impl Header {
    /// What the record does to the object's alarm: an object that begins has none.
    pub(crate) fn alarm_change(&self) -> Option<AlarmChange> {
        let begins = (self.life == Life::Begins).then_some(AlarmChange::Cleared);
        self.alarm.or(begins)
    }

    /// Writes the header. [`stamp`] and [`set_time`] fill in the fields that are not known yet.
    pub(crate) fn write(&self, bytes: &mut [u8]) {
        let (alarm_flags, alarm_due) = match self.alarm {
            None => (0, 0),
            Some(AlarmChange::Set(alarm)) => {
                let bits = flags::of(&alarm) << FLAGS_SHIFT;
                let attempts = u32::from(alarm.attempts) << ATTEMPTS_SHIFT;
                (ALARM_SET | bits | attempts, alarm.due)
            }
            Some(AlarmChange::Cleared) => (ALARM_CLEARED, 0),
        };
        let of_life = self.life.bits() << LIFE_SHIFT;
        let flag = |set, flag| if set { flag } else { 0 };
        let flags =
            alarm_flags | of_life | flag(self.last_part, LAST) | flag(self.replaces, REPLACES);
        let mut fields = &mut bytes[4..HEADER_BYTES];
        fields.put_u32_le(self.length as u32);
        fields.put_u64_le(self.lsn.0);
        fields.put_u64_le(self.durable.0);
        fields.put_u32_le(self.epoch.0);
        self.key.encode(&mut fields);
        fields.put_u32_le(self.commit.0);
        fields.put_u32_le(self.database_pages);
        fields.put_u32_le(flags);
        fields.put_u32_le(self.entries);
        fields.put_u64_le(self.unix_millis);
        fields.put_i64_le(alarm_due);
        fields.put_u32_le(self.payload_crc);
        fields.put_u32_le(PAGE_BYTES as u32);
        seal_header(bytes);
    }

    /// Reads a header. `None` if it is invalid: bad checksum, or a field that is never written.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = bytes.get(..HEADER_BYTES)?;
        if fields.get_u32_le() != crc32c::crc32c(fields) {
            return None;
        }
        let length = fields.get_u32_le() as usize;
        let (lsn, durable) = (Lsn(fields.get_u64_le()), Lsn(fields.get_u64_le()));
        let epoch = Epoch(fields.get_u32_le());
        let key = ObjectKey::decode(&mut fields)?;
        let commit = CommitNo(fields.get_u32_le());
        let database_pages = fields.get_u32_le();
        let flags = fields.get_u32_le();
        let entries = fields.get_u32_le();
        let unix_millis = fields.get_u64_le();
        let alarm_due = fields.get_i64_le();
        let payload_crc = fields.get_u32_le();
        let page_bytes = fields.get_u32_le() as usize;
        let alarm = match flags & (ALARM_SET | ALARM_CLEARED) {
            ALARM_SET => Some(AlarmChange::Set(flags::entry(
                flags >> FLAGS_SHIFT & flags::ALL,
                alarm_due,
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
        Some(Self {
            length,
            lsn,
            durable,
            epoch,
            key,
            commit,
            database_pages,
            last_part: flags & LAST != 0,
            life: Life::from_bits((flags & OF_LIFE) >> LIFE_SHIFT)?,
            replaces: flags & REPLACES != 0,
            alarm,
            entries,
            unix_millis,
            payload_crc,
        })
    }
}

/// Writes a record's position and the durable LSN into its header, and seals it with its checksum.
pub(crate) fn stamp(bytes: &mut [u8], lsn: Lsn, durable: Lsn) {
    let mut fields = &mut bytes[8..];
    fields.put_u64_le(lsn.0);
    fields.put_u64_le(durable.0);
    seal_header(bytes);
}

fn seal_header(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[4..HEADER_BYTES]);
    (&mut bytes[..]).put_u32_le(crc);
}

/// Updates the time of the commit; [`stamp`] seals it.
pub(crate) fn set_time(bytes: &mut [u8], unix_millis: u64) {
    (&mut bytes[80..]).put_u64_le(unix_millis);
}

/// The LSN field of a possible record: a cheap test before the checksum.
pub(crate) fn lsn_field(bytes: &[u8]) -> Option<Lsn> {
    bytes.get(8..HEADER_BYTES)?.try_get_u64_le().ok().map(Lsn)
}

/// Recomputes the checksums of the record at `at`, and returns its length if it is complete.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(bytes: &mut [u8], at: usize) -> Option<usize> {
    let record = bytes.get_mut(at..)?;
    record.get(..HEADER_BYTES)?;
    let length = (&record[4..]).get_u32_le() as usize;
    let payload = record.get(HEADER_BYTES..length).map(crc32c::crc32c);
    if let Some(crc) = payload {
        (&mut record[96..]).put_u32_le(crc);
    }
    seal_header(record);
    payload.map(|_| length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm_entry::{AlarmEntry, Isolation};
    use crate::ident::NamespaceNo;
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
            life: Life::Continues,
            replaces: false,
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
            for life in [Life::Begins, Life::Continues, Life::Ends] {
                let header = Header {
                    life,
                    alarm,
                    replaces: alarm.is_none(),
                    ..header()
                };
                let mut bytes = [0; HEADER_BYTES];
                header.write(&mut bytes);
                assert_eq!(Header::read(&bytes), Some(header));
            }
        }
    }

    fn written(header: &Header) -> String {
        let mut bytes = [0; HEADER_BYTES];
        header.write(&mut bytes);
        hex::encode(bytes)
    }

    /// The golden bytes of one header with each of these alarms.
    #[test]
    fn the_bytes_of_a_header_are_those_of_format_1() {
        assert_eq!(written(&header()), include_str!("header.hex").trim());
        let begun = AlarmEntry {
            attempts: 7,
            failing: true,
            begun: Some(Isolation::Alone),
            ..AlarmEntry::at(1_700_000_060_000)
        };
        let waits = AlarmEntry {
            wait: true,
            ..AlarmEntry::at(1_700_000_060_000)
        };
        let golden = [
            (begun, include_str!("header-begun.hex")),
            (waits, include_str!("header-wait.hex")),
        ];
        for (alarm, golden) in golden {
            let header = Header {
                alarm: Some(AlarmChange::Set(alarm)),
                ..header()
            };
            assert_eq!(written(&header), golden.trim());
            let bytes = hex::decode(golden.trim()).unwrap();
            assert_eq!(Header::read(&bytes), Some(header));
        }
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
