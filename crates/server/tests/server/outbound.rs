//! The host's HTTP client: what objects can reach, and how requests end that take too long or are too many.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    ErrorKind, NoRedirects,
    prelude::*,
    server::{Config, Host, LocalHost},
};
use abide_harness::Nobody;
use axum::{
    Router,
    extract::{ConnectInfo, Path},
    response::Redirect,
    routing::{any, get, post},
};
use http_body_util::BodyExt;
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore},
};

#[durable_object]
struct Reader {
    env: Env,
}

impl DurableObject for Reader {
    fn new(_: Ctx, env: Env) -> Result<Self> {
        Ok(Self { env })
    }

    /// Hands the request on, and the response back.
    async fn fetch(&self, request: Request) -> Result<Response> {
        self.env.fetch(request).await
    }
}

#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
#[rpc]
impl Reader {
    /// Status and body.
    pub async fn read(&self, url: String) -> Result<(u16, String)> {
        let request = Request::builder().uri(url).body(Body::empty())?;
        let response = self.env.fetch(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The status, and then the body piece by piece as a test gives leave.
    pub async fn read_slowly(&self, url: String) -> Result<Vec<String>> {
        let request = Request::builder().uri(url).body(Body::empty())?;
        let mut body = self.env.fetch(request).await?.into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                pieces.push(String::from_utf8_lossy(&data).into_owned());
                self.env.require::<Arc<Upstream>>()?.read.notify_one();
            }
        }
        Ok(pieces)
    }
}

/// A semaphore that begins empty.
struct Permits(Semaphore);

impl Default for Permits {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// A server of the world outside.
#[derive(Default)]
struct Upstream {
    /// Requests that it has seen.
    seen: AtomicUsize,
    arrived: Notify,
    /// Leave to answer, for `/wait`, or to send the next piece, for `/pieces`.
    go: Permits,
    read: Notify,
}

impl Upstream {
    async fn start(self: &Arc<Self>, at: &str) -> SocketAddr {
        let listener = TcpListener::bind(at).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let upstream = Arc::clone(self);
        let wait = async move || {
            upstream.seen.fetch_add(1, Ordering::SeqCst);
            upstream.arrived.notify_one();
            upstream.go.0.acquire().await.unwrap().forget();
            "waited"
        };
        let upstream = Arc::clone(self);
        let pieces = async move || {
            let pieces = futures_util::stream::unfold(0, move |number| {
                let upstream = Arc::clone(&upstream);
                async move {
                    upstream.go.0.acquire().await.unwrap().forget();
                    let piece = Ok::<_, std::convert::Infallible>(format!("piece {number}"));
                    (number < 3).then_some((piece, number + 1))
                }
            });
            Body::from_stream(pieces)
        };
        let upstream = Arc::clone(self);
        let collect = async move |request: Request| {
            upstream.arrived.notify_one();
            echo(request).await
        };
        let router = Router::new()
            .route("/collect", post(collect))
            .route("/hello", get(async || "hello"))
            .route("/wait", get(wait))
            .route("/pieces", get(pieces))
            .route("/echo", post(echo))
            .route("/loop", any(async || Redirect::temporary("/loop")))
            .route(
                "/to/{*address}",
                any(async |Path(address): Path<String>| {
                    Redirect::temporary(&format!("http://{address}"))
                }),
            )
            .route(
                "/see/{*address}",
                any(async |Path(address): Path<String>| Redirect::to(&format!("http://{address}"))),
            )
            .route("/ftp", get(async || Redirect::to("ftp://example.com/")))
            .route("/headers", any(headers))
            .route(
                "/from",
                get(async |ConnectInfo(from): ConnectInfo<SocketAddr>| from.to_string()),
            )
            .into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, router).await });
        addr
    }
}

/// Answers with what of the request a proxy must pass on, and what it must not.
async fn echo(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = |name: &str| {
        let value = parts.headers.get(name)?;
        Some(value.to_str().unwrap_or_default().to_owned())
    };
    let text = format!(
        "{} host={} length={:?} mine={:?} keep-alive={:?} body={}",
        parts.method,
        header("host").unwrap_or_default(),
        header("content-length"),
        header("x-mine"),
        header("keep-alive"),
        String::from_utf8_lossy(&body)
    );
    Response::builder()
        .header("x-upstream", "yes")
        .header("keep-alive", "timeout=5")
        .body(Body::from(text))
        .unwrap()
}

/// Answers with the method, the headers that objects have set, and the body.
async fn headers(request: Request) -> String {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let names = ["authorization", "content-type", "cookie", "x-mine"].into_iter();
    let shown = names.filter_map(|name| Some((name, parts.headers.get(name)?.to_str().unwrap())));
    let headers: Vec<_> = shown
        .map(|(name, value)| format!("{name}={value} "))
        .collect();
    let body = String::from_utf8_lossy(&body);
    format!("{} {}{body}", parts.method, headers.concat())
}

async fn host(upstream: &Arc<Upstream>, change: impl FnOnce(&mut Config)) -> LocalHost {
    Host::open_in_memory()
        .object::<Reader>()
        .with(Arc::clone(upstream))
        .configure(|c| {
            c.outbound.allow_private = "127.0.0.1, ::1".parse().unwrap();
            change(c);
        })
        .start_local()
        .await
        .unwrap()
}

fn reader(host: &LocalHost) -> Stub<Reader> {
    host.env().object::<Reader>().get_by_name("reader")
}

async fn read(host: &LocalHost, url: String) -> Result<(u16, String)> {
    reader(host).read(url).await
}

#[tokio::test]
async fn an_object_reaches_a_server_and_gets_its_answer() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;
    let answer = read(&host, format!("http://{addr}/hello")).await;
    assert_eq!(answer.unwrap(), (200, "hello".to_owned()));
    let answer = read(&host, format!("http://{addr}/nothing")).await;
    assert_eq!(answer.unwrap().0, 404, "a status is not an error");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn hop_by_hop_headers_are_not_passed_on() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;
    let request = Request::builder()
        .method("POST")
        .uri(format!("http://{addr}/echo"))
        .header("host", "elsewhere.test")
        .header("connection", "x-hop, keep-alive")
        .header("keep-alive", "timeout=1")
        .header("x-hop", "1")
        .header("x-mine", "kept")
        .body(Body::from("moin"))
        .unwrap();
    let response = reader(&host).fetch(request).await.unwrap();
    assert_eq!(response.headers()["x-upstream"], "yes");
    assert!(!response.headers().contains_key("keep-alive"));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        String::from_utf8_lossy(&body),
        format!(
            "POST host={addr} length=Some(\"4\") mine=Some(\"kept\") keep-alive=None body=moin"
        )
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_streams_in_both_directions() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;

    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel::<&str>();
    let pieces = futures_util::stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), receiver))
    });
    let request = Request::builder()
        .method("POST")
        .uri(format!("http://{addr}/collect"))
        .body(Body::from_stream(pieces))
        .unwrap();
    let call = reader(&host).fetch(request);
    // The request is on its way before its body is complete.
    upstream.arrived.notified().await;
    for piece in ["a", "b", "c"] {
        sender.send(piece).unwrap();
    }
    drop(sender);
    let body = call.await.unwrap().into_body().collect().await.unwrap();
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    assert!(
        body.contains("length=None") && body.ends_with("body=abc"),
        "{body}"
    );

    let reading = reader(&host).read_slowly(format!("http://{addr}/pieces"));
    for _ in 0..3 {
        // The next piece is sent only when the object has read the one before it.
        upstream.go.0.add_permits(1);
        upstream.read.notified().await;
    }
    upstream.go.0.add_permits(1);
    assert_eq!(reading.await.unwrap(), ["piece 0", "piece 1", "piece 2"]);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn addresses_that_are_not_of_the_public_internet_are_refused() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let port = addr.port();
    let host = host(&upstream, |c| {
        c.outbound.allow_private = "false".parse().unwrap();
    })
    .await;
    for url in [
        format!("http://127.0.0.1:{port}/wait"),
        format!("http://0x7f.1:{port}/wait"),
        format!("http://2130706433:{port}/wait"),
        format!("http://[::ffff:127.0.0.1]:{port}/wait"),
        format!("http://localhost:{port}/wait"),
        format!("http://0.0.0.0:{port}/wait"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "https://[fd00:ec2::254]/".to_owned(),
    ] {
        let error = read(&host, url.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{url}: {error}");
        assert!(
            error.message().contains("outbound.allow_private"),
            "{error}"
        );
    }
    assert_eq!(upstream.seen.load(Ordering::SeqCst), 0);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_followed_and_one_to_a_forbidden_address_is_refused() {
    let (public, private) = (Arc::new(Upstream::default()), Arc::new(Upstream::default()));
    let at = public.start("127.0.0.1:0").await;
    let hidden = private.start("127.0.0.2:0").await;
    // To this host, 127.0.0.1 alone stands for the public internet.
    let host = host(&public, |_| {}).await;
    let followed = read(&host, format!("http://{at}/to/{at}/hello")).await;
    assert_eq!(followed.unwrap(), (200, "hello".to_owned()));

    let refused = read(&host, format!("http://{at}/to/{hidden}/wait")).await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(error.message().contains("127.0.0.2"), "{error}");
    assert_eq!(private.seen.load(Ordering::SeqCst), 0);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn endless_redirects_are_given_up_and_redirects_can_be_disabled() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |c| c.outbound.max_redirects = 3).await;
    let error = read(&host, format!("http://{addr}/loop"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.message().contains("more than 3 times"), "{error}");
    host.shutdown().await.unwrap();

    let host = self::host(&upstream, |c| c.outbound.max_redirects = 0).await;
    let answer = read(&host, format!("http://{addr}/loop")).await;
    assert_eq!(answer.unwrap().0, 307);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_handed_back_to_a_request_that_says_so() {
    let upstream = Arc::new(Upstream::default());
    let at = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;
    let request = Request::get(format!("http://{at}/to/{at}/wait"))
        .extension(NoRedirects)
        .body(Body::empty());
    let response = host.env().fetch(request.unwrap()).await.unwrap();
    assert!(response.status().is_redirection());
    assert!(response.headers().contains_key("location"));
    assert_eq!(upstream.seen.load(Ordering::SeqCst), 0);
    host.shutdown().await.unwrap();
}

/// Sends a request with credentials; returns the response's status and body.
async fn submit(host: &LocalHost, url: String, body: Body) -> (u16, String) {
    let request = Request::post(url)
        .header("authorization", "Bearer secret")
        .header("content-type", "text/plain")
        .header("cookie", "session=secret")
        .header("x-mine", "kept")
        .body(body);
    let response = host.env().fetch(request.unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// A server at two addresses.
async fn two_origins() -> (Arc<Upstream>, SocketAddr, SocketAddr) {
    let upstream = Arc::new(Upstream::default());
    let first = upstream.start("127.0.0.1:0").await;
    let second = upstream.start("127.0.0.1:0").await;
    (upstream, first, second)
}

#[tokio::test]
async fn credentials_go_to_the_first_origin_alone() {
    let (upstream, at, other) = two_origins().await;
    let host = host(&upstream, |_| {}).await;
    let with = "POST authorization=Bearer secret content-type=text/plain cookie=session=secret x-mine=kept moin";
    let without = "POST content-type=text/plain x-mine=kept moin";
    for (path, expected) in [
        (format!("to/{at}/headers"), with),
        (format!("to/{other}/headers"), without),
        (format!("to/{other}/to/{other}/headers"), without),
        (format!("to/{other}/to/{at}/headers"), without),
    ] {
        let answer = submit(&host, format!("http://{at}/{path}"), Body::from("moin")).await;
        assert_eq!(answer, (200, expected.to_owned()), "{path}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_user_and_a_password_in_a_url_are_sent_as_a_header_and_no_further() {
    let (upstream, at, other) = two_origins().await;
    let host = host(&upstream, |_| {}).await;
    let fetch = async |path: String, authorization: Option<&str>| {
        let mut request = Request::get(format!("http://me:my%20secret@{at}/{path}"));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let response = host.env().fetch(request.body(Body::empty()).unwrap()).await;
        let body = response.unwrap().into_body().collect().await.unwrap();
        String::from_utf8_lossy(&body.to_bytes()).into_owned()
    };
    // `me:my secret` in Base64.
    let basic = "GET authorization=Basic bWU6bXkgc2VjcmV0 ";
    assert_eq!(fetch("headers".to_owned(), None).await, basic);
    let own = fetch("headers".to_owned(), Some("Bearer mine")).await;
    assert_eq!(own, "GET authorization=Bearer mine ");
    assert_eq!(fetch(format!("to/{other}/headers"), None).await, "GET ");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_redirect_repeats_the_body_that_it_asks_for_if_that_is_possible() {
    let upstream = Arc::new(Upstream::default());
    let at = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;
    let stream = || {
        let piece = async { Ok::<_, std::convert::Infallible>("moin") };
        Body::from_stream(futures_util::stream::once(piece))
    };
    let repeat = format!("http://{at}/to/{at}/headers");
    let (status, body) = submit(&host, repeat.clone(), Body::from("moin")).await;
    assert!(status == 200 && body.ends_with(" moin"), "{status} {body}");
    assert_eq!(submit(&host, repeat, stream()).await.0, 307);
    // This one asks for a GET.
    let look = format!("http://{at}/see/{at}/headers");
    for body in [Body::from("moin"), stream()] {
        let (status, body) = submit(&host, look.clone(), body).await;
        let expected = "GET authorization=Bearer secret cookie=session=secret x-mine=kept ";
        assert_eq!((status, &*body), (200, expected));
    }
    let error = read(&host, format!("http://{at}/ftp")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_next_request_uses_the_same_connection() {
    let upstream = Arc::new(Upstream::default());
    let at = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |_| {}).await;
    let url = format!("http://{at}/from");
    let first = read(&host, url.clone()).await.unwrap();
    assert_eq!(read(&host, url).await.unwrap(), first);
    let redirected = read(&host, format!("http://{at}/to/{at}/from")).await;
    assert_eq!(redirected.unwrap(), first);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_in_time_is_given_up() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |c| {
        c.outbound.request_timeout = Duration::from_millis(50);
    })
    .await;
    let error = read(&host, format!("http://{addr}/wait"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(!error.object_reset() && error.message().contains("outbound.request_timeout"));
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_body_that_pauses_too_long_breaks_off() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |c| {
        c.outbound.read_timeout = Duration::from_millis(50);
    })
    .await;
    // On a busy machine the first piece may be late already.
    upstream.go.0.add_permits(1);
    let reading = reader(&host).read_slowly(format!("http://{addr}/pieces"));
    let error = reading.await.unwrap_err();
    assert!(error.message().contains("outbound.read_timeout"), "{error}");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn too_many_requests_are_refused_before_anything_of_them_is_sent() {
    let upstream = Arc::new(Upstream::default());
    let addr = upstream.start("127.0.0.1:0").await;
    let host = host(&upstream, |c| {
        c.outbound.max_in_flight = 1;
        c.outbound.max_queued = 1;
    })
    .await;
    let url = format!("http://{addr}/wait");
    let first = reader(&host).read(url.clone());
    upstream.arrived.notified().await;
    // Of two that come now one waits and one is refused, whichever is first.
    let (second, third) = (reader(&host).read(url.clone()), reader(&host).read(url));
    let (refused, waits) = match futures_util::future::select(second, third).await {
        futures_util::future::Either::Left(one) | futures_util::future::Either::Right(one) => one,
    };
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
    assert!(
        error.message().contains("outbound.max_in_flight"),
        "{error}"
    );
    assert_eq!(upstream.seen.load(Ordering::SeqCst), 1);
    upstream.go.0.add_permits(2);
    assert_eq!(first.await.unwrap().1, "waited");
    assert_eq!(waits.await.unwrap().1, "waited");
    assert_eq!(upstream.seen.load(Ordering::SeqCst), 2);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_nothing_was_sent() {
    let upstream = Arc::new(Upstream::default());
    let nobody = Nobody::new();
    let host = host(&upstream, |_| {}).await;
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = format!("http://{}/", nobody.address()).parse().unwrap();
    let error = host.env().fetch(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.retryable() && !error.remote());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused() {
    let host = host(&Arc::default(), |_| {}).await;
    for url in ["ftp://example.com/", "/path"] {
        let error = read(&host, url.to_owned()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{url}: {error}");
    }
    host.shutdown().await.unwrap();
}
