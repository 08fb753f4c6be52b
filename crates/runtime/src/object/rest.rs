//! Whether an object is idle while the clock stands still.

use super::{Kind, Object, Running};

impl Object {
    /// What keeps the object busy, for people; `None` if it rests.
    pub(crate) fn unrest(&self) -> Option<String> {
        if !self.is_alive() {
            return None;
        }
        if self.held.get() {
            return Some("it is being restored".to_owned());
        }
        let running = self.running.borrow();
        let busy = running
            .iter()
            // Others wait for the one that the gate is closed for.
            .filter(|(token, _)| self.may_run(**token))
            .find_map(|(_, task)| task.unrest());
        if let Some(busy) = busy {
            return Some(busy);
        }
        if self.may_start() && !self.queue.borrow().is_empty() {
            return Some("events wait for it".to_owned());
        }
        (!self.is_durable()).then(|| "what it wrote is not durable yet".to_owned())
    }

    /// The object as people know it.
    pub(crate) fn label(&self) -> String {
        let name = self.name().unwrap_or_else(|| self.id.to_string());
        format!("{}/{name}", self.binding.class_name.as_str())
    }
}

impl Running {
    fn unrest(&self) -> Option<String> {
        let what = match self.kind {
            Kind::Handler => "a handler",
            Kind::Background => "background work",
            Kind::Block => "block_concurrency_while",
            // It waits for the reader of a body, or for the object that writes it.
            Kind::Inner => return None,
        };
        let why = match &self.waits {
            Some(waits) => waits.unrest()?,
            None => "runs",
        };
        Some(format!("{what} {why}"))
    }
}
