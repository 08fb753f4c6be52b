//! What answers visitors: find the room, decide, and then either pass the request on to the origin or show the queue.

mod cookie;
mod edge;
mod forward;
mod headers;
mod operators;
mod tunnel;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use abide::server::{ApiError, ClientAddr, RequestHost};
use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, FromRequestParts, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use tokio::signal::unix::{SignalKind, signal};

pub use edge::{Edge, Front, ReloadError};
pub use forward::{NoRoots, Origin};

use crate::{
    pages::{self, Waiting},
    room::{Room, Verdict},
};

/// Under this path are the pages of operators. It is never passed on.
pub const OWN_PATH: &str = "/.waiting-room";

/// An internal error; details are in the log.
fn failed() -> ApiError {
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal_error",
        "The waiting room failed. Try again; the server's log says why.",
    )
}

fn no_such_page() -> ApiError {
    ApiError::not_found("not_found", "There is no such page of the waiting room.")
}

/// The whole HTTP side: operators' pages, and everything else for visitors.
pub fn router(edge: Arc<Edge>) -> Router {
    let opening = Arc::clone(&edge);
    tokio::spawn(async move {
        if let Err(error) = opening.serving().await
            && !opening.env.is_stopping()
        {
            tracing::warn!(%error, "the rooms could not be opened; the first visitor tries again");
        }
        reload_on_hangup(&opening).await;
    });
    operators::router(&edge).merge(Router::new().fallback(serve).with_state(edge))
}

/// Reads the settings again whenever the process gets SIGHUP.
async fn reload_on_hangup(edge: &Edge) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::warn!(%error, "SIGHUP does not reload the settings; use POST /.waiting-room/reload");
            return;
        }
    };
    while hangups.recv().await.is_some() {
        if let Err(error) = edge.reload().await {
            tracing::error!(%error, "the settings were not reloaded; the old ones hold");
        }
    }
}

/// What is known of a request before it is decided.
struct Visit {
    client: IpAddr,
    /// The address that connected.
    peer: IpAddr,
    /// The host that was asked for.
    host: Option<RequestHost>,
    /// The peer is a trusted proxy.
    is_from_proxy: bool,
    is_secure: bool,
}

impl Visit {
    async fn of(edge: &Edge, parts: &mut Parts) -> Result<Self, ApiError> {
        let ClientAddr(client) =
            ClientAddr::from_request_parts(parts, &())
                .await
                .map_err(|_| {
                    ApiError::new(
                        StatusCode::BAD_REQUEST,
                        "unknown_client",
                        "The client's address is unknown.",
                    )
                })?;
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        // A proxy that connects over IPv6 to an IPv4 address is the same proxy.
        let peer = peer.map_or(client, |ConnectInfo(peer)| peer.ip().to_canonical());
        let trusted = &edge.front.trusted;
        let is_from_proxy = trusted.iter().any(|block| block.contains(peer));
        let proto = parts.headers.get("x-forwarded-proto");
        let is_secure = edge.front.speaks_tls
            || (is_from_proxy && proto.is_some_and(|proto| proto.as_bytes() == b"https"));
        let host = Option::<RequestHost>::from_request_parts(parts, &()).await?;
        Ok(Self {
            client,
            peer,
            host,
            is_from_proxy,
            is_secure,
        })
    }
}

async fn serve(State(edge): State<Arc<Edge>>, request: Request) -> Response {
    match try_serve(&edge, request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn try_serve(edge: &Edge, request: Request) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::CONNECT {
        return Err(ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "no_tunnels",
            "This server passes requests on to one application and opens no tunnels.",
        ));
    }
    if parts.uri.path().starts_with(OWN_PATH) {
        return Err(no_such_page());
    }
    let visit = Visit::of(edge, &mut parts).await?;
    let serving = edge.serving().await?;
    let (settings, rooms, origin) = (&serving.settings, &serving.rooms, &serving.origin);
    if !edge.admits(settings, visit.host.as_ref()) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "unknown_host",
            "This server does not serve this host: add a room for it, or add it to the setting `server.hosts`.",
        ));
    }
    let path = parts.uri.path();
    let room = rooms.iter().find(|room| {
        let host = visit.host.as_ref();
        room.settings.is_for(host, path, settings.path_case)
    });
    let wanted = room.map(|room| cookie::name(&room.settings.name));
    let of_rooms: Vec<_> = rooms
        .iter()
        .map(|room| cookie::name(&room.settings.name))
        .collect();
    let is_let = room.is_some_and(|room| {
        let mut rules = room.settings.bypass.iter();
        rules.any(|rule| rule.lets(&parts.method, path, &parts.headers, visit.client))
    });
    let ticket = cookie::take(
        &mut parts.headers,
        &of_rooms,
        wanted.as_deref().unwrap_or_default(),
    );
    let Some(room) = room.filter(|_| !is_let) else {
        return Ok(origin.forward(parts, body, &visit, None).await);
    };
    let ticket = ticket.and_then(|value| room.sealer.open(&value));
    // Where proxies are known, only they choose.
    let is_believed = edge.front.trusted.is_empty() || visit.is_from_proxy;
    let named = settings.data_centre_header.as_ref();
    let named = named.filter(|_| is_believed);
    let named = named
        .and_then(|name| parts.headers.get(name))
        .and_then(|name| name.to_str().ok());
    let centre = room.centre(named, visit.client);
    let worker = centre.worker();
    match worker.visit(ticket).await {
        Verdict::Enter(visitor, renewed) => {
            let session = Some(worker.session(visitor));
            let mut response = origin.forward(parts, body, &visit, session).await;
            if let Some(ticket) = renewed {
                cookie::give(response.headers_mut(), room, ticket, visit.is_secure)?;
            }
            Ok(response)
        }
        Verdict::Wait(ticket, place) => {
            let waiting = Waiting::Queued(place);
            let mut response = queue_page(room, &parts.headers, waiting);
            cookie::give(response.headers_mut(), room, ticket, visit.is_secure)?;
            Ok(response)
        }
        Verdict::Full => Ok(queue_page(room, &parts.headers, Waiting::TurnedAway)),
        Verdict::TryAgain => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "try_again",
            "The waiting room could not write down your visit. Try again in a moment; a place that you have is kept.",
        )
        .retry_after(std::time::Duration::from_secs(5))),
    }
}

fn queue_page(room: &Room, headers: &HeaderMap, waiting: Waiting) -> Response {
    let wants_json = room.settings.json && prefers_json(headers);
    let mut response = if wants_json {
        axum::Json(pages::json(&waiting, room.refresh)).into_response()
    } else {
        match pages::queue(room, &waiting) {
            Ok(page) => {
                let mut response = Response::new(Body::from(page));
                let html = HeaderValue::from_static("text/html; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, html);
                let policy = HeaderValue::from_static(pages::POLICY);
                if room.settings.template.is_none() {
                    response
                        .headers_mut()
                        .insert(header::CONTENT_SECURITY_POLICY, policy);
                }
                response
            }
            Err(error) => {
                tracing::error!(%error, room = room.settings.name, "the template of the queue page failed");
                failed().into_response()
            }
        }
    };
    if response.status() == StatusCode::OK {
        *response.status_mut() = room.settings.status;
    }
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    // A browser that is asked to come back enters without a click, also without scripts.
    let refresh = room.refresh.as_secs().max(1).to_string();
    if let Ok(seconds) = HeaderValue::from_str(&refresh) {
        headers.insert(header::RETRY_AFTER, seconds.clone());
        if !wants_json {
            headers.insert("refresh", seconds);
        }
    }
    response
}

/// True if JSON is named and HTML is not, or comes later.
fn prefers_json(headers: &HeaderMap) -> bool {
    let accept = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let accept = accept.collect::<Vec<_>>().join(",");
    match (accept.find("application/json"), accept.find("text/html")) {
        (Some(json), Some(html)) => json < html,
        (json, None) => json.is_some(),
        (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_for_clients_that_name_it_before_html() {
        let prefers = |accept: &'static str| {
            let value = HeaderValue::from_static(accept);
            prefers_json(&HeaderMap::from_iter([(header::ACCEPT, value)]))
        };
        assert!(prefers("application/json"));
        assert!(prefers("application/json, text/html;q=0.5"));
        assert!(!prefers("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!prefers("*/*"));
        assert!(!prefers_json(&HeaderMap::new()));
    }
}
