//! The threads of a store. A panic in one of them fails the log, so that a missing thread never goes unnoticed.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::RELEASE_THREAD_CORES;
use crate::panics::guard;
use crate::sync::thread::{Builder, JoinHandle};
use std::sync::Arc;

/// Starts the threads. They end after [`Engine::stop`].
pub(crate) fn start(engine: &Arc<Engine>) -> Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &'static str, run: fn(&Engine)| {
        let engine = engine.clone();
        let builder = Builder::new().name(name.to_owned());
        builder
            .spawn(move || guarded(&engine, name, run))
            .map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))
    };
    let mut threads = vec![
        spawn("abide-log", |engine| engine.shared.log.run_writer())?,
        spawn("abide-segments", Engine::run_preparation)?,
        spawn("abide-maintain", Engine::run_checkpoints)?,
        spawn("abide-archive", |engine| engine.compactor.run())?,
    ];
    if engine.shared.cores >= RELEASE_THREAD_CORES {
        let release = spawn("abide-release", |engine| engine.shared.log.run_announcer());
        threads.push(release?);
    }
    Ok(threads)
}

fn guarded(engine: &Engine, name: &str, run: fn(&Engine)) {
    if let Err(why) = guard(|| run(engine)) {
        let why = format!("the thread {name} panicked: {why}");
        engine.shared.log.poison(&why);
    }
}
