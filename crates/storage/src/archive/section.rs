//! The sections that follow the blocks of a run, and the table that lists them. A reader ignores sections of a kind that
//! it does not know.
//!
//! The table: for each section `kind: u32, zero: u32, position in the file: u64, length: u64`, then CRC-32C of these
//! bytes: u32.

use bytes::{Buf, BufMut};

/// Bytes of a section's entry in the table.
const ENTRY_BYTES: usize = 24;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// [`super::index`]
    Index = 1,
    /// [`super::filter`]
    Filter = 2,
    /// [`super::about`]
    About = 3,
    /// [`super::page_map`]
    PageMaps = 4,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Index, Self::Filter, Self::About, Self::PageMaps];
}

/// Where a section is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// Appends the table of all sections, in the order of [`Kind::ALL`].
pub(crate) fn encode(sections: [Section; Kind::ALL.len()], out: &mut Vec<u8>) {
    let start = out.len();
    for (kind, section) in Kind::ALL.into_iter().zip(sections) {
        out.put_u32_le(kind as u32);
        out.put_u32_le(0);
        out.put_u64_le(section.at);
        out.put_u64_le(section.bytes);
    }
    let crc = crc32c::crc32c(&out[start..]);
    out.put_u32_le(crc);
}

/// Reads a table, and returns the sections in the order of [`Kind::ALL`]. `None` if it is damaged, or lacks one.
pub(crate) fn decode(table: &[u8]) -> Option<[Section; Kind::ALL.len()]> {
    let (listed, mut crc) = table.split_at_checked(table.len().checked_sub(4)?)?;
    let (entries, rest) = listed.as_chunks::<ENTRY_BYTES>();
    if crc.get_u32_le() != crc32c::crc32c(listed) || !rest.is_empty() {
        return None;
    }
    let of_kind = |kind: Kind| {
        let entry = entries
            .iter()
            .find(|entry| (&entry[..]).get_u32_le() == kind as u32)?;
        let mut fields = &entry[8..];
        Some(Section {
            at: fields.get_u64_le(),
            bytes: fields.get_u64_le(),
        })
    };
    let [index, filter, about, page_maps] = Kind::ALL.map(of_kind);
    Some([index?, filter?, about?, page_maps?])
}

/// Recomputes the checksum of a table.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(table: &mut [u8]) {
    if let Some(end) = table.len().checked_sub(4) {
        crate::fuzzing::put_crc(table, end, 0..end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> [Section; 4] {
        [(64, 100), (164, 64), (228, 17), (245, 8)].map(|(at, bytes)| Section { at, bytes })
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_any_changed_bit_is_seen() {
        let mut table = vec![];
        encode(sections(), &mut table);
        assert_eq!(table.len(), 4 * ENTRY_BYTES + 4);
        assert_eq!(decode(&table), Some(sections()));
        for at in 0..table.len() {
            table[at] ^= 2;
            assert_eq!(decode(&table), None, "byte {at}");
            table[at] ^= 2;
        }
        assert_eq!(decode(&table[1..]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn a_section_of_an_unknown_kind_is_ignored() {
        let mut table = vec![];
        encode(sections(), &mut table);
        let mut longer = vec![];
        longer.put_u32_le(77);
        longer.put_bytes(1, ENTRY_BYTES - 4);
        longer.extend_from_slice(&table[..table.len() - 4]);
        let crc = crc32c::crc32c(&longer);
        longer.put_u32_le(crc);
        assert_eq!(decode(&longer), Some(sections()));
    }
}
