//! The files that the pages load.

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

/// What the pages do.
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("page", include_str!("assets/page.js")));

#[derive(Deserialize)]
pub(crate) struct AssetPath {
    name: String,
}

pub(crate) async fn asset(UrlPath(path): UrlPath<AssetPath>) -> Result<Response, ApiError> {
    let all: [&Asset; 2] = [&STYLE, &SCRIPT];
    all.into_iter()
        .find(|asset| asset.name == path.name)
        .map(Asset::response)
        .ok_or_else(|| ApiError::not_found("no_such_file", "There is no such file."))
}
