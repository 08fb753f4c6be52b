//! The node and the object of an admin request.

use abide_runtime::{AnyNamespace, AnyStub, Node, ObjectId};

use crate::{ApiError, readiness::Readiness};

/// The running node; 503 while there is none.
pub(super) fn node(readiness: &Readiness) -> Result<Node, ApiError> {
    let serving = readiness.parts().map(|(_, node)| node);
    serving.ok_or_else(unavailable)
}

/// The error while there is no node.
pub(crate) fn unavailable() -> ApiError {
    ApiError::new(
        http::StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "The node is starting or stopping; try again.",
    )
    .retry_soon()
}

/// The class with this name, or whose namespace has this unique key.
pub(super) fn class(node: &Node, class: &str) -> Result<AnyNamespace, ApiError> {
    let namespaces = node.env().namespaces();
    let found = namespaces
        .iter()
        .find(|namespace| namespace.unique_key() == class)
        .or_else(|| namespaces.iter().find(|known| known.class() == class));
    found.cloned().ok_or_else(|| {
        let known: Vec<_> = namespaces.iter().map(AnyNamespace::unique_key).collect();
        ApiError::not_found(
            "no_such_class",
            format!(
                "This node has no class {class:?}; it has {}.",
                known.join(", ")
            ),
        )
    })
}

/// The object of a class with this id (64 hex digits) or this name.
pub(super) fn object(node: &Node, name: &str, object: &str) -> Result<AnyStub, ApiError> {
    let namespace = class(node, name)?;
    if object.parse::<ObjectId>().is_ok() {
        let id = namespace
            .parse_id(object)
            .map_err(|error| ApiError::bad_request("invalid_id", error.message()))?;
        return Ok(namespace.get(id));
    }
    Ok(namespace.get_by_name(object))
}
