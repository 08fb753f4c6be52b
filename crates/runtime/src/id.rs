//! Object ids and their derivation.
//!
//! An id is 32 bytes, shown as 64 hex digits. With the namespace's key K = SHA-256(unique key):
//!
//! ```text
//! base = first 16 bytes of HMAC-SHA-256(K, name)      for a named object
//!      | 16 random bytes                              for a unique one
//! id   = base ‖ first 16 bytes of HMAC-SHA-256(K, base)
//! ```
//!
//! The second half proves that the id belongs to the namespace, so an id sent by a client can be checked without a
//! lookup. The derivation is that of Cloudflare's open-source runtime: ids can be migrated.

use std::{fmt, str::FromStr};

use abide_storage::Shard;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::{Error, ErrorKind, Result, random::Randomness};

const HALF: usize = 16;

/// The identity of an object: 32 bytes, shown as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 2 * HALF]);

impl ObjectId {
    pub(crate) const fn from_bytes(bytes: [u8; 2 * HALF]) -> Self {
        Self(bytes)
    }

    /// The id of the object with this name in the namespace with this unique key. Needs no node.
    pub fn from_name(unique_key: &str, name: &str) -> Self {
        IdKey::new(unique_key).named(name)
    }

    /// Returns whether it is an id of the namespace with this unique key. Needs no node.
    pub fn is_of(&self, unique_key: &str) -> bool {
        IdKey::new(unique_key).owns(self)
    }

    /// The id's bytes.
    pub const fn as_bytes(&self) -> &[u8; 2 * HALF] {
        &self.0
    }

    /// Returns whether this is an id of the namespace with this unique key. Needs no node.
    pub fn belongs_to(&self, unique_key: &str) -> bool {
        IdKey::new(unique_key).owns(self)
    }

    /// Which of `workers` workers this object is on: all objects of a shard are on one. Ids are uniform in their first
    /// half.
    pub(crate) fn worker(&self, workers: usize) -> usize {
        usize::from(Shard::of(&self.0).get()) % workers
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 4 * HALF];
        hex::encode_to_slice(self.0, &mut text).map_err(|_| fmt::Error)?;
        f.pad(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl FromStr for ObjectId {
    type Err = Error;

    /// Parses 64 hex digits. [`Namespace::parse_id`](crate::Namespace::parse_id) also checks that the id
    /// belongs to the namespace.
    fn from_str(text: &str) -> Result<Self> {
        let mut bytes = [0; 2 * HALF];
        hex::decode_to_slice(text, &mut bytes).map_err(|error| match error {
            hex::FromHexError::InvalidHexCharacter { .. } => {
                invalid(text, "it contains other characters")
            }
            _ => invalid(text, &format!("it has {} characters", text.chars().count())),
        })?;
        Ok(Self(bytes))
    }
}

fn invalid(text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(80).collect();
    Error::with_kind(
        ErrorKind::Input,
        format!(
            "`{}` is not an object id: an id has 64 hex digits, but {why}",
            shown.escape_debug()
        ),
    )
}

/// The key of a namespace for deriving ids: HMAC-SHA-256 keyed with SHA-256 of the unique key.
#[derive(Clone)]
pub(crate) struct IdKey(Hmac<Sha256>);

impl IdKey {
    pub(crate) fn new(unique_key: &str) -> Self {
        let key = Sha256::digest(unique_key.as_bytes());
        Self(Hmac::new_from_slice(&key).expect("HMAC takes a key of any length"))
    }

    pub(crate) fn named(&self, name: &str) -> ObjectId {
        self.seal(self.tag(name.as_bytes()))
    }

    pub(crate) fn unique(&self, randomness: &dyn Randomness) -> ObjectId {
        let mut base = [0; HALF];
        randomness.fill(&mut base);
        self.seal(base)
    }

    pub(crate) fn owns(&self, id: &ObjectId) -> bool {
        self.tag(&id.0[..HALF]) == id.0[HALF..]
    }

    fn seal(&self, base: [u8; HALF]) -> ObjectId {
        let mut id = [0; 2 * HALF];
        id[..HALF].copy_from_slice(&base);
        id[HALF..].copy_from_slice(&self.tag(&base));
        ObjectId(id)
    }

    fn tag(&self, message: &[u8]) -> [u8; HALF] {
        let mut mac = self.0.clone();
        mac.update(message);
        let mut tag = [0; HALF];
        tag.copy_from_slice(&mac.finalize().into_bytes()[..HALF]);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandomness;

    #[test]
    fn the_derivation_matches_its_published_vector() {
        let id = IdKey::new("mykey").named("http://foo/");
        assert_eq!(
            id.to_string(),
            "59002eb8cf872e541722977a258a12d6a93bbe8192b502e1c0cb250aa91af234"
        );
    }

    #[test]
    fn a_namespace_knows_its_own_ids_and_no_other() {
        let (ours, theirs) = (IdKey::new("ours"), IdKey::new("theirs"));
        let unique = ours.unique(&SeededRandomness::new(1));
        assert!(ours.owns(&unique) && ours.owns(&ours.named("a")));
        assert!(!theirs.owns(&unique) && !theirs.owns(&ours.named("a")));
    }

    #[test]
    fn an_id_survives_its_text_form_in_either_case() {
        let id = IdKey::new("k").named("n");
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert_eq!(
            id.to_string().to_uppercase().parse::<ObjectId>().unwrap(),
            id
        );
    }

    #[test]
    fn bad_text_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "has 0 characters"),
            ("abc", "has 3 characters"),
            (&"g".repeat(64), "other characters"),
        ] {
            let error = text.parse::<ObjectId>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!("é".repeat(32).parse::<ObjectId>().is_err());
    }
}
