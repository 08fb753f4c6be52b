//! The threads of a store, each under a guard: a panic of one is a failure of the log, never a thread that is silently
//! missing.

use crate::engine::Engine;
use crate::error::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts them. They end after [`Engine::stop`].
pub(crate) fn start(engine: &Arc<Engine>) -> Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &'static str, run: fn(&Engine)| {
        let engine = engine.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder
            .spawn(move || guarded(&engine, name, run))
            .map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))
    };
    Ok(vec![
        spawn("abide-log", |engine| engine.shared.log.run_writer())?,
        spawn("abide-segments", Engine::run_preparation)?,
        spawn("abide-maintain", Engine::run_checkpoints)?,
        spawn("abide-archive", |engine| engine.compactor.run())?,
    ])
}

fn guarded(engine: &Engine, name: &str, run: fn(&Engine)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(engine))) {
        let why = format!("the thread {name} panicked: {}", message(&*panic));
        engine.shared.log.poison(&why);
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it did not say why")
}
