//! Operations on all resources. They run to completion even if the caller leaves; the caller gets a line of JSON for
//! each step.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use abide::{Env, server::ApiError};
use abide::{projection::Progress, queue::Queue};
use axum::{
    Json,
    body::Body,
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde::Serialize;
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::spawn_blocking,
};

use crate::{
    Time,
    host::QUEUE,
    read::{self, Lag, Reader},
    resources::Stored,
};

/// Resources between two progress lines.
const STRIDE: usize = 100;

/// Maximum number of failed resources that are named.
const NAMED: usize = 20;

/// Whether an operation on all resources is running: one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upkeep(Arc<AtomicBool>);

/// Ends the operation.
struct Turn(Arc<AtomicBool>);

impl Upkeep {
    fn turn(&self) -> Result<Turn, ApiError> {
        if self.0.swap(true, Ordering::SeqCst) {
            return Err(ApiError::conflict(
                "busy",
                "Another operation on all resources is running: wait until it has ended.",
            ));
        }
        Ok(Turn(Arc::clone(&self.0)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

pub(super) async fn read_model(env: Env) -> Result<Json<Lag>, ApiError> {
    Ok(Json(lag(&env).await?))
}

/// The lag of the read model.
pub(super) async fn lag(env: &Env) -> Result<Lag, ApiError> {
    let counts = Queue::new(env, QUEUE).map_err(abide::Error::from)?;
    let counts = counts.counts().await.map_err(abide::Error::from)?;
    Ok(Lag::new(&counts, Time::now(&**env.clock())))
}

/// The progress of a rebuild.
#[derive(Serialize)]
struct Line {
    /// Total number of resources.
    resources: usize,
    /// Processed resources.
    done: usize,
    /// Failed resources.
    failed: usize,
    /// Changes waiting for the read model.
    waiting: u64,
    /// The errors of some.
    failures: Vec<String>,
    /// Why it was aborted, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<&Progress> for Line {
    fn from(progress: &Progress) -> Self {
        Self {
            resources: progress.sources,
            done: progress.asked + progress.failed,
            failed: progress.failed,
            waiting: progress.waiting,
            failures: Vec::new(),
            error: None,
        }
    }
}

pub(super) async fn rebuild(env: Env) -> Result<Response, ApiError> {
    let turn = env.require::<Upkeep>()?.turn()?;
    let reader = env.require::<Reader>()?;
    Ok(in_the_background(
        async move |tell: UnboundedSender<Line>| {
            let _turn = turn;
            let show = |progress: &Progress| {
                let done = progress.asked + progress.failed;
                if done.is_multiple_of(STRIDE) || done == progress.sources {
                    let _ = tell.send(progress.into());
                }
            };
            let last = match read::rebuild(&env, &*reader.0, show).await {
                Ok(rebuilt) => Line {
                    failures: rebuilt.failures,
                    ..Line::from(&rebuilt.progress)
                },
                Err(error) => Line {
                    error: Some(error.to_string()),
                    ..Line::from(&Progress::default())
                },
            };
            let _ = tell.send(last);
        },
    ))
}

/// The progress of a check.
#[derive(Clone, Default, Serialize)]
struct Checked {
    /// Total number of resources.
    resources: usize,
    /// Checked resources.
    done: usize,
    /// Replayed outcomes.
    outcomes: i64,
    /// Resources that failed the check.
    failed: usize,
    /// Some of them, with their errors.
    failures: Vec<String>,
}

pub(super) async fn check_all(env: Env) -> Result<Response, ApiError> {
    let turn = env.require::<Upkeep>()?.turn()?;
    let all = env.clone();
    let stored = spawn_blocking(move || Stored::all(&all)).await;
    let stored = stored.map_err(abide::Error::from_std)??;
    Ok(in_the_background(
        async move |tell: UnboundedSender<Checked>| {
            let _turn = turn;
            let mut checked = Checked {
                resources: stored.len(),
                ..Checked::default()
            };
            for stored in stored {
                match stored.check(&env).await {
                    Ok(outcomes) => checked.outcomes += outcomes,
                    Err(error) => {
                        checked.failed += 1;
                        if checked.failures.len() < NAMED {
                            let name = stored.name(&env).await;
                            checked.failures.push(format!("{name}: {error}"));
                        }
                    }
                }
                checked.done += 1;
                if checked.done.is_multiple_of(STRIDE) {
                    let _ = tell.send(checked.clone());
                }
            }
            let _ = tell.send(checked);
        },
    ))
}

/// Runs an operation in the background, and streams its progress.
fn in_the_background<T: Serialize + Send + 'static>(
    work: impl AsyncFnOnce(UnboundedSender<T>) + Send + 'static,
) -> Response {
    let (tell, told) = unbounded_channel();
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(work(tell)));
    let lines = stream::unfold(told, next_line);
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::from_stream(lines)).into_response()
}

async fn next_line<T: Serialize>(
    mut told: UnboundedReceiver<T>,
) -> Option<(Result<String, Infallible>, UnboundedReceiver<T>)> {
    let line = serde_json::to_string(&told.recv().await?).ok()?;
    Some((Ok(line + "\n"), told))
}
