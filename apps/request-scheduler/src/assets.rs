//! The files that the pages load.

use std::sync::LazyLock;

use abide::server::Asset;

/// How the pages look.
pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::style("style", include_str!("assets/style.css")));

/// What the pages do.
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("page", include_str!("assets/page.js")));
