//! Metadata: what somebody else wants to know of a resource.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Refusal;

/// Keys of a resource, at most.
const MAX_KEYS: usize = 50;

/// Characters of a key, at most.
const MAX_KEY: usize = 40;

/// Characters of a value, at most.
const MAX_VALUE: usize = 500;

/// Bytes of all keys and values, at most: a resource's row of the read model has room for the rest of it.
const MAX_BYTES: usize = 16 << 10;

/// Texts by their keys, which the engine keeps and does not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(pub BTreeMap<String, String>);

/// What `annotate` says: texts by their keys; without a text a key goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Annotation(pub BTreeMap<String, Option<String>>);

impl Annotation {
    /// Refuses what is too much.
    pub fn check(&self) -> Result<(), Refusal> {
        for (key, value) in &self.0 {
            let is_key = (1..=MAX_KEY).contains(&key.chars().count());
            let value = value.as_deref().unwrap_or_default();
            if !is_key || value.chars().count() > MAX_VALUE {
                return Err(Refusal::invalid(format!(
                    "A key of metadata has 1 to {MAX_KEY} characters, and a value at most {MAX_VALUE}; “{key}” has not."
                )));
            }
        }
        Ok(())
    }
}

impl Metadata {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn may_take(&self, annotation: &Annotation) -> Result<(), Refusal> {
        annotation.check()?;
        let mut after = self.clone();
        after.take(annotation.clone());
        let bytes: usize = after
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if after.0.len() > MAX_KEYS || bytes > MAX_BYTES {
            return Err(Refusal::invalid(format!(
                "A resource has at most {MAX_KEYS} keys of metadata, and {MAX_BYTES} bytes."
            )));
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, annotation: Annotation) {
        for (key, value) in annotation.0 {
            match value {
                Some(value) => drop(self.0.insert(key, value)),
                None => drop(self.0.remove(&key)),
            }
        }
    }
}
