//! The files that pages load.

use axum::{
    Router,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderValue, header};
use sha2::{Digest, Sha256};

use crate::{ApiError, UrlPath};

/// A file that pages load, such as a script. Its name contains a hash of its content, so browsers may cache it forever.
///
/// ```
/// use abide_server::{Asset, asset_router};
/// use std::sync::LazyLock;
///
/// static STYLE: LazyLock<Asset> = LazyLock::new(|| Asset::style("style", "body { margin: 0 }"));
///
/// let router = axum::Router::<()>::new().nest("/assets", asset_router([&*STYLE]));
/// let link = format!(r#"<link rel="stylesheet" href="/assets/{}">"#, STYLE.name);
/// ```
#[derive(Debug)]
pub struct Asset {
    /// Its name, which changes with the content.
    pub name: String,
    /// Its `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static str,
}

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
}

impl IntoResponse for &Asset {
    fn into_response(self) -> Response {
        let mut response = self.content.into_response();
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

/// The routes of assets: `GET /{asset}` answers with the asset of this name, or with 404 `no_such_file`. Nest it where the pages
/// look for them.
pub fn asset_router<S: Clone + Send + Sync + 'static>(
    assets: impl IntoIterator<Item = &'static Asset>,
) -> Router<S> {
    let assets: Vec<&Asset> = assets.into_iter().collect();
    let answer = async move |UrlPath(name): UrlPath<String>| {
        let asset = assets.iter().find(|asset| asset.name == name);
        let asset = asset.ok_or_else(no_such_file)?;
        Ok::<_, ApiError>(asset.into_response())
    };
    Router::new().route("/{asset}", get(answer))
}

fn no_such_file() -> ApiError {
    ApiError::not_found("no_such_file", "There is no such file.")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use axum::{body::Body, extract::Request};
    use http::StatusCode;
    use tower::ServiceExt;

    use super::*;

    static STYLE: LazyLock<Asset> = LazyLock::new(|| Asset::style("style", "body { margin: 0 }"));

    async fn get(path: &str) -> Response {
        let router = Router::new().nest("/assets", asset_router([&*STYLE]));
        let request = Request::get(path).body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap()
    }

    #[tokio::test]
    async fn an_asset_is_found_by_its_whole_name_and_cached() {
        let found = get(&format!("/assets/{}", STYLE.name)).await;
        assert_eq!(found.status(), StatusCode::OK);
        assert_eq!(
            found.headers()[header::CONTENT_TYPE],
            "text/css; charset=utf-8"
        );
        let caching = &found.headers()[header::CACHE_CONTROL];
        assert_eq!(caching, "public, max-age=31536000, immutable");
        for other in ["style.css", "style-0123456789abcdef.css"] {
            let missing = get(&format!("/assets/{other}")).await;
            assert_eq!(missing.status(), StatusCode::NOT_FOUND, "{other}");
        }
    }

    #[test]
    fn the_name_of_an_asset_changes_with_its_content() {
        let other = Asset::style("style", "body { margin: 1px }");
        assert_ne!(other.name, STYLE.name);
        assert_eq!(
            Asset::style("style", STYLE.content).name,
            STYLE.name,
            "the same in each run"
        );
    }
}
