//! A dry run of migrations: every object of a data directory is made with the program's code, and nothing is changed.
//!
//! Contract. The directory is opened by the ordinary recovery through a [`ScratchDisk`], which reads it and keeps elsewhere what
//! is written. It is locked meanwhile, so no node serves it. The objects are made one after the other, as their next event
//! would make them, on an otherwise idle node; each leaves memory soon after.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use abide_runtime::{AnyNamespace, Error, ErrorKind, Node, ObjectId};
use abide_storage::{ArchiveOptions, Disk, ObjectKey, RealDisk, ScratchDisk, Store};

use crate::{
    HostBuilder, HostError,
    core::store_options,
    history::Place,
    websocket::{KeepAlive, OwnedHub},
};

/// What a dry run has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DryRun {
    /// Objects that were tried.
    pub objects: u64,
    /// Those of them that would be changed.
    pub changed: u64,
    /// Those that could not be made.
    pub failed: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// An object that could not be made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedMigration {
    /// The unique key of its class's namespace: the class's name, unless it was given another.
    pub class: String,
    /// The object.
    pub id: ObjectId,
    /// Its name, if it has one that could be read.
    pub name: Option<String>,
    /// Why.
    pub error: Error,
}

impl HostBuilder {
    /// Makes every object of the data directory with this program's code, as its next event would, and changes nothing: to
    /// learn before a new version is deployed which objects its migrations would fail for. Reports each that fails.
    ///
    /// `classes` are the classes to try, as `abide objects list` shows them; all if it is empty. What the migrations
    /// write is kept in `scratch` until the end. No alarm goes off, no background work runs, and requests to other servers
    /// are refused; the router is not made, and no start hook runs.
    ///
    /// # Errors
    /// If a node serves the directory, there is none, or a class is none of the program's.
    pub async fn dry_run(
        mut self,
        classes: &[String],
        scratch: &Path,
        mut report: impl FnMut(&FailedMigration),
    ) -> Result<DryRun, HostError> {
        let began = Instant::now();
        let dir = self.config.data.dir.clone();
        if RealDisk.file_len(&dir.join("MANIFEST")).is_err() {
            return Err(refused(format!(
                "{} is no data directory: name one with --data, or the setting data.dir",
                dir.display()
            )));
        }
        self.disk = Arc::new(ScratchDisk::new(scratch));
        self.has_directory = false;
        let disk = Arc::clone(&self.disk);
        let place = Place::of(&self.config.archive)?;
        let options = store_options(&self.config)
            .remote_runs(place.as_ref().map(Place::remote_runs))
            // Nothing of the history is to be given up for it.
            .archive(
                ArchiveOptions::default()
                    .enabled(self.config.archive.enabled)
                    .retention(Duration::MAX)
                    .max_bytes(u64::MAX),
            );
        let store = blocking(move || Ok(Store::open(disk, &dir, options)?)).await?;
        let sockets = OwnedHub::new(KeepAlive::of(&self.config.websocket));
        let (builder, _access) = self.share_access(true)?;
        let node = Node::builder(store.clone());
        let (node, _router) = builder.configure_node(node, sockets.hub());
        let node = node.rehearsal().start()?;
        let mut found = DryRun::default();
        for namespace in chosen(&node, classes)? {
            try_class(&store, &namespace, &mut found, &mut report).await?;
        }
        found.elapsed = began.elapsed();
        node.shutdown(Duration::ZERO).await?;
        drop(node);
        // Without a checkpoint, which would be thrown away.
        blocking(move || {
            drop(store);
            Ok(())
        })
        .await?;
        Ok(found)
    }
}

/// The namespaces of these classes; all if none is named.
fn chosen(node: &Node, classes: &[String]) -> Result<Vec<AnyNamespace>, HostError> {
    let mut all = node.env().namespaces();
    let known: Vec<_> = all.iter().map(|one| one.unique_key().to_owned()).collect();
    if let Some(unknown) = classes.iter().find(|class| !known.contains(class)) {
        return Err(refused(format!(
            "this program has no class {unknown:?}; it has {}",
            known.join(", ")
        )));
    }
    all.retain(|one| classes.is_empty() || classes.iter().any(|class| class == one.unique_key()));
    Ok(all)
}

async fn try_class(
    store: &Store,
    namespace: &AnyNamespace,
    found: &mut DryRun,
    report: &mut impl FnMut(&FailedMigration),
) -> Result<(), HostError> {
    let class = namespace.unique_key();
    let number = store.namespace(class)?;
    let listed = store.clone();
    let keys = blocking(move || Ok(listed.objects(number)?)).await?;
    for key in keys {
        let before = store.appended();
        let id = namespace.parse_id(&key.id_hex())?;
        // It asks nothing of the object but to be there.
        let made = namespace.get(id).components().await;
        found.objects += 1;
        match made {
            Ok(_) => found.changed += u64::from(store.appended() != before),
            Err(error) => {
                found.failed += 1;
                let opened = store.clone();
                let name = blocking(move || Ok(name_of(&opened, key))).await?;
                report(&FailedMigration {
                    class: class.to_owned(),
                    id,
                    name,
                    error,
                });
            }
        }
    }
    Ok(())
}

fn name_of(store: &Store, key: ObjectKey) -> Option<String> {
    store.open_object(key).ok()?.name().ok()?
}

async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, HostError> + Send + 'static,
) -> Result<R, HostError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(HostError::Panicked))
}

fn refused(why: String) -> HostError {
    Error::with_kind(ErrorKind::Input, why).into()
}

#[cfg(feature = "clap")]
mod command {
    use std::{
        io::{self, Write},
        process::ExitCode,
    };

    use super::{DryRun, FailedMigration};
    use crate::{HostBuilder, HostError, MigrateArgs};

    impl HostBuilder {
        /// The command `migrate --dry-run`: a [dry run](Self::dry_run) that prints a line for each object that would fail, and a
        /// sum. The exit code is 1 if any would. The builder is made from the settings of [`MigrateArgs::load`].
        pub async fn migrate(self, args: &MigrateArgs) -> Result<ExitCode, HostError> {
            let default = std::env::temp_dir;
            let scratch = args.scratch.clone().unwrap_or_else(default);
            let run = self.dry_run(&args.classes, &scratch, |failed| {
                // A closed standard output is no reason to end: the exit code tells, too.
                let _ = writeln!(io::stdout().lock(), "{}", line(failed));
            });
            let run = run.await?;
            let _ = writeln!(io::stdout().lock(), "{}", sum(&run));
            Ok(if run.failed == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }

    fn line(failed: &FailedMigration) -> String {
        let object = failed.name.clone().unwrap_or_else(|| failed.id.to_string());
        let line = format!("{}/{object}\t{}", failed.class, failed.error);
        // Names and errors may quote what clients have sent; a control character must not reach a terminal.
        let mut shown = String::new();
        for letter in line.chars() {
            if letter.is_control() && letter != '\t' {
                shown.extend(letter.escape_debug());
            } else {
                shown.push(letter);
            }
        }
        shown
    }

    fn sum(run: &DryRun) -> String {
        let DryRun {
            objects,
            changed,
            failed,
            elapsed,
        } = run;
        let unchanged = objects - changed - failed;
        format!(
            "{objects} objects in {:.1} s: {changed} would be changed, {unchanged} would not, {failed} would fail; nothing was changed",
            elapsed.as_secs_f64()
        )
    }
}
