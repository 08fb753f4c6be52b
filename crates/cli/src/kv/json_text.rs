//! A JSON value as its text.
//!
//! Contract: no tree is built from a client's JSON, since that can take a hundred times the length of the text. The
//! text is checked and kept unchanged; in storage and in calls, which use CBOR, it is a byte string. Values stored as
//! other CBOR types, which are never byte strings, can be read, too.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{
        self, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// Any JSON.
#[derive(Clone, Debug)]
pub(crate) struct JsonText(Box<RawValue>);

impl JsonText {
    pub(crate) fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.0.serialize(serializer)
        } else {
            serializer.serialize_bytes(self.0.get().as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Box::<RawValue>::deserialize(deserializer).map(Self)
        } else {
            deserializer.deserialize_any(FromCbor)
        }
    }
}

struct FromCbor;

/// The JSON text of a value stored as CBOR.
fn text<E: de::Error>(value: &impl Serialize) -> Result<JsonText, E> {
    to_raw_value(value).map(JsonText).map_err(E::custom)
}

impl<'de> Visitor<'de> for FromCbor {
    type Value = JsonText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<JsonText, E> {
        let text = String::from_utf8(bytes).map_err(E::custom)?;
        RawValue::from_string(text).map(JsonText).map_err(E::custom)
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<JsonText, E> {
        self.visit_byte_buf(bytes.to_vec())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<JsonText, E> {
        text(&value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<JsonText, E> {
        text(&value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<JsonText, E> {
        text(&value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<JsonText, E> {
        text(&value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<JsonText, E> {
        text(&value)
    }

    fn visit_unit<E: de::Error>(self) -> Result<JsonText, E> {
        text(&())
    }

    fn visit_none<E: de::Error>(self) -> Result<JsonText, E> {
        text(&())
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<JsonText, D::Error> {
        value.deserialize_any(self)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, values: A) -> Result<JsonText, A::Error> {
        text(&Value::deserialize(SeqAccessDeserializer::new(values))?)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, entries: A) -> Result<JsonText, A::Error> {
        text(&Value::deserialize(MapAccessDeserializer::new(entries))?)
    }
}

#[cfg(test)]
mod tests {
    use abide_storage::cbor;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_stays_as_it_was_written() {
        for text in [
            "{ \"b\": 1.50,\n \"a\":[ ] }",
            "null",
            "\"é\\u00e9\"",
            "12345678901234567890123",
        ] {
            let read: JsonText = serde_json::from_str(text).unwrap();
            let stored = cbor::to_vec(&read).unwrap();
            let read: JsonText = cbor::from_slice(&stored).unwrap();
            assert_eq!(read.as_str(), text);
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
        assert!(serde_json::from_str::<JsonText>("{\"a\":}").is_err());
    }

    #[test]
    fn a_value_that_was_stored_as_cbor_is_read() {
        for value in [
            json!(null),
            json!(true),
            json!("text"),
            json!(-7),
            json!(u64::MAX),
            json!(1.5),
            json!([1, [], { "a": null }]),
            json!({ "a": { "b": [true] } }),
        ] {
            let stored = cbor::to_vec(&value).unwrap();
            let read: JsonText = cbor::from_slice(&stored).unwrap();
            let read: Value = serde_json::from_str(read.as_str()).unwrap();
            assert_eq!(read, value);
        }
    }
}
