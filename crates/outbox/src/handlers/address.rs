//! Names of destinations.

use abide_component::texts::cut;
use sha2::{Digest, Sha256};

pub(super) use abide_component::address::{origin, target, uri, without_query};

use crate::limits::MAX_DESTINATION_BYTES;

/// A name for a URL that distinguishes it from others of its origin without showing its query, which may be secret.
pub(super) fn endpoint(url: &str) -> String {
    let shown = without_query(url);
    if shown.len() == url.len() && url.len() <= MAX_DESTINATION_BYTES {
        return url.to_owned();
    }
    let hash = Sha256::digest(url);
    let tail = hex::encode(&hash[..8]);
    let room = MAX_DESTINATION_BYTES - tail.len() - "#".len();
    format!("{}#{tail}", cut(shown.to_owned(), room))
}
