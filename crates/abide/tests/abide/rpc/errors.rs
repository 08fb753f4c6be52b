//! The errors of calls, and what a caller may conclude from them.

use std::time::Duration;

use abide::{ErrorKind, prelude::*};
use serde::{Deserialize, Serialize};

use crate::support::{Signals, World, run, signals};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SeatError {
    Taken { by: String, since: u64 },
    NoSuchSeat,
    Failed(Error),
}

impl From<Error> for SeatError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[durable_object]
struct Desk {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Desk {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

#[rpc]
impl Desk {
    pub async fn take(&self, seat: String) -> Result<u32, SeatError> {
        match seat.as_str() {
            "14C" => Err(SeatError::Taken {
                by: "ada".into(),
                since: u64::MAX,
            }),
            _ => Err(SeatError::NoSuchSeat),
        }
    }

    /// Asks another desk, which may ask a third.
    pub(crate) async fn take_at(
        &self,
        mut desks: Vec<String>,
        seat: String,
    ) -> Result<Result<u32, SeatError>> {
        match desks.pop() {
            Some(desk) => self.desk(&desk).take_at(desks, seat).await,
            None => Ok(self.take(seat).await),
        }
    }

    pub async fn wait(&self) {
        self.signals.give("waiting");
        self.signals.wait("go").await;
    }

    pub async fn close_the_gate(&self) -> Result<()> {
        let signals = self.signals.clone();
        let closed = self.ctx.block_concurrency_while(async move {
            signals.give("closed");
            signals.wait("open").await;
            Err(Error::new("no configuration"))
        });
        closed.await
    }

    pub async fn panic(&self) {
        panic!("on purpose");
    }

    /// The error of a call of another object, as this object's own result.
    pub async fn wait_at(&self, desk: String) -> Result<()> {
        self.desk(&desk).wait().await
    }

    pub async fn give_up(&self) -> Result<()> {
        Err(Error::with_kind(
            ErrorKind::Timeout,
            "the printer does not answer",
        ))
    }

    pub async fn seat(&self, seat: String) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS seats (seat TEXT UNIQUE)", ())?;
        sql.exec("INSERT INTO seats VALUES (?1)", (seat,))?;
        Ok(())
    }

    fn desk(&self, name: &str) -> Stub<Self> {
        self.ctx.env().object::<Self>().get_by_name(name)
    }
}

fn world(options: ClassOptions) -> World {
    World::new(|node| node.class::<Desk>(options))
}

fn desk(world: &World, name: &str) -> Stub<Desk> {
    world.env().object::<Desk>().get_by_name(name)
}

/// What an error says: retryable, overloaded, object reset, remote.
fn flags(error: &Error) -> [bool; 4] {
    [
        error.retryable(),
        error.overloaded(),
        error.object_reset(),
        error.remote(),
    ]
}

const NO: [bool; 4] = [false; 4];

#[test]
fn a_user_error_enum_arrives_unchanged_through_other_objects() {
    run(async {
        let world = world(ClassOptions::default());
        let taken = SeatError::Taken {
            by: "ada".into(),
            since: u64::MAX,
        };
        let answer = desk(&world, "a").take("14C".into()).answer();
        assert_eq!(answer.await.unwrap(), Err(taken));
        let through = desk(&world, "a").take_at(vec!["c".into(), "b".into()], "99Z".into());
        assert_eq!(through.await.unwrap(), Err(SeatError::NoSuchSeat));
    });
}

#[test]
fn a_broken_constraint_is_told_to_the_caller_of_the_object() {
    run(async {
        let world = world(ClassOptions::default());
        let desk = desk(&world, "a");
        desk.seat("14C".into()).await.unwrap();
        let error = desk.seat("14C".into()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let broken = error.sql().unwrap();
        assert_eq!(broken.kind(), SqlErrorKind::Unique);
        assert_eq!(broken.constraint(), Some("seats.seat"));

        let error = desk.wait_at("a".repeat(4_096)).await.unwrap_err();
        assert!(error.sql().is_none(), "{error:#?}");
    });
}

#[test]
fn an_overloaded_object_says_that_the_call_was_not_taken() {
    run(async {
        let world = world(ClassOptions::default().max_running(1).max_queued(0));
        let waiting = desk(&world, "a").wait();
        world.signals.wait("waiting").await;
        let error = desk(&world, "a").wait().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        assert_eq!(flags(&error), [true, true, false, false], "{error:?}");

        // As the result of an object that did run, it is that object's error.
        let error = desk(&world, "b").wait_at("a".into()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Overloaded);
        assert_eq!(flags(&error), [false, false, false, true], "{error:?}");
        world.signals.give("go");
        waiting.await.unwrap();
    });
}

#[test]
fn a_reset_object_says_which_calls_had_begun() {
    run(async {
        let world = world(ClassOptions::default());
        let begun = desk(&world, "a").wait();
        world.signals.wait("waiting").await;
        let closed = desk(&world, "a").close_the_gate();
        world.signals.wait("closed").await;
        let queued = desk(&world, "a").take("14C".into());
        world.fence().await;
        world.signals.give("open");
        let (closed, begun, queued) = (
            closed.await.unwrap_err(),
            begun.await.unwrap_err(),
            queued.answer().await.unwrap_err(),
        );
        assert_eq!(flags(&closed), [false, false, true, false], "{closed:?}");
        assert_eq!(flags(&begun), [false, false, true, false], "{begun:?}");
        assert_eq!(flags(&queued), [true, false, true, false], "{queued:?}");

        let error = desk(&world, "a").panic().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Reset);
        assert_eq!(flags(&error), [false, false, true, false], "{error:?}");
    });
}

#[test]
fn a_handler_that_took_too_long_says_that_its_object_was_reset() {
    run(async {
        let world = world(ClassOptions::default().event_timeout(Duration::from_secs(1)));
        let call = desk(&world, "a").wait();
        world.signals.wait("waiting").await;
        world.clock.advance(Duration::from_secs(1));
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(flags(&error), [false, false, true, false], "{error:?}");

        // Another's time limit is no reset of this object.
        let error = desk(&world, "a").give_up().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(flags(&error), [false, false, false, true], "{error:?}");
    });
}

#[test]
fn a_call_to_an_unknown_method_is_a_transport_error() {
    run(async {
        let world = world(ClassOptions::default());
        let desk = desk(&world, "a");
        for (call, kind) in [
            (desk.untyped().call::<()>("sell", &()), ErrorKind::NotFound),
            (
                desk.untyped().call::<()>("take", &(1, 2)),
                ErrorKind::Decode,
            ),
        ] {
            let error = call.await.unwrap_err();
            assert_eq!((error.kind(), flags(&error)), (kind, NO), "{error:?}");
        }
    });
}

#[test]
fn a_stopping_node_says_that_the_call_can_be_made_again() {
    run(async {
        let world = world(ClassOptions::default());
        let desk = desk(&world, "a");
        world.node.shutdown(Duration::from_secs(1)).await.unwrap();
        // Converted into the method's own type of error, and as it is.
        let failed = desk.take("14C".into()).await.unwrap_err();
        let error = desk.take("14C".into()).answer().await.unwrap_err();
        assert_eq!(failed, SeatError::Failed(error.clone()));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(flags(&error), [true, false, false, false], "{error:?}");
    });
}
