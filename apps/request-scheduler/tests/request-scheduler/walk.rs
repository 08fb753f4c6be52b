//! Who may call what, where others can reach the program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/walk.rs"]
mod shared;

use abide_harness::Program;

/// What needs no token of the program's.
const OPEN: &[&str] = &["GET /healthz", "GET /readyz", "GET /metrics"];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_requires_a_valid_token_with_the_right_role() {
    let program =
        |data: &std::path::Path| Program::new(env!("CARGO_BIN_EXE_request-scheduler"), data);
    shared::walk_with_every_token(program, OPEN).await;
}
