//! Protected routes of a host in memory, as tests of a program ask them.

use std::sync::Arc;

use abide::{
    clock::TestClock,
    server::{
        Host, HostBuilder,
        access::{Access, AccessPolicy, Caller, Need, Role},
    },
};
use axum::{Router, routing::get};
use http::{Method, Request, StatusCode, header::AUTHORIZATION};
use tower::ServiceExt as _;

use crate::support::request;

fn protected() -> HostBuilder {
    Host::open_in_memory()
        .router(|env| {
            let rooms = Router::new().route(
                "/rooms/{name}",
                get(async |caller: Caller| caller.role().to_string()).delete(async || "gone"),
            );
            Access::of(&env).protect(rooms, |route| {
                Need::by_method(route.method).object("Room", route.param("name"))
            })
        })
        .configure(|config| config.server.access = AccessPolicy::Token)
}

async fn ask(router: Router, method: Method, token: Option<&str>) -> StatusCode {
    let mut request = Request::builder().method(method).uri("/rooms/ada");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(axum::body::Body::empty()).unwrap();
    router.oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn a_local_host_protects_its_routes_and_makes_tokens() {
    let host = protected()
        .clock(Arc::new(TestClock::new()))
        .start_local()
        .await
        .unwrap();
    let ask = |method, token| ask(host.router(), method, token);
    assert_eq!(ask(Method::GET, None).await, StatusCode::UNAUTHORIZED);
    let reader = host.access().create_token(Role::Read).unwrap().text;
    assert_eq!(ask(Method::GET, Some(&reader)).await, StatusCode::OK);
    let refused = ask(Method::DELETE, Some(&reader)).await;
    assert_eq!(refused, StatusCode::FORBIDDEN);
    let operator = host.access().create_token(Role::Operate).unwrap().text;
    assert_eq!(ask(Method::DELETE, Some(&operator)).await, StatusCode::OK);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_local_host_is_open_unless_its_settings_ask_for_tokens() {
    let host = protected().configure(|config| config.server.access = AccessPolicy::Auto);
    let host = host.start_local().await.unwrap();
    let open = ask(host.router(), Method::DELETE, None).await;
    assert_eq!(open, StatusCode::OK);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_host_in_memory_starts_without_a_token_and_makes_one_later() {
    let host = protected().start().await.unwrap();
    let token = host.access().create_token(Role::Read).unwrap().text;
    for (token, status) in [(None, 401), (Some(token), 200)] {
        let mut asked = Request::get(format!("http://{}/rooms/ada", host.addr()));
        if let Some(token) = token {
            asked = asked.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = request(asked.body(http_body_util::Full::default()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    }
    host.shutdown().await.unwrap();
}
