//! The static files of the pages.

use std::sync::LazyLock;

use abide::outbox::live::Asset;
use abide::{
    Response,
    server::{ApiError, UrlPath},
};
use serde::Deserialize;

/// How the pages look.
pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::style("style", include_str!("assets/style.css")));

#[derive(Deserialize)]
pub(crate) struct AssetPath {
    name: String,
}

pub(crate) async fn asset(UrlPath(path): UrlPath<AssetPath>) -> Result<Response, ApiError> {
    if path.name == STYLE.name {
        return Ok(STYLE.response());
    }
    Err(ApiError::not_found(
        "no_such_file",
        "There is no such file.",
    ))
}
