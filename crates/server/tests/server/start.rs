//! What a program does at its start, and what its handlers get from a route.

use std::sync::{Arc, Mutex};

use abide::{
    prelude::*,
    server::{ApiError, Host, HostError},
    storage::SimDisk,
};
use axum::{Router, routing::get};
use http::Method;

use crate::{
    absent::files,
    support::{Answer, ask, code},
};

#[durable_object]
struct Nightly {
    ctx: Ctx,
}

impl DurableObject for Nightly {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql()
            .exec("CREATE TABLE IF NOT EXISTS nights (at INTEGER)", ())?;
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Nightly {
    pub fn greet(&self) -> String {
        self.ctx.name().unwrap_or_default()
    }
}

#[tokio::test]
async fn a_singleton_exists_without_being_called() {
    let dir = tempfile::tempdir().unwrap();
    let stored = || files(&dir.path().join("objects"));
    let host = || Host::builder(dir.path()).object::<Nightly>();
    let host_without = host().start_local().await.unwrap();
    let name = host_without
        .env()
        .object::<Nightly>()
        .get_by_name("main")
        .greet();
    assert_eq!(name.await.unwrap(), "main");
    host_without.shutdown().await.unwrap();
    assert_eq!(stored(), 0, "it was only read");
    for _start in 0..2 {
        let with = host().singleton::<Nightly>("main");
        with.start_local().await.unwrap().shutdown().await.unwrap();
        assert_eq!(stored(), 1);
    }
}

#[tokio::test]
async fn start_hooks_run_in_order_before_the_first_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let seen = Arc::clone(&seen);
        move |env: Env| async move {
            let name = env.object::<Nightly>().get_by_name(what).greet().await?;
            seen.lock().unwrap().push(name);
            Ok(())
        }
    };
    let host = Host::open_in_memory()
        .object::<Nightly>()
        .on_start(note("first"))
        .on_start(note("second"));
    let host = host.start().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["first", "second"]);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_start_hook_that_fails_stops_the_start_and_closes_the_store() {
    let disk = Arc::new(SimDisk::new());
    let host = || {
        Host::open_in_memory()
            .disk(Arc::<SimDisk>::clone(&disk))
            .object::<Nightly>()
    };
    let failing = host().on_start(async |_| Err(Error::new("no price list")));
    let error = failing.start().await.unwrap_err();
    assert!(matches!(error, HostError::StartHook(_)), "{error}");
    assert!(error.to_string().contains("no price list"), "{error}");
    host().start().await.unwrap().shutdown().await.unwrap();
}

async fn greet(nightly: Stub<Nightly>) -> Result<String, ApiError> {
    Ok(nightly.greet().await?)
}

async fn greet_by_env(env: Env) -> Result<String, ApiError> {
    Ok(env.object::<Nightly>().get_by_name("env").greet().await?)
}

#[tokio::test]
async fn a_handler_gets_the_object_that_its_path_names() {
    let host = Host::open_in_memory().object::<Nightly>().router(|env| {
        Router::new()
            .route("/{name}/hours/{hour}", get(greet))
            .route("/unnamed", get(greet))
            .route("/env", get(greet_by_env))
            .fallback(greet)
            .with_state(env)
    });
    let host = host.start().await.unwrap();
    let ask = async |path| ask(host.addr(), Method::GET, path).await;
    let told = |answer: &Answer| (answer.status.as_u16(), code(answer));
    assert_eq!(ask("/ada/hours/3").await.body, "ada");
    assert_eq!(ask("/a%2Fb%20c/hours/3").await.body, "a/b c");
    assert_eq!(ask("/env").await.body, "env");
    let invalid = ask("/%ff/hours/3").await;
    assert_eq!(
        told(&invalid),
        (400, "bad_request".to_owned()),
        "{invalid:?}"
    );
    for path in ["/unnamed", "/none/of/the/routes"] {
        let unnamed = ask(path).await;
        assert_eq!(told(&unnamed), (500, "internal".to_owned()), "{path}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_class_that_is_not_registered_is_no_panic_in_a_handler() {
    let host = Host::open_in_memory()
        .router(|env| Router::new().route("/{name}", get(greet)).with_state(env));
    let host = host.start().await.unwrap();
    let answer = ask(host.addr(), Method::GET, "/ada").await;
    assert_eq!(
        (answer.status.as_u16(), code(&answer)),
        (500, "internal".to_owned())
    );
    host.shutdown().await.unwrap();
}
