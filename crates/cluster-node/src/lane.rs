//! Copies the store's log to the database.

use std::sync::Arc;

use abide_cluster::{Connection, Lsn, Statement};
use abide_storage::LogPart;
use tokio::{runtime::Runtime, select, time::sleep};

use crate::{
    End, clock,
    limits::{ASK_EVERY, GROUP_BYTES, RETRY_EVERY},
    shared::{EndOnPanic, Shared},
};

/// Appends a group after the other to the session's log, until the member ends. For a separate thread: it waits for the store's log.
pub(crate) fn run(shared: &Arc<Shared>, runtime: &Runtime) {
    let _guard = EndOnPanic(shared);
    let mut group = None;
    while shared.ended().is_none() {
        if shared.store.failed() {
            shared.end(End::Store("its log cannot be written".to_owned()));
            return;
        }
        let durable = shared.session().durable();
        if group.is_none() {
            group = next_group(shared, durable);
        }
        if let Some(part) = &group {
            let is_durable = runtime.block_on(append(shared, part));
            if is_durable {
                shared.store.copied(part.end);
                shared.to_say.notify_waiters();
                group = None;
            }
        } else {
            shared.store.wait_beyond(durable.0.into(), ASK_EVERY);
        }
    }
}

/// What follows a position, which is the end of the last group.
fn next_group(shared: &Shared, durable: Lsn) -> Option<LogPart> {
    let from = durable.0.into();
    match shared.store.log_part(Some(from), GROUP_BYTES) {
        Ok(Some(part)) if part.first == from => {
            shared.session().logged(Lsn(part.end.get()));
            Some(part)
        }
        Ok(None) => None,
        Ok(Some(part)) => {
            let why = format!("its log begins at {}, and not at {from}", part.first);
            shared.end(End::Store(why));
            None
        }
        Err(error) => {
            shared.end(End::Store(error.to_string()));
            None
        }
    }
}

/// Says the next thing about a group. Returns whether it is durable.
async fn append(shared: &Shared, group: &LogPart) -> bool {
    let statement = shared.session().next(Connection::Lane, clock::now());
    let Some(statement) = statement else {
        // The session has ended.
        return false;
    };
    let bytes = match statement {
        Statement::Append { .. } => &group.bytes[..],
        _ => &[],
    };
    let outcome = select! {
        outcome = shared.lines.execute(Connection::Lane, &statement, bytes) => outcome,
        _ = shared.until_ended() => return false,
    };
    let is_known = matches!(outcome, abide_cluster::Outcome::Done(_));
    let durable = shared.answered(Connection::Lane, outcome);
    if !is_known {
        sleep(RETRY_EVERY).await;
    }
    durable.is_some_and(|durable| durable >= Lsn(group.end.get()))
}
