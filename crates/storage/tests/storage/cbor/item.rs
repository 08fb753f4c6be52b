//! CBOR in any form that the RFC allows, and with faults.

use proptest::{collection::vec, option, prelude::*};

use super::node::{bytes, index, magnitude, name, text};

/// The header of an item, with a length of any width.
fn header(major: u8, number: u64, width: u8) -> Vec<u8> {
    let major = major << 5;
    match (width % 5, number) {
        (0, 0..24) => vec![major | number as u8],
        (0 | 1, 0..0x100) => vec![major | 0x18, number as u8],
        (0..=2, 0..0x1_0000) => [&[major | 0x19][..], &(number as u16).to_be_bytes()].concat(),
        (0..=3, 0..0x1_0000_0000) => [&[major | 0x1a][..], &(number as u32).to_be_bytes()].concat(),
        _ => [&[major | 0x1b][..], &number.to_be_bytes()].concat(),
    }
}

fn item_of(major: u8, width: u8, count: usize, content: &[Vec<u8>], indefinite: bool) -> Vec<u8> {
    let content = content.concat();
    if indefinite {
        return [&[major << 5 | 0x1f][..], &content, &[0xff]].concat();
    }
    [header(major, count as u64, width), content].concat()
}

/// One item: with lengths wider than needed, indefinite ones, tags, simple values, and names that the targets know.
pub(crate) fn item() -> impl Strategy<Value = Vec<u8>> {
    let width = || any::<u8>();
    let number = || magnitude().prop_map(|number| number as u64);
    let string = move |major: u8| {
        let content = prop_oneof![
            index().prop_map(|index| name(index).as_bytes().to_vec()),
            text().prop_map(String::into_bytes),
            bytes(),
        ];
        (content, any::<u8>()).prop_map(move |(content, width)| {
            [header(major, content.len() as u64, width), content].concat()
        })
    };
    let segmented = move |major: u8| {
        vec(string(major), 0..3).prop_map(move |parts| item_of(major, 0, 0, &parts, true))
    };
    let leaf = prop_oneof![
        (0..2_u8, number(), width())
            .prop_map(|(major, number, width)| header(major, number, width)),
        (2..4_u8).prop_flat_map(string),
        Just(3_u8).prop_flat_map(string),
        (2..4_u8).prop_flat_map(segmented),
        (0xe0..=0xf8_u8).prop_map(|simple| if simple == 0xf8 {
            vec![0xf8, 0x20]
        } else {
            vec![simple]
        }),
        (0xf4..=0xf7_u8).prop_map(|simple| vec![simple]),
        any::<[u8; 2]>().prop_map(|bits| [&[0xf9][..], &bits].concat()),
        any::<[u8; 4]>().prop_map(|bits| [&[0xfa][..], &bits].concat()),
        any::<[u8; 8]>().prop_map(|bits| [&[0xfb][..], &bits].concat()),
        (2..4_u8, vec(any::<u8>(), 0..18), 0..3_usize).prop_map(|(tag, bytes, zeros)| {
            let bytes = [vec![0; zeros], bytes].concat();
            [vec![0xc0 | tag], header(2, bytes.len() as u64, 0), bytes].concat()
        }),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let many = vec(inner.clone(), 0..5);
        prop_oneof![
            3 => (many.clone(), width(), option::weighted(0.2, Just(())))
                .prop_map(|(values, width, indefinite)| {
                    item_of(4, width, values.len(), &values, indefinite.is_some())
                }),
            3 => (vec((inner.clone(), inner.clone()), 0..5), width(), option::weighted(0.2, Just(())))
                .prop_map(|(entries, width, indefinite)| {
                    let count = entries.len();
                    let content: Vec<_> = entries.into_iter().map(|(key, value)| [key, value].concat()).collect();
                    item_of(5, width, count, &content, indefinite.is_some())
                }),
            2 => (vec((index(), inner.clone()), 0..4), option::weighted(0.2, Just(())))
                .prop_map(|(entries, indefinite)| {
                    let count = entries.len();
                    let content: Vec<_> = entries
                        .into_iter()
                        .map(|(key, value)| [header(3, name(key).len() as u64, 0), name(key).into(), value].concat())
                        .collect();
                    item_of(5, 0, count, &content, indefinite.is_some())
                }),
            1 => (number(), width(), inner).prop_map(|(tag, width, value)| [header(6, tag, width), value].concat()),
        ]
    })
}

/// An item with a fault: a byte changed, removed or added, or the end cut off.
pub(crate) fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (item(), any::<prop::sample::Index>(), any::<u8>(), 0..4_u8).prop_map(
        |(mut bytes, at, byte, how)| {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
            bytes
        },
    )
}
