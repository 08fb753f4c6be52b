//! The threads of a store. A panic in one of them fails the log, so that a missing thread never goes unnoticed.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::limits::RELEASE_THREAD_CORES;
use crate::panics::guard;
use crate::sync::thread::{Builder, JoinHandle};
use std::sync::Arc;

/// Starts the threads, and adds them to `threads`. They end after [`Engine::stop`].
pub(crate) fn start(engine: &Arc<Engine>, threads: &mut Vec<JoinHandle<()>>) -> Result<()> {
    let mut spawn = |name: &'static str, run: fn(&Engine)| {
        let engine = engine.clone();
        let builder = Builder::new().name(name.to_owned());
        let thread = builder.spawn(move || guarded(&engine, name, run));
        threads.push(
            thread
                .map_err(|error| Error::io(format_args!("starting the thread {name}"), &error))?,
        );
        Ok(())
    };
    spawn("abide-log", |engine| engine.shared.log.run_writer())?;
    spawn("abide-segments", Engine::run_preparation)?;
    spawn("abide-maintain", Engine::run_checkpoints)?;
    spawn("abide-archive", |engine| engine.compactor.run())?;
    if engine.shared.options.remote_runs.is_some() {
        spawn("abide-keep", Engine::run_keeping)?;
    }
    if engine.hydration.parts_left() > 0 {
        spawn("abide-hydrate", Engine::run_hydration)?;
    }
    if engine.shared.cores >= RELEASE_THREAD_CORES {
        spawn("abide-release", |engine| engine.shared.log.run_announcer())?;
    }
    Ok(())
}

fn guarded(engine: &Engine, name: &str, run: fn(&Engine)) {
    if let Err(why) = guard(|| run(engine)) {
        let why = format!("the thread {name} panicked: {why}");
        engine.shared.log.poison(&why);
    }
}
