//! Who hears of the ledgers' entries. It refuses some, and is slow now and then.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use axum::{Router, extract::State, http::StatusCode, routing::post};
use tokio::net::TcpListener;

use super::facts::Facts;

/// One in this many is refused.
const REFUSED: u64 = 20;
/// One in this many is answered late.
const SLOW: u64 = 50;
const DELAY: Duration = Duration::from_millis(100);

#[derive(Clone)]
struct Receiver {
    facts: Arc<Facts>,
    requests: Arc<AtomicU64>,
}

/// Listens on a free port for as long as the runtime lives.
pub(crate) async fn start(facts: Arc<Facts>) -> Result<SocketAddr> {
    let receiver = Receiver {
        facts,
        requests: Arc::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("no free port")?;
    let addr = listener.local_addr()?;
    let router = Router::new().route("/", post(take)).with_state(receiver);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(addr)
}

async fn take(State(receiver): State<Receiver>, body: String) -> StatusCode {
    let number = receiver.requests.fetch_add(1, Ordering::Relaxed);
    if number % REFUSED == 0 {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    if number % SLOW == 1 {
        tokio::time::sleep(DELAY).await;
    }
    match body
        .split_once(' ')
        .map(|(ledger, entry)| (ledger, entry.parse()))
    {
        Some((ledger, Ok(entry))) => receiver.facts.delivered(ledger, entry),
        _ => receiver
            .facts
            .broken(format!("an announcement says {body:?}")),
    }
    StatusCode::OK
}
