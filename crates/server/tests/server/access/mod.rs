//! Who may do what: every protected route of every listener, for each kind of caller.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod audit;
mod components;
mod local;
mod streams;

use crate::support;
use std::{cell::RefCell, fmt::Write as _, net::SocketAddr, path::Path, rc::Rc, time::Duration};

use crate::support::connect;
use abide::{
    prelude::*,
    server::{
        ApiError, Config, Host, HostBuilder, HostError, Hosts, ListenAddress, RunningHost,
        access::{Access, AccessPolicy, AccessStore, Caller, Need, NewToken, Role},
    },
};
use axum::{Router, routing::get};
use http::{StatusCode, header::AUTHORIZATION};
use tokio::io::AsyncReadExt;

/// Counts. It has two components, which note what they are asked, and takes WebSockets.
#[durable_object]
struct Counter {
    ctx: Ctx,
    asked: Rc<RefCell<Vec<String>>>,
}

impl DurableObject for Counter {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let asked = Rc::<RefCell<Vec<String>>>::default();
        for component in ["hall", "other"] {
            let asked = Rc::clone(&asked);
            ctx.serve_operations(component, move |request: Request| {
                let path = request.uri().path().to_owned();
                let note = format!("{component} {} {path}", request.method());
                asked.borrow_mut().push(note);
                async move {
                    if path == "/wait" {
                        std::future::pending::<()>().await;
                    }
                    Ok(Response::new(Body::empty()))
                }
            })?;
        }
        Ok(Self { ctx, asked })
    }

    async fn fetch(&self, _: Request) -> Result<Response> {
        let (_, response) = self.ctx.accept_websocket(&[])?;
        Ok(response)
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Counter {
    pub async fn add(&self) -> Result<u64> {
        let count: u64 = self.ctx.storage().get("count")?.unwrap_or(0) + 1;
        self.ctx.storage().put("count", &count)?;
        Ok(count)
    }

    /// What its components were asked, in order.
    pub async fn asked(&self) -> Result<Vec<String>> {
        Ok(self.asked.borrow().clone())
    }
}

/// A host with an API of calls, its own routes that are protected, and one that is not.
fn builder(data: &Path, configure: impl FnOnce(&mut Config)) -> HostBuilder {
    Host::builder(data)
        .object::<Counter>()
        .json_rpc()
        .router(|env| {
            let room = get(async |caller: Caller| caller.to_string()).put(async || "kept");
            let rooms = Router::new().route("/rooms/{name}", room);
            let rooms = Access::of(&env).protect(rooms, |route| {
                Need::by_method(route.method).object("Room", route.param("name"))
            });
            let endless = async || {
                axum::body::Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>>>())
            };
            let counters = env.object::<Counter>();
            let streams = Router::new()
                .route("/streams/{name}/endless", get(endless))
                .route(
                    "/streams/{name}/socket",
                    get(async move |request: Request| {
                        let answer = counters.get_by_name("streams").fetch(request).await;
                        answer.map_err(ApiError::from)
                    }),
                );
            let streams = Access::of(&env).protect(streams, |route| {
                Need::by_method(route.method).object("Stream", route.param("name"))
            });
            rooms.merge(streams).route("/hello", get(async || "hello"))
        })
        .configure(|config| {
            config.server.listen = ListenAddress::any_port();
            config.admin.listen = Some(ListenAddress::any_port());
            configure(config);
        })
}

/// A data directory with its tokens.
struct World {
    dir: tempfile::TempDir,
    store: AccessStore,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = AccessStore::open(dir.path()).unwrap();
        Self { dir, store }
    }

    fn token(&self, role: Role, change: impl FnOnce(&mut NewToken)) -> String {
        let mut new = NewToken::new(role);
        change(&mut new);
        self.store.create_token(new).unwrap().text
    }

    /// One that waits for no body.
    async fn impatient_host(&self) -> RunningHost {
        let configure = |config: &mut Config| {
            config.server.access = AccessPolicy::Token;
            config.server.body_timeout = Duration::from_millis(100);
        };
        builder(self.dir.path(), configure).start().await.unwrap()
    }

    async fn host(&self) -> RunningHost {
        let token = |config: &mut Config| {
            config.server.access = AccessPolicy::Token;
            config.server.shutdown_grace = Duration::from_secs(1);
        };
        builder(self.dir.path(), token).start().await.unwrap()
    }
}

/// Sends a request, and returns its status and the whole of the answer.
async fn answer(addr: SocketAddr, route: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let body = if route.contains("/rpc/") { "[]" } else { "" };
    let mut request = format!(
        "{route} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    let mut stream = connect(addr, &format!("{request}\r\n{body}")).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

async fn with_token(addr: SocketAddr, route: &str, token: &str) -> (u16, String) {
    let bearer = format!("Bearer {token}");
    answer(addr, route, &[("authorization", &bearer)]).await
}

/// Every protected route of both listeners, and the role that it needs.
fn routes(host: &RunningHost) -> Vec<(SocketAddr, &'static str, Role)> {
    let (public, admin) = (host.addr(), host.admin_addr().unwrap());
    vec![
        (public, "GET /rooms/a", Role::Read),
        (public, "PUT /rooms/a", Role::Operate),
        (public, "POST /rpc/Counter/a/add", Role::Operate),
        (public, "POST /rpc/NOTHING/a/add", Role::Operate),
        (admin, "GET /alarms", Role::Read),
        (admin, "GET /quarantined", Role::Read),
        (admin, "GET /dormant", Role::Read),
        (admin, "GET /objects/Counter/a/bookmark", Role::Read),
        (admin, "GET /objects/Counter/a/timeline", Role::Read),
        (admin, "POST /alarms/Counter/a/rerun", Role::Operate),
        (admin, "POST /objects/Counter/a/restore", Role::Admin),
        (admin, "POST /objects/Counter/a/fork", Role::Admin),
        (admin, "POST /objects/Counter/a/repair", Role::Admin),
        (admin, "POST /objects/Counter/a/import", Role::Admin),
        (admin, "POST /cuts", Role::Admin),
        (admin, "GET /cuts/any/objects", Role::Read),
    ]
}

#[tokio::test]
async fn every_route_requires_a_valid_token_of_a_high_enough_role() {
    let world = World::new();
    let roles = [Role::Read, Role::Operate, Role::Admin];
    let tokens = roles.map(|role| (role, world.token(role, |_| {})));
    let short = |token: &mut NewToken| token.lifetime = Some(Duration::from_millis(1));
    let expired = world.token(Role::Admin, short);
    let revoked = world.token(Role::Admin, |_| {});
    let id = revoked.split('_').nth(1).unwrap();
    assert!(world.store.revoke_token(id).unwrap());
    let elsewhere = World::new().token(Role::Admin, |_| {});
    tokio::time::sleep(Duration::from_millis(2)).await;
    let host = world.host().await;
    for (addr, route, needed) in routes(&host) {
        // Each route has its own client: who fails too often is refused.
        let (status, told) = answer(addr, route, &[]).await;
        assert!(
            status == 401 && told.contains("token_missing"),
            "{route}: {told}"
        );
        assert!(told.contains("www-authenticate: Bearer"), "{told}");
        for (role, token) in &tokens {
            let (status, told) = with_token(addr, route, token).await;
            if *role < needed {
                assert!(
                    status == 403 && told.contains("role_too_low"),
                    "{route}: {told}"
                );
            } else {
                assert!(![401, 403].contains(&status), "{route}: {told}");
            }
        }
    }
    let (addr, route, _) = routes(&host)[0];
    for (token, code) in [
        (&*expired, "token_expired"),
        (&revoked, "token_revoked"),
        (&elsewhere, "token_invalid"),
        ("abide_", "token_invalid"),
        ("", "token_"),
    ] {
        let (status, told) = with_token(addr, route, token).await;
        assert!(status == 401 && told.contains(code), "{token}: {told}");
    }
    // What needs no token has none to fail.
    let admin = host.admin_addr().unwrap();
    for (addr, route) in [
        (host.addr(), "GET /hello"),
        (admin, "GET /healthz"),
        (admin, "GET /readyz"),
        (admin, "GET /metrics"),
    ] {
        assert_eq!(answer(addr, route, &[]).await.0, 200, "{route}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_token_for_certain_objects_reaches_no_other_and_no_list() {
    let world = World::new();
    let only = |token: &mut NewToken| token.object_prefix = Some("Counter/a".to_owned());
    let token = world.token(Role::Admin, only);
    let host = world.host().await;
    let (public, admin) = (host.addr(), host.admin_addr().unwrap());
    let id = host.env().object::<Counter>().get_by_name("a").id();
    for (addr, route, may) in [
        (public, "POST /rpc/Counter/a/add", true),
        (public, "POST /rpc/Counter/%61bc/add", true),
        (public, "POST /rpc/Counter/b/add", false),
        (public, "POST /rpc/NOTHING/a/add", false),
        (public, "GET /rooms/a", false),
        (admin, "GET /objects/Counter/a/bookmark", true),
        (admin, "GET /objects/Counter/b/bookmark", false),
        (admin, &format!("GET /objects/Counter/{id}/bookmark"), false),
        (admin, "GET /alarms", false),
        (admin, "GET /quarantined", false),
        (admin, "GET /dormant", false),
        (admin, "POST /objects/Counter/a/import", true),
        (admin, "POST /objects/Counter/b/import", false),
        (admin, "POST /cuts", false),
        (admin, "GET /cuts/any/objects", false),
    ] {
        let (status, told) = with_token(addr, route, &token).await;
        let refused = status == 403 && told.contains("object_not_allowed");
        assert_eq!(refused, !may, "{route}: {told}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_digits_of_an_id_are_no_name() {
    let world = World::new();
    world.token(Role::Read, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let id = host.env().object::<Counter>().get_by_name("b").id();
    // A name may look like the beginning of an id.
    for digits in [1, 4, 63, 64] {
        let name = format!("Counter/{}", &id.to_string()[..digits]);
        let only = |token: &mut NewToken| token.object_prefix = Some(name.clone());
        let token = world.token(Role::Admin, only);
        for route in [
            format!("GET /objects/Counter/{id}/bookmark"),
            format!("POST /objects/Counter/{id}/restore"),
            format!("GET /objects/Counter/{id}/components"),
            format!("POST /alarms/Counter/{id}/rerun"),
        ] {
            let (status, told) = with_token(admin, &route, &token).await;
            let refused = status == 403 && told.contains("object_not_allowed");
            assert!(refused, "{name}: {route}: {told}");
        }
    }
    for prefix in ["Counter/", "Count", ""] {
        let all = |token: &mut NewToken| token.object_prefix = Some(prefix.to_owned());
        let token = world.token(Role::Admin, all);
        let route = format!("GET /objects/Counter/{id}/bookmark");
        let (status, told) = with_token(admin, &route, &token).await;
        assert!(![401, 403].contains(&status), "{prefix}: {told}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_fork_stays_among_the_objects_of_its_token() {
    let world = World::new();
    let only = |token: &mut NewToken| token.object_prefix = Some("Counter/a".to_owned());
    let token = world.token(Role::Admin, only);
    let host = world.host().await;
    let counters = host.env().object::<Counter>();
    counters.get_by_name("a").add().await.unwrap();
    for (name, may) in [("b", false), ("a copy", true)] {
        let body = format!(r#"{{"time":9999999999999,"name":"{name}"}}"#);
        let path = "/objects/Counter/a/fork";
        let told = post(host.admin_addr().unwrap(), path, &token, &body).await;
        let refused = told.starts_with("HTTP/1.1 403") && told.contains("object_not_allowed");
        assert_eq!(refused, !may, "{name}: {told}");
        let count = counters.get_by_name(name).add().await.unwrap();
        assert_eq!(count, if may { 2 } else { 1 }, "{name}");
    }
    // An id reveals no name, so it needs a token for the whole class.
    let of_class = |token: &mut NewToken| token.object_prefix = Some("Counter/".to_owned());
    let of_class = world.token(Role::Admin, of_class);
    let id = counters.unique_id();
    let body = format!(r#"{{"time":9999999999999,"name":"{id}","class":"Counter"}}"#);
    for (token, status) in [(&token, 403), (&of_class, 200), (&of_class, 400)] {
        let path = "/objects/Counter/a/fork";
        let told = post(host.admin_addr().unwrap(), path, token, &body).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{told}");
    }
    assert_eq!(counters.get(id).add().await.unwrap(), 2);
    let body = r#"{"time":9999999999999,"name":"x","class":"Unknown"}"#;
    let path = "/objects/Counter/a/fork";
    let told = post(host.admin_addr().unwrap(), path, &of_class, body).await;
    assert!(told.contains("no_such_class"), "{told}");
    host.shutdown().await.unwrap();
}

/// Posts JSON with a token.
async fn post(addr: SocketAddr, path: &str, token: &str, body: &str) -> String {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    support::read_to_end(connect(addr, &request).await).await
}

#[tokio::test]
async fn a_client_that_guesses_waits_and_valid_tokens_pass() {
    let world = World::new();
    let token = world.token(Role::Read, |_| {});
    let host = world.host().await;
    let (addr, route, _) = routes(&host)[0];
    let mut wrong = token.clone();
    wrong.replace_range(wrong.len() - 4..wrong.len() - 1, "AAA");
    let mut refused = 0;
    loop {
        let (status, told) = with_token(addr, route, &wrong).await;
        if status == 429 {
            assert!(told.contains("retry-after: "), "{told}");
            break;
        }
        assert_eq!(status, 401, "{told}");
        refused += 1;
        assert!(refused <= 20, "it is not stopped");
    }
    assert_eq!(with_token(addr, route, &token).await.0, 200);
    // Another listener of the same host counts the same failures.
    let (admin, route, _) = routes(&host)[4];
    assert_eq!(with_token(admin, route, &wrong).await.0, 429);
    assert_eq!(with_token(admin, route, &token).await.0, 200);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_browser_logs_in_with_the_token_as_its_password() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let world = World::new();
    let token = world.token(Role::Read, |_| {});
    let host = world.host().await;
    let login = |text: String| format!("Basic {}", BASE64_STANDARD.encode(text));
    for (login, status) in [
        (login(format!("ada:{token}")), 200),
        (login(format!("{token}:")), 401),
        (login(token.clone()), 401),
        ("Basic ?".to_owned(), 401),
    ] {
        let told = answer(host.addr(), "GET /rooms/a", &[("authorization", &login)]).await;
        assert_eq!(told.0, status, "{login}: {}", told.1);
    }
    let bearer = format!("Bearer {token}");
    let twice = [("authorization", &*bearer), ("authorization", &*bearer)];
    assert_eq!(answer(host.addr(), "GET /rooms/a", &twice).await.0, 401);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_others_can_reach_starts_with_a_token_or_open_on_purpose() {
    let everywhere = |config: &mut Config| {
        config.server.listen = SocketAddr::from(([0, 0, 0, 0], 0)).into();
    };
    let proxied = |config: &mut Config| {
        config.server.hosts = Hosts::Named(vec!["api.example.com".to_owned()]);
    };
    let changes: [&dyn Fn(&mut Config); 2] = [&everywhere, &proxied];
    for change in changes {
        let world = World::new();
        let refused = builder(world.dir.path(), change);
        let refused = refused.on_start(async |_| panic!("a host that is refused does no work"));
        let refused = refused.start().await.unwrap_err();
        assert!(matches!(refused, HostError::NoToken { .. }), "{refused}");
        assert!(
            refused.to_string().contains("abide token create"),
            "{refused}"
        );
        let open = |config: &mut Config| {
            change(config);
            config.server.access = AccessPolicy::Open;
        };
        let host = builder(world.dir.path(), open).start().await.unwrap();
        host.shutdown().await.unwrap();
        world.token(Role::Read, |_| {});
        let host = builder(world.dir.path(), change).start().await.unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], host.addr().port()));
        assert_eq!(answer(addr, "GET /rooms/a", &[]).await.0, 401);
        host.shutdown().await.unwrap();
    }
    // On a loopback address nothing is needed.
    let world = World::new();
    let host = builder(world.dir.path(), |_| {}).start().await.unwrap();
    let told = answer(host.addr(), "GET /rooms/a", &[]).await;
    assert!(told.0 == 200 && told.1.ends_with("anyone"), "{}", told.1);
    let admin = host.admin_addr().unwrap();
    assert_eq!(answer(admin, "GET /alarms", &[]).await.0, 401);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn metrics_that_others_can_reach_need_a_token() {
    let world = World::new();
    let token = world.token(Role::Read, |_| {});
    let everywhere = |config: &mut Config| {
        config.admin.listen = Some(SocketAddr::from(([0, 0, 0, 0], 0)).into());
    };
    let host = builder(world.dir.path(), everywhere).start().await.unwrap();
    let addr = SocketAddr::from(([127, 0, 0, 1], host.admin_addr().unwrap().port()));
    assert_eq!(answer(addr, "GET /metrics", &[]).await.0, 401);
    assert_eq!(with_token(addr, "GET /metrics", &token).await.0, 200);
    assert_eq!(answer(addr, "GET /healthz", &[]).await.0, 200);
    assert_eq!(answer(addr, "GET /readyz", &[]).await.0, 200);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_program_s_own_check_decides_in_place_of_tokens() {
    let world = World::new();
    let host = builder(world.dir.path(), |config| {
        config.server.access = AccessPolicy::Token;
    })
    .authorize(|request, _| match request.headers.get(AUTHORIZATION) {
        Some(name) if name == "ada" => Ok(Caller::new("ada", Role::Operate).for_objects("Room/")),
        _ => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "who",
            "Say who you are.",
        )),
    })
    .start()
    .await
    .unwrap();
    let ada = [("authorization", "ada")];
    let told = answer(host.addr(), "GET /rooms/a", &ada).await;
    assert!(told.0 == 200 && told.1.ends_with("ada"), "{}", told.1);
    assert_eq!(
        answer(host.addr(), "POST /rpc/Counter/a/add", &ada).await.0,
        403
    );
    let told = answer(host.addr(), "GET /rooms/a", &[]).await;
    assert!(told.0 == 401 && told.1.contains("who"), "{}", told.1);
    host.shutdown().await.unwrap();
}

/// A token whose secret has a hash that begins as that of another token's does.
fn forged(token: &str) -> String {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    use sha2::{Digest, Sha256};
    let [prefix, id, secret] = token.splitn(3, '_').collect::<Vec<_>>()[..] else {
        panic!("no token");
    };
    let first = |secret: &[u8]| Sha256::digest(secret)[0];
    let wanted = first(&BASE64_URL_SAFE_NO_PAD.decode(secret).unwrap());
    let mut secrets = (0_u64..).map(|number| {
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&number.to_le_bytes());
        secret
    });
    let secret = secrets.find(|secret| first(secret) == wanted).unwrap();
    format!("{prefix}_{id}_{}", BASE64_URL_SAFE_NO_PAD.encode(secret))
}

#[tokio::test]
async fn a_secret_whose_hash_begins_alike_opens_nothing() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let host = world.host().await;
    let (addr, route, _) = routes(&host)[0];
    let (status, told) = with_token(addr, route, &forged(&token)).await;
    assert!(status == 401 && told.contains("token_invalid"), "{told}");
    assert_eq!(with_token(addr, route, &token).await.0, 200);
    host.shutdown().await.unwrap();
}
