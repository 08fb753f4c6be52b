//! The two scripts of a live page. Their names contain a hash of their content, so browsers may cache them forever.

use std::sync::LazyLock;

use abide::{
    Body, Response,
    http::{HeaderValue, header},
};
use sha2::{Digest, Sha256};

/// A file that pages load.
#[derive(Debug)]
pub struct Asset {
    /// Its name, which changes with the content.
    pub name: String,
    /// Its `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

/// Hotwired Turbo: <https://turbo.hotwired.dev>. Its licence is next to it.
pub static TURBO: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("turbo", include_str!("assets/turbo.js")));

/// The element `<abide-live src="…">`, which connects a page with its outbox, and reconnects it.
pub static LIVE: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("live", include_str!("assets/live.js")));

impl Asset {
    /// A script.
    pub fn script(stem: &str, content: &'static str) -> Self {
        Self::new(stem, "js", "text/javascript; charset=utf-8", content)
    }

    /// A style sheet.
    pub fn style(stem: &str, content: &'static str) -> Self {
        Self::new(stem, "css", "text/css; charset=utf-8", content)
    }

    fn new(stem: &str, extension: &str, content_type: &'static str, content: &'static str) -> Self {
        let hash = hex::encode(&Sha256::digest(content)[..8]);
        Self {
            name: format!("{stem}-{hash}.{extension}"),
            content_type,
            content,
        }
    }

    /// The response to a request for it.
    pub fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.content));
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_TYPE, self.content_type),
            (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
