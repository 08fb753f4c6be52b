//! Where requests go.

use abide::http::Uri;
use sha2::{Digest, Sha256};
use url::Url;

use super::limits;
use crate::{outbox::limits::MAX_DESTINATION_BYTES, texts::cut};

/// A URL that requests can be sent to.
pub(crate) fn target(text: &str) -> Result<Url, String> {
    if text.len() > limits::MAX_URL_BYTES {
        return Err(format!(
            "the URL has {} bytes; at most {} are allowed",
            text.len(),
            limits::MAX_URL_BYTES
        ));
    }
    let shown = without_query(text);
    let mut url = Url::parse(text).map_err(|error| format!("`{shown}` is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{shown}` does not begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL has a name or password: they belong in a header".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

pub(crate) fn uri(url: &Url) -> Result<Uri, String> {
    url.as_str().parse().map_err(|error| {
        format!(
            "`{}` cannot be sent to: {error}",
            without_query(url.as_str())
        )
    })
}

/// Scheme, host and port; the text itself if it is no URL.
pub(super) fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

/// A name for a URL that tells it from others of its origin and does not show its query, which may be secret.
pub(super) fn endpoint(url: &str) -> String {
    let shown = without_query(url);
    if shown.len() == url.len() && url.len() <= MAX_DESTINATION_BYTES {
        return url.to_owned();
    }
    let hash = Sha256::digest(url);
    let tail = hash
        .iter()
        .take(8)
        .fold(String::new(), |tail, byte| tail + &format!("{byte:02x}"));
    let room = MAX_DESTINATION_BYTES - tail.len() - "#".len();
    format!("{}#{tail}", cut(shown.to_owned(), room))
}

/// What people see of a URL: its query may be secret.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
