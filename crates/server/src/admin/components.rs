//! `/objects/{class}/{object}/components`: operators' requests to the components of an object, such as its outbox.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /objects/{class}/{object}/components` | 200 and the names of the object's components |
//! | any method of `/objects/{class}/{object}/components/{component}/…` | the component's response; 404 `no_such_component` or `no_such_object` |
//!
//! An object is given by its id or its name. Changes are on disk before the response is sent.

use std::sync::Arc;

use abide_runtime::{AnyStub, ErrorKind};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{any, get},
};
use http::{HeaderValue, Uri, header::CONTENT_TYPE};

use super::target;
use crate::{ApiError, UrlPath, readiness::Readiness};

/// The routes.
pub(super) fn routes() -> Router<Arc<Readiness>> {
    let of_object = "/objects/{class}/{object}/components";
    Router::new()
        .route(of_object, get(list))
        .route(&format!("{of_object}/{{component}}"), any(operate))
        .route(
            &format!("{of_object}/{{component}}/{{*operation}}"),
            any(operate),
        )
}

type ObjectPath = UrlPath<(String, String)>;

async fn list(
    State(readiness): State<Arc<Readiness>>,
    UrlPath((class, object)): ObjectPath,
) -> Result<Response, ApiError> {
    let object = stub(&readiness, &class, &object).await?;
    let mut answer = object.components().await?.map(Body::new);
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    Ok(answer)
}

#[derive(serde::Deserialize)]
struct OperationPath {
    class: String,
    object: String,
    component: String,
}

async fn operate(
    State(readiness): State<Arc<Readiness>>,
    UrlPath(path): UrlPath<OperationPath>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let object = stub(&readiness, &path.class, &path.object).await?;
    *request.uri_mut() = below(request.uri(), 5)?;
    match object.operate(&path.component, request).await {
        Ok(answer) => Ok(answer.map(Body::new)),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(ApiError::not_found(
            "no_such_component",
            format!(
                "{} {:?} has no component {:?}; GET /objects/{{class}}/{{object}}/components lists those that it has.",
                path.class, path.object, path.component
            ),
        )),
        Err(error) => Err(error.into()),
    }
}

/// The object, if it exists: a request must not create one.
async fn stub(readiness: &Readiness, class: &str, object: &str) -> Result<AnyStub, ApiError> {
    let node = target::node(readiness)?;
    let stub = target::object(&node, class, object)?;
    if node.has_object(&stub).await? {
        return Ok(stub);
    }
    Err(ApiError::not_found(
        "no_such_object",
        format!("There is no object {object:?} of class {class:?}."),
    ))
}

/// The URI without the first `parts` segments of its path.
fn below(uri: &Uri, parts: usize) -> Result<Uri, ApiError> {
    let rest = uri.path().splitn(parts + 2, '/').nth(parts + 1);
    let query = uri
        .query()
        .map_or(String::new(), |query| format!("?{query}"));
    let below = format!("/{}{query}", rest.unwrap_or_default());
    below
        .parse()
        .map_err(|_| ApiError::bad_request("invalid_path", "The address is not valid."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_sees_what_follows_its_name() {
        for (whole, rest) in [
            ("/objects/Shop/a/components/outbox", "/"),
            ("/objects/Shop/a%2Fb/components/outbox/", "/"),
            (
                "/objects/Shop/a/components/outbox/messages/3?x=1&y=/",
                "/messages/3?x=1&y=/",
            ),
        ] {
            assert_eq!(below(&whole.parse().unwrap(), 5).unwrap(), rest);
        }
    }
}
