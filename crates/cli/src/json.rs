//! A JSON value that keeps its nulls in CBOR.
//!
//! Serde calls JSON's null a unit, which CBOR stores as an empty array; read back it would be one. Here it is CBOR's null.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A JSON value on its way through CBOR.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Json(pub(crate) Value);

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Ref(&self.0).serialize(serializer)
    }
}

struct Ref<'a>(&'a Value);

impl Serialize for Ref<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_none(),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ref)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Ref(value))))
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => self.0.serialize(serializer),
        }
    }
}
