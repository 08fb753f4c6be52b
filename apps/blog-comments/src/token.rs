//! Signed tokens for the links in mails and the owner's session.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of the signature that are kept: enough to prevent guessing.
const SIGNATURE: usize = 16;

/// A subscription: its token ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) post: i64,
    pub(crate) member: i64,
}

impl Subscription {
    /// `POST.MEMBER.SIGNATURE`.
    pub(crate) fn token(self, secret: &[u8]) -> String {
        sign("unsubscribe", [self.post, self.member], secret)
    }

    /// The subscription that a token was made for.
    pub(crate) fn of(token: &str, secret: &[u8]) -> Option<Self> {
        let [post, member] = verify("unsubscribe", token, secret)?;
        Some(Self { post, member })
    }
}

/// A member's address: its token confirms the subscriptions that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmation {
    pub(crate) member: i64,
    /// When the token expires, in milliseconds since 1970.
    pub(crate) until: i64,
}

impl Confirmation {
    /// `MEMBER.UNTIL.SIGNATURE`.
    pub(crate) fn token(self, secret: &[u8]) -> String {
        sign("confirm", [self.member, self.until], secret)
    }

    /// The confirmation that a token was made for.
    pub(crate) fn of(token: &str, secret: &[u8]) -> Option<Self> {
        let [member, until] = verify("confirm", token, secret)?;
        Some(Self { member, until })
    }
}

/// A session token for a browser that has sent the owner's token, signed with that: `0.UNTIL.SIGNATURE`.
pub(crate) fn session(until: i64, owner: &str) -> String {
    sign("session", [0, until], owner.as_bytes())
}

/// When a session token expires.
pub(crate) fn session_until(token: &str, owner: &str) -> Option<i64> {
    let [_, until] = verify("session", token, owner.as_bytes())?;
    Some(until)
}

fn sign(purpose: &str, numbers: [i64; 2], secret: &[u8]) -> String {
    let signature = mac(purpose, numbers, secret).finalize().into_bytes();
    let [one, other] = numbers;
    let signature = URL_SAFE_NO_PAD.encode(&signature[..SIGNATURE]);
    format!("{one}.{other}.{signature}")
}

/// The signed numbers. Constant time for every wrong signature.
fn verify(purpose: &str, token: &str, secret: &[u8]) -> Option<[i64; 2]> {
    let mut parts = token.splitn(3, '.');
    let numbers = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
    let signature = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    let whole = signature.len() == SIGNATURE;
    let signed = mac(purpose, numbers, secret).verify_truncated_left(&signature);
    (whole && signed.is_ok()).then_some(numbers)
}

fn mac(purpose: &str, [one, other]: [i64; 2], secret: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(format!("{purpose} {one} {other}").as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_that_was_made_with_the_secret_is_one() {
        let subscription = Subscription { post: 3, member: 7 };
        let token = subscription.token(b"secret");
        assert_eq!(Subscription::of(&token, b"secret"), Some(subscription));
        assert_eq!(Subscription::of(&token, b"another"), None);
        let other = token.replacen('7', "8", 1);
        for bad in [
            "",
            "3.7",
            "3.7.",
            "3.7.AAAA",
            &other,
            &token[..token.len() - 4],
        ] {
            assert_eq!(Subscription::of(bad, b"secret"), None, "{bad}");
        }
    }

    #[test]
    fn a_token_for_one_purpose_is_none_for_another() {
        let token = Subscription { post: 3, member: 7 }.token(b"secret");
        assert_eq!(Confirmation::of(&token, b"secret"), None);
        assert_eq!(session_until(&token, "secret"), None);
        let session = session(9, "secret");
        assert_eq!(session_until(&session, "secret"), Some(9));
        assert_eq!(session_until(&session, "another"), None);
    }
}
