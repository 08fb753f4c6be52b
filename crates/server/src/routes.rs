//! Logs the table of a listener's routes: `log.level = "warn,abide_server=debug"` shows it.
//!
//! Axum exposes a router's paths only in its `Debug` form.

use axum::Router;

/// Writes the paths of a router into the log.
pub(crate) fn log(listener: &'static str, router: &Router) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        tracing::debug!(listener, paths = paths(router).join(" "), "routes");
    }
}

/// The paths for which the router has routes, without those of a fallback service.
fn paths(router: &Router) -> Vec<String> {
    let table = format!("{router:?}");
    // The fallback's own paths follow this.
    let table = table.split("fallback_router: ").next();
    let mut paths: Vec<String> = table
        .unwrap_or_default()
        .split("RouteId(")
        .filter_map(|entry| entry.split_once("): \"/"))
        .filter_map(|(_, path)| path.split_once('"'))
        .map(|(path, _)| format!("/{path}"))
        .filter(|path| !path.contains("__private__"))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use axum::routing::{any, get, post};

    use super::*;

    #[test]
    fn a_router_s_paths_are_those_of_all_that_it_was_made_of() {
        let nested = Router::new()
            .route("/{id}", post(async || ""))
            .route("/{id}/{*rest}", any(async || ""));
        let router = Router::new()
            .merge(Router::new().route("/merged", get(async || "")))
            .nest("/nested", nested)
            .fallback(async || "")
            .layer(axum::middleware::from_fn(
                async |request, next: axum::middleware::Next| next.run(request).await,
            ));
        let expected = ["/merged", "/nested/{id}", "/nested/{id}/{*rest}"];
        assert_eq!(paths(&router), expected);
    }
}
