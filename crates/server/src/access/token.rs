//! Tokens: `abide_ID_SECRET`.
//!
//! The secret is 32 random bytes, so a plain SHA-256 is sufficient: a slow hash would not make it harder to guess. The
//! id is not secret; it identifies the token in lists and in the audit log.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Role;

const PREFIX: &str = "abide_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// A token to create. Call [`NewToken::new`], then set fields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewToken {
    /// The role of its holder.
    pub role: Role,
    /// Restricts it to objects whose `Class/name` begins with this prefix.
    pub object_prefix: Option<String>,
    /// How long it is valid; `None` until it is revoked.
    pub lifetime: Option<Duration>,
    /// A label for people, such as its owner.
    pub label: Option<String>,
}

impl NewToken {
    /// A token for every object, valid until it is revoked.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            object_prefix: None,
            lifetime: None,
            label: None,
        }
    }
}

impl From<Role> for NewToken {
    /// [`NewToken::new`].
    fn from(role: Role) -> Self {
        Self::new(role)
    }
}

/// A token as it is stored, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    /// Identifies the token; not secret.
    pub id: String,
    /// The role of its holder.
    pub role: Role,
    /// Restricts it to objects whose `Class/name` begins with this prefix.
    pub object_prefix: Option<String>,
    /// A label for people, such as its owner.
    pub label: Option<String>,
    /// When it was created.
    pub created: SystemTime,
    /// When it expires.
    pub expires: Option<SystemTime>,
    /// When it was revoked.
    pub revoked: Option<SystemTime>,
}

impl Token {
    /// The remaining validity; `None` if it is not valid.
    pub(super) fn rest(&self, now: SystemTime) -> Option<Duration> {
        match (self.revoked, self.expires) {
            (Some(_), _) => None,
            (None, None) => Some(Duration::MAX),
            (None, Some(end)) => end.duration_since(now).ok().filter(|rest| !rest.is_zero()),
        }
    }
}

/// A new token with its text, which is shown once and stored nowhere.
#[derive(Clone)]
#[non_exhaustive]
pub struct CreatedToken {
    /// The token.
    pub token: Token,
    /// The text that its holder sends: `Authorization: Bearer TEXT`.
    pub text: String,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// SHA-256 of a secret.
#[derive(Clone, Copy)]
pub(super) struct SecretHash(pub(super) [u8; 32]);

impl SecretHash {
    fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Whether this is the secret's hash. Constant time.
    pub(super) fn is_of(&self, secret: &[u8]) -> bool {
        self.0.ct_eq(&Self::of(secret).0).into()
    }
}

/// A new id and secret: the id, the text of the token, and the hash to store.
pub(super) fn generate() -> (String, String, SecretHash) {
    let mut id = [0; ID_BYTES];
    let mut secret = [0; SECRET_BYTES];
    for bytes in [&mut id[..], &mut secret[..]] {
        getrandom::fill(bytes).expect("the operating system has random bytes");
    }
    let id = hex::encode(id);
    let text = format!("{PREFIX}{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret));
    (id, text, SecretHash::of(&secret))
}

/// The id and the secret of a token's text.
pub(super) fn parse(text: &str) -> Option<(&str, Vec<u8>)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let secret = BASE64_URL_SAFE_NO_PAD.decode(secret).ok()?;
    (id.len() == 2 * ID_BYTES && secret.len() == SECRET_BYTES).then_some((id, secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_token_reads_as_its_id_and_secret() {
        for _ in 0..100 {
            let (id, text, hash) = generate();
            let (read, secret) = parse(&text).unwrap();
            assert_eq!(read, id);
            assert!(hash.is_of(&secret));
            assert!(!hash.is_of(b"another"));
        }
        let (_, text, _) = generate();
        for wrong in [
            "",
            "abide_",
            "abide__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}A"),
            &text.replace('_', "-"),
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
