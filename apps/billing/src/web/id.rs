//! Ids of resources, and idempotency keys.

use abide::server::ApiError;
use sha2::{Digest, Sha256};

/// Maximum length of an id.
const MAX_ID: usize = 120;

/// The id of a new resource. It is determined by the idempotency key, if there is one, so a repeated request reaches
/// the same object.
#[allow(
    clippy::disallowed_methods,
    reason = "it is created before an object is called"
)]
pub(super) fn fresh(prefix: &str, key: Option<&str>) -> Result<String, ApiError> {
    let mut bytes = [0; size_of::<u128>()];
    match key {
        Some(key) => {
            let hash = Sha256::digest(format!("{prefix}\n{key}"));
            bytes.copy_from_slice(&hash[..size_of::<u128>()]);
        }
        None => getrandom::fill(&mut bytes).map_err(|error| {
            ApiError::from(abide::Error::new(format!(
                "no randomness is available: {error}"
            )))
        })?,
    }
    Ok(format!("{prefix}_{:032x}", u128::from_be_bytes(bytes)))
}

/// Rejects text that cannot be the id of a resource with this prefix.
pub(super) fn check(prefix: &str, id: &str) -> Result<(), ApiError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let rest = id.strip_prefix(prefix).and_then(|id| id.strip_prefix('_'));
    if id.len() <= MAX_ID && id.bytes().all(is_plain) && rest.is_some_and(|rest| !rest.is_empty()) {
        return Ok(());
    }
    Err(ApiError::not_found(
        "not_found",
        format!("There is no such resource: its id begins with `{prefix}_`."),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gives_the_same_id_for_the_same_kind_and_chance_never() {
        let fresh = |prefix, key| fresh(prefix, key).unwrap();
        assert_eq!(fresh("sub", Some("a")), fresh("sub", Some("a")));
        assert_ne!(fresh("sub", Some("a")), fresh("sub", Some("b")));
        assert_ne!(fresh("sub", Some("a"))[4..], fresh("cus", Some("a"))[4..]);
        assert_ne!(fresh("sub", None), fresh("sub", None));
        check("sub", &fresh("sub", None)).unwrap();
    }

    #[test]
    fn what_is_no_id_is_not_asked_for() {
        for wrong in [
            "",
            "sub",
            "sub_",
            "cus_1",
            "sub_a/b",
            "sub_é",
            &"sub_".repeat(40),
        ] {
            assert!(check("sub", wrong).is_err(), "{wrong}");
        }
    }
}
