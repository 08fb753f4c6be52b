//! The gallery's style sheet.

use std::sync::LazyLock;

use abide::server::{ApiError, UrlPath};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use sha2::{Digest, Sha256};

const CONTENT: &str = include_str!("assets/style.css");

/// File name with a content hash, so browsers may cache it indefinitely.
pub(crate) static STYLE: LazyLock<String> = LazyLock::new(|| {
    let hash = hex::encode(&Sha256::digest(CONTENT)[..8]);
    format!("style-{hash}.css")
});

#[derive(Deserialize)]
pub(crate) struct AssetPath {
    name: String,
}

pub(crate) async fn asset(UrlPath(path): UrlPath<AssetPath>) -> Result<Response, ApiError> {
    if path.name != *STYLE {
        return Err(ApiError::not_found(
            "no_such_file",
            "There is no such file.",
        ));
    }
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, CONTENT).into_response())
}
