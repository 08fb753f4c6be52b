//! The encoding, beside another implementation of CBOR.

mod item;
mod node;
mod target;

use std::{collections::BTreeMap, fmt::Debug, net::IpAddr, time::Duration};

use abide_storage::{ErrorKind, cbor};
use proptest::{collection::vec, prelude::*};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_bytes::ByteBuf;

use item::{damaged, item};
use node::node;
use target::{
    Adjacent, Enum, Fields, Flat, Internal, Newtype, Seen, Strict, Unit, Untagged, Value, value,
};

/// What both decode is the same.
fn agree<T: DeserializeOwned + Debug>(bytes: &[u8]) {
    let ours = cbor::from_slice::<T>(bytes);
    let theirs = ciborium::from_reader::<T, _>(bytes);
    if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{bytes:02x?}");
    }
}

macro_rules! agree {
    ($bytes:expr; $($target:ty),* $(,)?) => {
        $(agree::<$target>($bytes);)*
    };
}

fn agree_on_all(bytes: &[u8]) {
    agree!(bytes; bool, u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, char);
    agree!(bytes; String, ByteBuf, Vec<u8>, Vec<u64>, Vec<Seen>, [u8; 2], (Seen,), (Seen, Seen));
    agree!(bytes; (), Unit, Newtype, Option<Option<u64>>, Result<u64, String>, Duration, IpAddr);
    agree!(bytes; BTreeMap<String, Seen>, BTreeMap<i64, Seen>, BTreeMap<bool, Seen>);
    agree!(bytes; Fields, Flat, Strict, Enum, Vec<Enum>, Untagged, Internal, Adjacent, Value);
    agree!(bytes; Seen, serde_json::Value, IgnoredAny);
}

fn theirs(value: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_value_has_the_bytes_of_another_implementation(node in node()) {
        let bytes = cbor::to_vec(&node).unwrap();
        prop_assert_eq!(&bytes, &theirs(&node));
        let ours: Seen = cbor::from_slice(&bytes).unwrap();
        prop_assert_eq!(ours, ciborium::from_reader::<Seen, _>(&*bytes).unwrap());
        agree_on_all(&bytes);
    }

    #[test]
    fn typed_values_survive_here_and_in_another_implementation(value in value()) {
        let bytes = cbor::to_vec(&value).unwrap();
        prop_assert_eq!(&bytes, &theirs(&value));
        prop_assert_eq!(&cbor::from_slice::<Value>(&bytes).unwrap(), &value);
        prop_assert_eq!(&ciborium::from_reader::<Value, _>(&*bytes).unwrap(), &value);
    }

    #[test]
    fn all_forms_of_cbor_are_read_as_by_another_implementation(bytes in item()) {
        agree_on_all(&bytes);
    }

    #[test]
    fn damaged_cbor_is_never_read_as_another_value(bytes in prop_oneof![damaged(), vec(any::<u8>(), 0..16)]) {
        agree_on_all(&bytes);
    }
}

fn refused<T: DeserializeOwned + Debug>(bytes: &[u8]) -> String {
    let error = cbor::from_slice::<T>(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
    error.to_string()
}

/// This many arrays, maps or tags around a null.
fn nested(opening: &[u8], closing: &[u8], depth: usize) -> Vec<u8> {
    [opening.repeat(depth), vec![0xf6], closing.repeat(depth)].concat()
}

#[test]
fn nesting_is_bounded() {
    let containers: [(&[u8], &[u8]); 4] = [
        (&[0x81], &[]),
        (&[0x9f], &[0xff]),
        (&[0xa1, 0x00], &[]),
        (&[0xbf, 0x00], &[0xff]),
    ];
    for (opening, closing) in containers {
        let deep = nested(opening, closing, 250);
        let _: Seen = cbor::from_slice(&deep).unwrap();
        let _: IgnoredAny = cbor::from_slice(&deep).unwrap();
        for depth in [257, 1_000_000] {
            let deeper = nested(opening, closing, depth);
            assert!(refused::<Seen>(&deeper).contains("recursion limit"));
            assert!(refused::<IgnoredAny>(&deeper).contains("recursion limit"));
        }
    }
    let tags = nested(&[0xc6], &[], 1_000_000);
    assert!(refused::<IgnoredAny>(&tags).contains("recursion limit"));
}

#[test]
fn a_length_beyond_the_input_is_refused() {
    for major in [0x5b, 0x7b, 0x9b, 0xbb] {
        for length in [5, 1_u64 << 40, u64::MAX] {
            let bytes = [&[major][..], &length.to_be_bytes(), &[0; 4]].concat();
            refused::<Seen>(&bytes);
            refused::<IgnoredAny>(&bytes);
            refused::<Vec<u64>>(&bytes);
            refused::<ByteBuf>(&bytes);
            refused::<String>(&bytes);
            refused::<BTreeMap<u64, u64>>(&bytes);
        }
    }
}

#[test]
fn elements_that_the_type_does_not_have_are_refused() {
    let three = cbor::to_vec(&(1, 2, 3)).unwrap();
    refused::<(u8, u8)>(&three);
    refused::<[u8; 2]>(&cbor::to_vec(&ByteBuf::from([1, 2, 3])).unwrap());
    refused::<(u8, u8, u8, u8)>(&three);
}

#[test]
fn a_variant_with_another_content_is_refused() {
    refused::<Enum>(&cbor::to_vec(&BTreeMap::from([("Unit", 1)])).unwrap());
    refused::<Enum>(&cbor::to_vec("New").unwrap());
    refused::<Enum>(&cbor::to_vec(&BTreeMap::from([("Fields", (1, 2))])).unwrap());
}

#[test]
fn keys_and_texts_of_any_length_are_read() {
    let long = "k".repeat(10_000);
    let json = serde_json::json!({ &long: &long });
    let bytes = cbor::to_vec(&json).unwrap();
    assert_eq!(cbor::from_slice::<serde_json::Value>(&bytes).unwrap(), json);
}

#[test]
fn a_field_twice_is_refused_and_of_a_key_twice_the_last_counts() {
    let twice = [0xa2, 0x61, b'a', 0x01, 0x61, b'a', 0x02];
    assert!(refused::<Fields>(&twice).contains("duplicate field"));
    let map: BTreeMap<String, u8> = cbor::from_slice(&twice).unwrap();
    assert_eq!(map, BTreeMap::from([("a".to_owned(), 2)]));
}
