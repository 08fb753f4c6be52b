//! The section with the page maps of a run, and the list at its beginning.

use super::PageMap;
use crate::archive::block::Packer;
use crate::ident::ObjectKey;
use bytes::{Buf, BufMut};
use std::io;

/// Bytes before the list.
pub(crate) const LIST_HEADER: usize = 8;
/// Bytes of a map in the list.
const LISTED: usize = 52;

/// A map in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: ObjectKey,
    /// In the section.
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    /// Of its hot pages, which follow it.
    pub(crate) hot_bytes: u32,
}

/// Appends the section.
pub(super) fn encode(
    maps: &[(ObjectKey, PageMap)],
    packer: &mut Packer,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let list = LIST_HEADER + maps.len() * LISTED;
    let (mut listed, mut data) = (Vec::with_capacity(list), Vec::new());
    listed.put_u32_le(0);
    listed.put_u32_le(maps.len() as u32);
    for (key, map) in maps {
        let at = data.len();
        map.encode(packer, &mut data)?;
        let hot = data.len();
        map.hot.encode(packer, &mut data)?;
        key.encode(&mut listed);
        listed.put_u64_le((list + at) as u64);
        listed.put_u32_le((hot - at) as u32);
        listed.put_u32_le((data.len() - hot) as u32);
    }
    let crc = crc32c::crc32c(&listed[4..]);
    (&mut listed[..]).put_u32_le(crc);
    out.extend_from_slice(&listed);
    out.extend_from_slice(&data);
    Ok(())
}

/// The length of the list, with what is before it, from the beginning of a section. `None` if it is too short.
pub(crate) fn list_bytes(header: &[u8]) -> Option<usize> {
    let mut fields = header.get(4..LIST_HEADER)?;
    let list = (fields.get_u32_le() as usize).checked_mul(LISTED)?;
    list.checked_add(LIST_HEADER)
}

/// Reads the list, with what is before it. `None` if it is damaged.
pub(crate) fn decode_list(bytes: &[u8]) -> Option<Vec<Listed>> {
    let mut fields = bytes;
    let crc = fields.try_get_u32_le().ok()?;
    if crc != crc32c::crc32c(fields) {
        return None;
    }
    let (listed, rest) = fields.get(4..)?.as_chunks::<LISTED>();
    let listed = listed.iter().map(|listed| {
        let mut fields = &listed[..];
        Some(Listed {
            key: ObjectKey::decode(&mut fields)?,
            at: fields.get_u64_le(),
            bytes: fields.get_u32_le(),
            hot_bytes: fields.get_u32_le(),
        })
    });
    let listed: Vec<_> = listed.collect::<Option<_>>()?;
    (rest.is_empty() && list_bytes(bytes)? == bytes.len()).then_some(listed)
}

/// The entry of an object in the list.
pub(crate) fn find(list: &[Listed], key: ObjectKey) -> Option<&Listed> {
    let place = list.binary_search_by_key(&key, |listed| listed.key).ok()?;
    list.get(place)
}

/// Recomputes the checksums of a section.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(section: &mut [u8]) {
    let Some(end) = list_bytes(section).filter(|end| *end <= section.len()) else {
        return;
    };
    crate::fuzzing::put_crc(section, 0, 4..end);
    let mut at = end;
    while let Some(length) = section.get_mut(at..).and_then(crate::archive::block::seal) {
        at += length;
    }
}
