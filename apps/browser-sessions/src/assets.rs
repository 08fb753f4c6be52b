//! The gallery's style sheet.

use std::sync::LazyLock;

use abide::server::Asset;

/// How the pages look.
pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::style("style", include_str!("assets/style.css")));
