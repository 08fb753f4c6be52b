//! The edge: the page, and the rooms.
//!
//! | Request | Answer |
//! |---|---|
//! | `GET /` | the page on which a document is chosen |
//! | `GET /d/{name}` | the page on which it is edited |
//! | `/parties/main/{name}`, a WebSocket | the document, by the protocols of Yjs |
//! | `GET /parties/main/{name}`, `…/text` | its status, as JSON; its text |
//! | `/parties/channel/{name}` | the [channel](crate::Channel) |

use abide::{
    Env,
    party::Parties,
    server::{
        ApiError, Page, UrlPath,
        access::{Access, Need, Role, Route},
    },
};
use axum::{Router, http::header, response::IntoResponse, routing::get};
use maud::Markup;
use serde::Deserialize;

use crate::{Channel, DocumentRoom, page};

/// Characters of a document's name in an address that people type.
const MAX_NAME_CHARS: usize = 40;

/// The pages ask only their own server. The editor makes its styles as it needs them.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:; \
                           connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// All routes of the program.
pub fn router(env: Env) -> Router {
    let access = Access::of(&env);
    let parties = Parties::new(env)
        .party::<DocumentRoom>("main")
        .party::<Channel>("channel");
    let of_room = parties.need();
    let pages = Router::new()
        .route("/", get(async || shown(page::home())))
        .route("/d/{name}", get(document))
        .route("/assets/editor.js", get(script))
        .route("/assets/LICENSES.txt", get(async || page::LICENSES));
    access.protect(
        pages.merge(parties.router()),
        move |route: &Route<'_>| match route.param("party") {
            "" => Need::role(Role::Read),
            _ => of_room(route),
        },
    )
}

#[derive(Deserialize)]
struct DocumentPath {
    name: String,
}

async fn document(UrlPath(path): UrlPath<DocumentPath>) -> Result<Page, ApiError> {
    let name = path.name;
    let fits = (1..=MAX_NAME_CHARS).contains(&name.chars().count());
    if !fits || name.chars().any(|one| one.is_control() || one == '/') {
        let text = format!(
            "A document's name has 1 to {MAX_NAME_CHARS} characters, no slash and no control characters."
        );
        return Err(ApiError::bad_request("invalid_name", text));
    }
    Ok(shown(page::document(&name)))
}

fn shown(page: Markup) -> Page {
    Page::new(page.into_string(), PAGE_POLICY)
}

async fn script() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, page::SCRIPT)
}
