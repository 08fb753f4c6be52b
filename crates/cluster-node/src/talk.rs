//! The connections for the lease and for control.

use std::sync::Arc;

use abide_cluster::Connection;
use tokio::{select, time::timeout};

use crate::{
    clock,
    limits::ASK_EVERY,
    shared::{EndOnPanic, Shared},
};

/// Executes the statements of a connection, until the member ends.
pub(crate) async fn run(shared: Arc<Shared>, connection: Connection) {
    let _guard = EndOnPanic(&shared);
    while shared.ended().is_none() {
        let statement = shared.session().next(connection, clock::now());
        let Some(statement) = statement else {
            let _ = timeout(ASK_EVERY, shared.to_say.notified()).await;
            continue;
        };
        let outcome = select! {
            outcome = shared.lines.execute(connection, &statement, &[]) => outcome,
            _ = shared.until_ended() => return,
        };
        shared.answered(connection, outcome);
        shared.to_adopt.notify_one();
    }
}
