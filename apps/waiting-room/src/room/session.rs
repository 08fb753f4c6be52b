//! The session of a visitor who is inside, kept by a connection instead of requests.

use std::time::Duration;

use tokio::time::Instant;

use super::Reporter;
use crate::{objects::Happening, ticket::VisitorId};

/// A visitor's session.
#[derive(Debug)]
pub struct Session {
    pub(super) reporter: Reporter,
    pub(super) visitor: VisitorId,
    /// How long it lasts without a sign of the visitor.
    pub(super) length: Duration,
    /// How often signs are reported.
    pub(super) renew_after: Duration,
}

impl Session {
    /// Returns when it ends. `heard` is when the visitor was heard last.
    pub(crate) async fn keep(self, heard: impl Fn() -> Instant) {
        let mut reported = Instant::now();
        loop {
            let due = (reported + self.renew_after).min(heard() + self.length);
            tokio::time::sleep_until(due).await;
            let now = Instant::now();
            if now >= heard() + self.length {
                return;
            }
            if heard() > reported {
                let visitor = self.visitor;
                self.reporter.note(Happening::Seen { visitor });
            }
            reported = now;
        }
    }
}
