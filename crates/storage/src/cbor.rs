//! The encoding of all values: CBOR (RFC 8949) through serde. Key-value values, RPC arguments and results use it, which
//! makes them readable in other languages. Structs are maps with text keys, enums use serde's external tagging, and
//! bytes are byte strings where the type requests it (`serde_bytes`). Decoding bounds the nesting, and ignores bytes after
//! the value.

use crate::error::{Error, ErrorKind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Capacity that an encoded value may have beyond twice its length.
const SPARE_BYTES: usize = 64;

/// Encodes a value. Its capacity is at most 64 bytes more than twice its length.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = cbor2::to_vec(value)
        .map_err(|error| Error::input(format!("the value cannot be encoded as CBOR: {error}")))?;
    // `cbor2` reserves four bytes for each element, and what waits is accounted by its capacity.
    if bytes.capacity() > 2 * bytes.len() + SPARE_BYTES {
        bytes.shrink_to_fit();
    }
    Ok(bytes)
}

/// Decodes a value.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    cbor2::from_slice(bytes).map_err(|error| {
        let name = std::any::type_name::<T>();
        Error::new(
            ErrorKind::Decode,
            format!("the stored value is not a {name}: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Named(String, Option<i64>),
    }

    #[test]
    fn values_of_every_kind_survive() {
        for shape in [
            Shape::Point,
            Shape::Circle { radius: 1.5 },
            Shape::Named("é".to_owned(), Some(i64::MIN)),
        ] {
            assert_eq!(
                from_slice::<Shape>(&to_vec(&shape).unwrap()).unwrap(),
                shape
            );
        }
        let map = BTreeMap::from([("a".to_owned(), u64::MAX)]);
        assert_eq!(
            from_slice::<BTreeMap<String, u64>>(&to_vec(&map).unwrap()).unwrap(),
            map
        );
        let bytes = serde_bytes::ByteBuf::from(vec![0, 255]);
        assert_eq!(to_vec(&bytes).unwrap(), [0x42, 0, 255]);
        assert_eq!(to_vec(&()).unwrap(), [0xf6], "unit is null");
        assert_eq!(from_slice::<()>(&[0xf6]).unwrap(), ());
        let json = serde_json::json!({"a": null, "b": [1, -2.5, true, "x"], "c": {}});
        assert_eq!(
            from_slice::<serde_json::Value>(&to_vec(&json).unwrap()).unwrap(),
            json
        );
    }

    #[test]
    fn an_encoded_value_takes_hardly_more_memory_than_its_length() {
        for count in [0, 1, 20, 1_000, 100_000] {
            let bytes = to_vec(&vec![0_u8; count]).unwrap();
            assert!(bytes.capacity() <= 2 * bytes.len() + SPARE_BYTES);
        }
    }

    #[test]
    fn a_value_of_another_type_says_so() {
        let error = from_slice::<u32>(&to_vec("text").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        assert!(error.to_string().contains("u32"), "{error}");
    }
}
