//! Forwards HTTP requests to objects' own `fetch`.

use abide_runtime::{Env, Namespace, ObjectClass, Request, Response};
use axum::{Router, extract::State, routing::any};
use http::{Uri, uri::PathAndQuery};
use serde::Deserialize;

use crate::{ApiError, UrlPath};

/// A router in which every object of a class is a folder: a request for `/NAME/REST` goes to the `fetch` of the object
/// with this name, which sees `/REST`. Nest it wherever you want the objects to appear:
///
/// ```
/// # use abide_runtime::{Env, ObjectClass};
/// # fn router<Counter: ObjectClass>(env: Env) -> axum::Router {
/// axum::Router::new().nest("/counters", abide_server::object_router::<Counter>(&env))
/// # }
/// ```
///
/// # Panics
/// If the class is not registered exactly once.
pub fn object_router<T: ObjectClass>(env: &Env) -> Router {
    Router::new()
        .route("/{name}", any(forward::<T>))
        .route("/{name}/", any(forward::<T>))
        .route("/{name}/{*rest}", any(forward::<T>))
        .with_state(env.object::<T>())
}

/// The path parameters except the rest, which is taken from the URI itself to keep the client's encoding.
#[derive(Deserialize)]
struct Target {
    name: String,
}

async fn forward<T: ObjectClass>(
    State(objects): State<Namespace<T>>,
    UrlPath(target): UrlPath<Target>,
    mut request: Request,
) -> Result<Response, ApiError> {
    *request.uri_mut() = below(request.uri());
    Ok(objects.get_by_name(&target.name).fetch(request).await?)
}

/// The URI without the first segment of its path.
fn below(uri: &Uri) -> Uri {
    let path = uri.path().trim_start_matches('/');
    let rest = path.find('/').map_or("/", |end| &path[end..]);
    let with_query = uri.query().map(|query| format!("{rest}?{query}"));
    let mut parts = uri.clone().into_parts();
    // A part of a valid URI is valid.
    parts.path_and_query = PathAndQuery::try_from(with_query.as_deref().unwrap_or(rest)).ok();
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_sees_the_address_below_its_name() {
        let cases = [
            ("/ada", "/"),
            ("/ada/", "/"),
            ("/ada/a/b?c=d", "/a/b?c=d"),
            ("/ada?c=d", "/?c=d"),
            ("/a%2Fb/%C3%A9", "/%C3%A9"),
            ("http://host:80/ada/x", "http://host:80/x"),
        ];
        for (outside, inside) in cases {
            assert_eq!(below(&outside.parse().unwrap()), inside, "{outside}");
        }
    }
}
