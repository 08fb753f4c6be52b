//! What a screen or a player proves itself with after a reload.
//!
//! Contract: a room stores the digest of a secret, never the secret. A client sends its secret as a WebSocket subprotocol, since
//! addresses end up in logs and browsers let pages set no other header.

use std::fmt;

use abide::{Env, http::HeaderMap};
use sha2::{Digest, Sha256};

/// The subprotocol that the server answers with.
pub(crate) const PROTOCOL: &str = "blips";

/// What the subprotocol with the secret begins with.
const PREFIX: &str = "secret.";

/// Hex digits of a secret.
const DIGITS: usize = 32;

/// 128 bits that no one else knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(u128);

impl Secret {
    /// A new one.
    pub fn random(env: &Env) -> Self {
        let mut bytes = [0; 16];
        env.fill_random(&mut bytes);
        Self(u128::from_be_bytes(bytes))
    }

    /// The secret in the header `Sec-WebSocket-Protocol`.
    pub(crate) fn offered(headers: &HeaderMap) -> Option<Self> {
        headers
            .get_all("sec-websocket-protocol")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .find_map(|offer| Self::parse(offer.trim().strip_prefix(PREFIX)?))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    /// What a room remembers of it: its SHA-256 in hex. Comparing digests tells an attacker nothing about the secret.
    pub fn digest(self) -> String {
        let digest = Sha256::digest(self.0.to_be_bytes());
        hex::encode(digest)
    }

    /// The secret in hex, for its owner.
    pub fn reveal(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_among_the_offered_protocols() {
        let offered = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("sec-websocket-protocol", value.parse().expect("a header"));
            Secret::offered(&headers).map(Secret::reveal)
        };
        let text = "0123456789abcdef0123456789abcdef";
        assert_eq!(
            offered(&format!("blips, secret.{text}")).as_deref(),
            Some(text)
        );
        for bad in [
            "blips".to_owned(),
            text.to_owned(),
            "secret.0123".to_owned(),
            format!("secret.+{}", &text[1..]),
            format!("secret.{text}0"),
        ] {
            assert_eq!(offered(&bad), None, "{bad}");
        }
    }

    #[test]
    fn secret_is_shown_neither_by_its_digest_nor_by_debug() {
        let secret = Secret(7);
        assert_eq!(secret.digest().len(), 64);
        assert!(!secret.digest().contains(&secret.reveal()));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }
}
