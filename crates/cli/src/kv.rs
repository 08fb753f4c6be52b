//! The ready-made class of `abide serve`: objects that hold JSON values under keys, for programs in any language.
//!
//! | Request | Answer |
//! |---|---|
//! | `PUT /kv/{object}/{key}` with any JSON | 204 |
//! | `GET /kv/{object}/{key}` | 200 and the JSON, or 404 `no_such_key` |
//! | `DELETE /kv/{object}/{key}` | 204, or 404 `no_such_key` |
//! | `GET /kv/{object}?prefix=&start_after=&limit=` | 200 and `{"entries":[{"key":…,"value":…},…],"next":…}` |
//!
//! A key may contain slashes. Entries are in key order; `next`, if not null, is the `start_after` of the next page. A
//! page of large values has fewer entries than its `limit`. A write is answered when it is on disk.

mod json_text;

use abide::{
    ErrorKind,
    prelude::*,
    server::{
        ApiError, JsonBody, UrlPath, UrlQuery,
        access::{Access, Need},
    },
};
use abide_storage::limits::MOST_VALUE_BYTES;
use axum::{Json, Router, http::StatusCode, routing::get};
use serde::{Deserialize, Serialize};

use json_text::JsonText;

/// The class, as tokens name its objects.
const CLASS: &str = "Kv";

/// The default number of entries on a page.
const DEFAULT_PAGE: usize = 100;
/// The maximum number of entries on a page.
const MAX_PAGE: usize = 1_000;
/// A page of this size in bytes takes no further entry. Even with the largest value it stays far below the limit of a
/// call.
const PAGE_BYTES: usize = 8 << 20;
/// Entries read at a time: at most two pages, if all values have the maximum size.
const STEP: usize = 8;

/// JSON values under keys.
#[durable_object]
pub(crate) struct Kv {
    ctx: Ctx,
}

/// One key and its value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    key: String,
    value: JsonText,
}

/// Entries in key order, and where the next page starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    entries: Vec<Entry>,
    next: Option<String>,
}

/// Selects the entries of a page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    prefix: Option<String>,
    start_after: Option<String>,
    limit: Option<usize>,
}

impl DurableObject for Kv {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "`pub` methods are callable over RPC")]
#[rpc]
impl Kv {
    /// Sets a key.
    pub async fn put(&self, key: String, value: JsonText) -> Result<()> {
        self.ctx.storage().put(&key, &value)
    }

    /// A key with its value. A value alone could not distinguish a null from a missing key.
    pub async fn get(&self, key: String) -> Result<Option<Entry>> {
        let value = self.ctx.storage().get(&key)?;
        Ok(value.map(|value| Entry { key, value }))
    }

    /// Removes a key. Returns whether it existed.
    pub async fn delete(&self, key: String) -> Result<bool> {
        self.ctx.storage().delete(&key)
    }

    /// Entries in key order: up to the limit, or fewer if their values are large.
    pub async fn list(&self, query: ListQuery) -> Result<Page> {
        let limit = query.limit.unwrap_or(DEFAULT_PAGE);
        let mut options = ListOptions::default()
            .prefix(query.prefix)
            .start_after(query.start_after);
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        loop {
            // One more than requested, to detect whether there is a next page.
            let step = STEP.min(limit + 1 - entries.len());
            options.limit = Some(step);
            let found = self.ctx.storage().list::<JsonText>(&options)?;
            let is_last = found.len() < step;
            for (key, value) in found {
                if entries.len() == limit || bytes >= PAGE_BYTES {
                    let next = entries.last().map(|entry| entry.key.clone());
                    return Ok(Page { entries, next });
                }
                bytes += key.len() + value.as_str().len();
                entries.push(Entry { key, value });
            }
            if is_last {
                return Ok(Page {
                    entries,
                    next: None,
                });
            }
            options.start_after = entries.last().map(|entry| entry.key.clone());
        }
    }
}

/// The HTTP interface of the objects.
pub(crate) fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let router = Router::new()
        .route("/kv/{object}", get(list))
        .route("/kv/{object}/{*key}", get(read).put(write).delete(remove))
        .with_state(env);
    access.protect(router, |route| {
        Need::by_method(route.method).object(CLASS, route.param("object"))
    })
}

#[derive(Deserialize)]
struct KeyPath {
    object: String,
    key: String,
}

async fn write(
    env: Env,
    UrlPath(path): UrlPath<KeyPath>,
    JsonBody(value): JsonBody<JsonText>,
) -> Result<StatusCode, ApiError> {
    // Before copies of it are made.
    let bytes = value.as_str().len();
    if bytes > MOST_VALUE_BYTES {
        let told = format!("The value has {bytes} bytes, but the limit is {MOST_VALUE_BYTES}.");
        return Err(ApiError::bad_request("limit_exceeded", told));
    }
    object(&env, &path.object)
        .put(path.key, value)
        .await
        .map_err(refused)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn read(env: Env, UrlPath(path): UrlPath<KeyPath>) -> Result<Json<JsonText>, ApiError> {
    match object(&env, &path.object)
        .get(path.key)
        .await
        .map_err(refused)?
    {
        Some(entry) => Ok(Json(entry.value)),
        None => Err(no_such_key()),
    }
}

async fn remove(env: Env, UrlPath(path): UrlPath<KeyPath>) -> Result<StatusCode, ApiError> {
    if object(&env, &path.object)
        .delete(path.key)
        .await
        .map_err(refused)?
    {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(no_such_key())
    }
}

async fn list(
    env: Env,
    UrlPath(name): UrlPath<String>,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<Page>, ApiError> {
    if query
        .limit
        .is_some_and(|limit| !(1..=MAX_PAGE).contains(&limit))
    {
        return Err(ApiError::bad_request(
            "invalid_query",
            format!("limit must be from 1 to {MAX_PAGE}."),
        ));
    }
    Ok(Json(
        object(&env, &name).list(query).await.map_err(refused)?,
    ))
}

fn object(env: &Env, name: &str) -> Stub<Kv> {
    env.object::<Kv>().get_by_name(name)
}

fn no_such_key() -> ApiError {
    ApiError::not_found("no_such_key", "The object has no such key.")
}

/// Storage errors concern the client's input (a key or value that is too long), so their message is sent to the client.
fn refused(error: abide::Error) -> ApiError {
    match error.kind() {
        ErrorKind::Limit | ErrorKind::Input => {
            ApiError::bad_request("limit_exceeded", error.message().to_owned())
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::Body,
        http::{Method, Request},
    };
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        )
    }

    async fn host() -> abide::server::LocalHost {
        abide::Host::open_in_memory()
            .object::<Kv>()
            .router(router)
            .start_local()
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_value_is_read_as_it_was_written_until_it_is_deleted() {
        let host = host().await;
        let router = host.router();
        let value = json!({ "big": 9_007_199_254_740_993_i64, "list": [null, true, 1.5, "é"] });
        let written = ask(
            &router,
            Method::PUT,
            "/kv/ada/notes/first",
            &value.to_string(),
        )
        .await;
        assert_eq!(written.0, StatusCode::NO_CONTENT);
        assert_eq!(
            ask(&router, Method::GET, "/kv/ada/notes/first", "").await,
            (StatusCode::OK, value)
        );
        let null = ask(&router, Method::PUT, "/kv/ada/nothing", "null").await;
        assert_eq!(null.0, StatusCode::NO_CONTENT);
        assert_eq!(
            ask(&router, Method::GET, "/kv/ada/nothing", "").await,
            (StatusCode::OK, Value::Null)
        );
        assert_eq!(
            ask(&router, Method::GET, "/kv/grace/notes/first", "")
                .await
                .0,
            StatusCode::NOT_FOUND
        );
        assert_eq!(
            ask(&router, Method::DELETE, "/kv/ada/notes/first", "")
                .await
                .0,
            StatusCode::NO_CONTENT
        );
        let again = ask(&router, Method::DELETE, "/kv/ada/notes/first", "").await;
        assert_eq!(
            (again.0, &again.1["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!("no_such_key"))
        );
        drop(router);
        host.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn entries_come_in_pages_in_key_order() {
        let host = host().await;
        let router = host.router();
        for key in ["b/2", "a/1", "b/1", "b/3"] {
            ask(&router, Method::PUT, &format!("/kv/ada/{key}"), "1").await;
        }
        let first = ask(&router, Method::GET, "/kv/ada?prefix=b/&limit=2", "")
            .await
            .1;
        let expected = json!([{ "key": "b/1", "value": 1 }, { "key": "b/2", "value": 1 }]);
        assert_eq!(first, json!({ "entries": expected, "next": "b/2" }));
        let second = ask(
            &router,
            Method::GET,
            "/kv/ada?prefix=b/&limit=2&start_after=b/2",
            "",
        )
        .await
        .1;
        assert_eq!(
            second,
            json!({ "entries": [{ "key": "b/3", "value": 1 }], "next": null })
        );
        let empty = ask(&router, Method::GET, "/kv/nobody", "").await;
        assert_eq!(
            empty,
            (StatusCode::OK, json!({ "entries": [], "next": null }))
        );
    }

    #[tokio::test]
    async fn large_values_come_in_pages_that_an_answer_can_carry() {
        let host = host().await;
        let router = host.router();
        // Together more than a call may return.
        let large = "v".repeat(1_700_000);
        for key in 0..20 {
            let path = format!("/kv/ada/{key:02}");
            let written = ask(&router, Method::PUT, &path, &json!(large).to_string()).await;
            assert_eq!(written.0, StatusCode::NO_CONTENT);
        }
        let text = json!(large).to_string();
        for limit in ["", "&limit=3"] {
            let mut keys = Vec::new();
            let mut after = String::new();
            loop {
                let path = format!("/kv/ada?prefix={limit}{after}");
                let (status, page) = ask(&router, Method::GET, &path, "").await;
                assert_eq!(status, StatusCode::OK, "{limit} {after} {page}");
                let page: Page = serde_json::from_value(page).unwrap();
                assert!(!page.entries.is_empty());
                assert!(
                    page.entries
                        .iter()
                        .all(|entry| entry.value.as_str() == text)
                );
                keys.extend(page.entries.into_iter().map(|entry| entry.key));
                match page.next {
                    Some(next) => after = format!("&start_after={next}"),
                    None => break,
                }
            }
            let expected = (0..20).map(|key| format!("{key:02}"));
            assert_eq!(keys, expected.collect::<Vec<_>>(), "{limit}");
        }
    }

    #[tokio::test]
    async fn invalid_and_too_long_input_is_reported_to_the_client() {
        let host = host().await;
        let router = host.router();
        let cases = [
            (
                Method::PUT,
                format!("/kv/ada/{}", "k".repeat(2_049)),
                "1".to_owned(),
                "limit_exceeded",
            ),
            (
                Method::PUT,
                "/kv/ada/k".to_owned(),
                format!("\"{}\"", "v".repeat(2 << 20)),
                "limit_exceeded",
            ),
            (
                Method::GET,
                format!("/kv/{}/k", "o".repeat(2_049)),
                String::new(),
                "limit_exceeded",
            ),
            (
                Method::PUT,
                "/kv/ada/k".to_owned(),
                "{".to_owned(),
                "malformed_json",
            ),
            (
                Method::GET,
                "/kv/ada?limit=0".to_owned(),
                String::new(),
                "invalid_query",
            ),
            (
                Method::GET,
                "/kv/ada?limit=1001".to_owned(),
                String::new(),
                "invalid_query",
            ),
            (
                Method::GET,
                "/kv/ada?limt=1".to_owned(),
                String::new(),
                "invalid_query",
            ),
        ];
        for (method, path, body, code) in cases {
            let (status, told) = ask(&router, method, &path, &body).await;
            let path = path.chars().take(30).collect::<String>();
            assert_eq!(
                (status, &told["error"]["code"]),
                (StatusCode::BAD_REQUEST, &json!(code)),
                "{path}"
            );
        }
    }
}
