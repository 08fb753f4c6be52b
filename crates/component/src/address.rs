//! URLs of outgoing requests.

use abide::http::Uri;
use url::Url;

use crate::limits;

/// Parses a URL that requests can be sent to.
pub fn target(text: &str) -> Result<Url, String> {
    if text.len() > limits::MAX_URL_BYTES {
        return Err(format!(
            "the URL has {} bytes; at most {} are allowed",
            text.len(),
            limits::MAX_URL_BYTES
        ));
    }
    let shown = without_query(text);
    let mut url = Url::parse(text).map_err(|error| format!("`{shown}` is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{shown}` does not begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL has a name or password: they belong in a header".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

/// The address of a request to a URL.
pub fn uri(url: &Url) -> Result<Uri, String> {
    url.as_str().parse().map_err(|error| {
        format!(
            "`{}` cannot be sent to: {error}",
            without_query(url.as_str())
        )
    })
}

/// Scheme, host and port; the text itself if it is not a URL.
pub fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| url.origin().ascii_serialization())
}

/// The part of a URL that may be shown: its query may be secret.
pub fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
