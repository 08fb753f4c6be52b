//! Ids, stubs, RPC and fetch.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use abide::{Class, ErrorKind, Event, Instance, LocalFuture, Reply, prelude::*};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};

use crate::support::{World, run};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SeatError {
    Taken { by: String },
    Unknown(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seat {
    row: u32,
    letter: char,
    note: Option<String>,
}

#[derive(Default)]
struct Shared(AtomicU32);

#[durable_object]
pub(crate) struct Seats {
    env: Env,
}

impl DurableObject for Seats {
    fn new(_: Ctx, env: Env) -> Result<Self> {
        Ok(Self { env })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        match request.uri().path() {
            "/error" => Err(Error::new("no seat for you")),
            "/panic" => panic!("no seat at all"),
            _ => {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let answer = abide::http::Response::builder()
                    .status(201)
                    .header("x-method", parts.method.as_str());
                Ok(answer.body(Body::from([b"echo: ", &body[..]].concat()))?)
            }
        }
    }
}

#[rpc]
impl Seats {
    /// Takes a seat, which is always taken.
    pub async fn take(&self, seat: String, who: String) -> Result<(), SeatError> {
        if seat == "14C" {
            Err(SeatError::Taken { by: who })
        } else {
            Err(SeatError::Unknown(seat))
        }
    }

    pub async fn describe(&self, seat: Seat, times: i64) -> (Seat, i64) {
        (seat, times)
    }

    pub async fn fail(&self) -> Result<u32> {
        Err(Error::new("out of seats"))
    }

    pub async fn count(&self) -> u32 {
        self.helper()
    }

    pub async fn length(&self, text: String) -> usize {
        text.len()
    }

    pub async fn large(&self, bytes: usize) -> String {
        "x".repeat(bytes)
    }

    pub(crate) async fn ask_another(&self, name: String) -> Result<u32> {
        self.env.object::<Self>().get_by_name(&name).count().await
    }

    fn helper(&self) -> u32 {
        self.env
            .get::<Shared>()
            .map_or(0, |shared| shared.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A class with nothing.
#[durable_object]
struct Silent;

impl DurableObject for Silent {
    fn new(_: Ctx, _: Env) -> Result<Self> {
        Ok(Self)
    }
}

fn world() -> World {
    World::new(|node| {
        node.class::<Seats>(ClassOptions::default())
            .class::<Silent>(ClassOptions::default())
            .class::<Silent>(
                ClassOptions::with_unique_key("another").binding("SilentToo".to_owned()),
            )
            .with(Shared::default())
    })
}

fn seats(world: &World) -> Stub<Seats> {
    world.env().object::<Seats>().get_by_name("BA117")
}

fn get(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

#[test]
fn an_error_enum_of_the_user_arrives_as_that_enum() {
    run(async {
        let world = world();
        let seats = seats(&world);
        let taken = seats
            .take("14C".into(), "ada".into())
            .answer()
            .await
            .unwrap();
        assert_eq!(taken, Err(SeatError::Taken { by: "ada".into() }));
        let unknown = seats
            .take("99Z".into(), "ada".into())
            .answer()
            .await
            .unwrap();
        assert_eq!(unknown, Err(SeatError::Unknown("99Z".into())));
    });
}

#[test]
fn arguments_and_results_are_serde_values_and_integers_are_exact() {
    run(async {
        let world = world();
        let seat = || Seat {
            row: 14,
            letter: 'C',
            note: Some("übrig".into()),
        };
        let (back, times) = seats(&world).describe(seat(), i64::MIN).await.unwrap();
        assert_eq!((back, times), (seat(), i64::MIN));
        let untyped = world
            .env()
            .any_namespace("Seats")
            .unwrap()
            .get_by_name("BA117");
        let (back, times): (Seat, i64) = untyped.call("describe", &(seat(), 3)).await.unwrap();
        assert_eq!((back, times), (seat(), 3));
    });
}

#[test]
fn an_abide_error_in_a_result_arrives_unchanged_and_marked_remote() {
    run(async {
        let error = seats(&world()).fail().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Application, "out of seats")
        );
        assert!(error.remote() && !error.retryable() && !error.object_reset());
    });
}

#[test]
fn what_is_no_public_method_cannot_be_called() {
    run(async {
        let world = world();
        for method in ["helper", "new", "no_such_method"] {
            let error = seats(&world)
                .untyped()
                .call::<()>(method, &())
                .await
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(
                error
                    .message()
                    .contains(&format!("Seats has no RPC method `{method}`")),
                "{error}"
            );
        }
        let silent = world
            .env()
            .any_namespace("Silent")
            .unwrap()
            .get_by_name("x");
        assert_eq!(
            silent.call::<()>("anything", &()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn arguments_and_results_of_other_types_are_refused() {
    run(async {
        let world = world();
        let stub = seats(&world);
        for wrong in [
            stub.untyped().call::<()>("take", &("14C",)),
            stub.untyped().call::<()>("take", &(1, 2)),
        ] {
            let error = wrong.await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Decode);
            assert!(
                error.message().contains("the arguments of `take`"),
                "{error}"
            );
        }
        let error = stub
            .untyped()
            .call::<String>("count", &())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
    });
}

#[test]
fn messages_over_the_limit_are_refused_in_both_directions() {
    run(async {
        let world = world();
        let limit = abide::limits::MAX_RPC_BYTES;
        let error = seats(&world).length("x".repeat(limit)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let error = seats(&world).large(limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResult, "{error}");
        assert!(error.message().contains("the result takes"), "{error}");
        assert_eq!(
            seats(&world).large(1_000_000).await.unwrap().len(),
            1_000_000
        );
    });
}

#[test]
fn a_request_reaches_fetch_and_its_response_comes_back() {
    run(async {
        let world = world();
        let request = Request::builder()
            .method("PUT")
            .uri("/seat")
            .body(Body::from("14C"))
            .unwrap();
        let response = seats(&world).fetch(request).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers()["x-method"], "PUT");
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "echo: 14C"
        );
    });
}

#[test]
fn an_error_of_fetch_reaches_the_caller_as_remote() {
    run(async {
        let world = world();
        let error = seats(&world).fetch(get("/error")).await.unwrap_err();
        assert_eq!(error.message(), "no seat for you");
        assert!(error.remote());
        let error = seats(&world).fetch(get("/panic")).await.unwrap_err();
        assert!(error.object_reset() && !error.remote(), "{error:?}");
        let error = world
            .env()
            .any_namespace("Silent")
            .unwrap()
            .get_by_name("x")
            .fetch(get("/"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn objects_call_each_other_and_share_the_programs_values() {
    run(async {
        let world = world();
        assert_eq!(seats(&world).ask_another("LH400".into()).await.unwrap(), 1);
        assert_eq!(seats(&world).ask_another("BA117".into()).await.unwrap(), 2);
        let shared: Arc<Shared> = world.env().require().unwrap();
        assert_eq!(shared.0.load(Ordering::Relaxed), 2);
        assert!(world.env().get::<String>().is_none());
        assert!(
            world
                .env()
                .require::<String>()
                .unwrap_err()
                .message()
                .contains("String")
        );
    });
}

#[test]
fn ids_that_are_no_ids_or_belong_elsewhere_are_refused() {
    run(async {
        let world = world();
        let seats = world.env().object::<Seats>();
        let id = seats.id_from_name("BA117");
        assert_eq!(seats.parse_id(&id.to_string()).unwrap(), id);
        assert_ne!(seats.unique_id(), seats.unique_id());

        let error = seats.parse_id("not an id").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error.message().contains("`not an id` is not an object id"),
            "{error}"
        );

        let foreign = world
            .env()
            .any_namespace("Silent")
            .unwrap()
            .id_from_name("BA117");
        let error = seats.parse_id(&foreign.to_string()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error
                .message()
                .contains("does not belong to namespace `Seats`"),
            "{error}"
        );
        let error = seats.get(foreign).count().await.unwrap_err();
        assert!(
            error
                .message()
                .contains("does not belong to namespace `Seats`"),
            "{error}"
        );
    });
}

#[test]
fn bindings_are_found_by_class_and_by_name() {
    run(async {
        let world = world();
        let error = world.env().namespace::<Seats>("Silent").unwrap_err();
        assert_eq!(
            error.message(),
            "binding `Silent` is of class Silent, not Seats"
        );
        let error = world.env().namespace::<Seats>("NOPE").unwrap_err();
        assert!(
            error
                .message()
                .starts_with("there is no binding `NOPE`; this node has "),
            "{error}"
        );
        let names: Vec<_> = world
            .env()
            .namespaces()
            .iter()
            .map(|known| known.binding().to_owned())
            .collect();
        assert_eq!(names, ["Fence", "Seats", "Silent", "SilentToo"]);

        let ambiguous =
            std::panic::catch_unwind(AssertUnwindSafe(|| world.env().object::<Silent>()))
                .unwrap_err();
        let text = ambiguous.downcast_ref::<String>().unwrap();
        assert!(
            text.contains("Silent is registered as `Silent` and as `SilentToo`"),
            "{text}"
        );
        world.env().namespace::<Silent>("SilentToo").unwrap();
    });
}

/// A class that is not a Rust type: each instance is a table of answers.
struct Phrasebook;

struct Phrases(&'static [(&'static str, &'static str)]);

impl Class for Phrasebook {
    fn name(&self) -> &'static str {
        "Phrasebook"
    }

    fn instantiate(&self, _: Ctx, _: Env) -> Result<Box<dyn Instance>> {
        Ok(Box::new(Phrases(&[("hello", "moin"), ("bye", "tschüss")])))
    }
}

impl Instance for Phrases {
    fn deliver(&self, event: Event) -> LocalFuture<Result<Reply>> {
        let reply = match event {
            Event::Rpc { method, .. } => {
                match self.0.iter().find(|(phrase, _)| *phrase == method) {
                    // A CBOR text of up to 23 bytes.
                    Some((_, text)) => Ok(Reply::Rpc(
                        [&[0x60 + text.len() as u8], text.as_bytes()].concat(),
                    )),
                    None => Err(Error::new("no such phrase")),
                }
            }
            Event::Fetch(_) => Ok(Reply::Fetch(Response::new(Body::from("phrases")))),
            _ => Ok(Reply::Done),
        };
        Box::pin(std::future::ready(reply))
    }
}

#[test]
fn a_class_need_not_be_a_rust_type() {
    run(async {
        let class = Arc::new(Phrasebook);
        let world = World::new(|node| node.any_class(class, ClassOptions::default()));
        let phrases = world
            .env()
            .any_namespace("Phrasebook")
            .unwrap()
            .get_by_name("north");
        assert_eq!(phrases.call::<String>("bye", &()).await.unwrap(), "tschüss");
        assert!(
            phrases
                .call::<String>("thanks", &())
                .await
                .unwrap_err()
                .remote()
        );
        let body = phrases
            .fetch(get("/"))
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap();
        assert_eq!(body.to_bytes(), "phrases");
    });
}

#[test]
fn two_bindings_cannot_share_their_objects() {
    let store = abide::storage::Store::open(
        Arc::new(abide::storage::SimDisk::new()),
        std::path::Path::new("/data"),
        abide::storage::StoreOptions::small(),
    );
    let store = store.unwrap();
    let start = |first: &str, second: &str| {
        abide::Node::builder(store.clone())
            .class::<Silent>(ClassOptions::default().binding(first.to_owned()))
            .class::<Silent>(ClassOptions::default().binding(second.to_owned()))
            .start()
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert!(start("A", "B").contains("same unique key as another binding (`Silent`)"));
    assert!(start("A", "A").contains("registered twice"));
    assert!(start("", "B").contains("is not a valid binding name"));
}
