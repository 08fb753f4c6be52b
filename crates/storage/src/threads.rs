//! The threads of a store.

use crate::engine::Engine;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Starts them. They end after [`Engine::stop`].
pub(crate) fn start(engine: &Arc<Engine>) -> Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, run: fn(&Engine)| {
        let engine = engine.clone();
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder
            .spawn(move || run(&engine))
            .map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))
    };
    Ok(vec![
        spawn("abide-log", |engine| engine.shared.log.run_writer())?,
        spawn("abide-maintain", Engine::run_maintenance_thread)?,
        spawn("abide-archive", |engine| engine.compactor.run())?,
    ])
}
