//! The ready-made outboxes of `abide serve`, and `abide outbox`, which manages them.

mod command;
mod settings;

pub(crate) use command::{Command, run};
pub(crate) use settings::Settings;
