//! Metadata in JSON, at creation and later.

use abide::server::StrictJson;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::{Map, Value};

use crate::states::Annotation;

/// A body with an optional `metadata` field.
pub(super) struct Annotated<T> {
    pub(super) new: T,
    pub(super) metadata: Annotation,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Annotated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let metadata = fields
            .remove("metadata")
            .unwrap_or_else(|| Map::new().into());
        let metadata = Annotation::deserialize(metadata)
            .map_err(|error| D::Error::custom(format!("metadata: {error}")))?;
        let new = StrictJson(Value::Object(fields));
        let new = T::deserialize(new).map_err(D::Error::custom)?;
        Ok(Self { new, metadata })
    }
}
