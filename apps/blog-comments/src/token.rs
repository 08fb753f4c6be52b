//! The link that ends a subscription: who has the mail may use it, and nobody can make one up.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of the signature that are kept: enough that nobody guesses one.
const SIGNATURE: usize = 16;

/// Whose subscription to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) post: i64,
    pub(crate) member: i64,
}

impl Subscription {
    /// `POST.MEMBER.SIGNATURE`.
    pub(crate) fn token(self, secret: &[u8]) -> String {
        let Self { post, member } = self;
        let signature =
            URL_SAFE_NO_PAD.encode(&mac(self, secret).finalize().into_bytes()[..SIGNATURE]);
        format!("{post}.{member}.{signature}")
    }

    /// The subscription that a token was made for.
    pub(crate) fn of(token: &str, secret: &[u8]) -> Option<Self> {
        let mut parts = token.splitn(3, '.');
        let post = parts.next()?.parse().ok()?;
        let member = parts.next()?.parse().ok()?;
        let signature = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
        let subscription = Self { post, member };
        let whole = signature.len() == SIGNATURE;
        // Takes the same time for every wrong signature.
        let signed = mac(subscription, secret).verify_truncated_left(&signature);
        (whole && signed.is_ok()).then_some(subscription)
    }
}

fn mac(subscription: Subscription, secret: &[u8]) -> Hmac<Sha256> {
    let Subscription { post, member } = subscription;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(format!("unsubscribe {post} {member}").as_bytes());
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
}
