//! A dry run of migrations: which objects a new version of the program could not make, and that nothing is changed.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{Host, prelude::*, server::FailedMigration};

/// The program as it is.
mod old {
    use super::*;

    #[durable_object]
    pub(super) struct Notes {
        ctx: Ctx,
    }

    impl DurableObject for Notes {
        fn new(ctx: Ctx, _env: Env) -> Result<Self> {
            let sql = ctx.sql();
            sql.exec("CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL)", ())?;
            Ok(Self { ctx })
        }
    }

    #[rpc]
    impl Notes {
        pub async fn add(&self, text: String) -> Result<()> {
            let storage = self.ctx.storage();
            storage.set_alarm(Duration::ZERO)?;
            let sql = storage.sql();
            sql.exec("INSERT INTO notes VALUES (?)", (text,)).map(drop)
        }

        pub async fn break_second_step(&self) -> Result<()> {
            self.ctx.storage().put("bad later", &true)
        }
    }
}

/// What objects of the new program have done themselves.
#[derive(Clone, Default)]
struct Done(Arc<AtomicUsize>);

/// The new program: a text has at most ten letters.
mod new {
    use super::*;

    #[durable_object]
    pub(super) struct Notes {
        ctx: Ctx,
        env: Env,
    }

    impl DurableObject for Notes {
        fn new(ctx: Ctx, env: Env) -> Result<Self> {
            let sql = ctx.sql();
            let done: i64 = sql.exec("PRAGMA user_version", ())?.one()?;
            if done == 0 {
                sql.exec(
                    "CREATE TABLE short (text TEXT NOT NULL CHECK (length(text) <= 10))",
                    (),
                )?;
                sql.exec("INSERT INTO short SELECT text FROM notes", ())?;
                sql.exec("PRAGMA user_version = 1", ())?;
            }
            let done = env.require::<Done>()?;
            ctx.spawn(async move {
                done.0.fetch_add(1, Ordering::SeqCst);
            })?;
            // A step that must be awaited counts, too.
            let (storage, clock) = (ctx.storage().clone(), Arc::clone(env.clock()));
            drop(ctx.block_concurrency_while(async move {
                clock
                    .sleep_until(clock.now() + Duration::from_millis(1))
                    .await;
                match storage.get::<bool>("bad later")? {
                    Some(_) => Err(Error::new("the second step failed")),
                    None => Ok(()),
                }
            }));
            Ok(Self { ctx, env })
        }

        async fn alarm(&self, _: AlarmInfo) -> Result<()> {
            self.env.require::<Done>()?.0.fetch_add(1, Ordering::SeqCst);
            self.ctx.storage().put("rung", &true)
        }
    }
}

/// Every file of a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

async fn dry_run(
    dir: &Path,
    done: &Done,
    classes: &[String],
) -> Result<(abide::server::DryRun, Vec<FailedMigration>), abide::server::HostError> {
    let scratch = tempfile::tempdir().unwrap();
    let mut failed = Vec::new();
    let run = Host::builder(dir)
        .with(done.clone())
        .object::<new::Notes>()
        .dry_run(classes, scratch.path(), |one| failed.push(one.clone()))
        .await?;
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    Ok((run, failed))
}

#[tokio::test]
async fn a_dry_run_names_the_objects_whose_migration_fails_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = || Host::builder(&data).object::<old::Notes>().start_local();
    let running = host().await.unwrap();
    let texts = (0..50).map(|n| (format!("n{n}"), "short".to_owned()));
    let long = ("long".to_owned(), "longer than ten".to_owned());
    for (name, text) in texts.chain([long]) {
        let notes = running.env().object::<old::Notes>().get_by_name(&name);
        // The class has no `alarm`: it stays due.
        notes.add(text).await.unwrap();
    }
    let later = running.env().object::<old::Notes>().get_by_name("later");
    later.break_second_step().await.unwrap();
    let done = Done::default();
    let served = dry_run(&data, &done, &[]).await.unwrap_err();
    assert!(served.to_string().contains("another process"), "{served}");
    running.shutdown().await.unwrap();

    let before = files(&data);
    for classes in [vec![], vec!["Notes".to_owned()]] {
        let (run, failed) = dry_run(&data, &done, &classes).await.unwrap();
        assert_eq!(
            (run.objects, run.changed, run.failed),
            (52, 50, 2),
            "{failed:?}"
        );
        for (name, why) in [
            ("long", "CHECK constraint failed"),
            ("later", "the second step failed"),
        ] {
            let named = |one: &&FailedMigration| one.name.as_deref() == Some(name);
            let found = failed.iter().find(named).unwrap();
            assert_eq!(found.class, "Notes");
            assert!(found.error.message().contains(why), "{}", found.error);
        }
        assert!(files(&data) == before, "the data directory has changed");
    }
    assert_eq!(done.0.load(Ordering::SeqCst), 0, "the node is idle");

    let unknown = dry_run(&data, &done, &["Nots".to_owned()])
        .await
        .unwrap_err();
    assert!(unknown.to_string().contains("it has Notes"), "{unknown}");
    let nowhere = dry_run(dir.path(), &done, &[]).await.unwrap_err();
    assert!(
        nowhere.to_string().contains("is no data directory"),
        "{nowhere}"
    );
}

/// As `kill -9` leaves it: the newest commits are in the log alone.
#[tokio::test]
async fn a_dry_run_recovers_what_only_the_log_has_without_writing_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, left) = (dir.path().join("data"), dir.path().join("left"));
    let host = Host::builder(&data).object::<old::Notes>();
    let running = host.start_local().await.unwrap();
    let notes = running.env().object::<old::Notes>().get_by_name("ada");
    notes.add("longer than ten".into()).await.unwrap();
    // Nothing writes now, so the copy is of one moment.
    for (path, bytes) in files(&data) {
        let copy = left.join(path.strip_prefix(&data).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::write(copy, bytes).unwrap();
    }
    running.shutdown().await.unwrap();
    let before = files(&left);
    let (run, failed) = dry_run(&left, &Done::default(), &[]).await.unwrap();
    assert_eq!((run.objects, run.failed), (1, 1));
    assert_eq!(failed[0].name.as_deref(), Some("ada"));
    assert!(files(&left) == before, "the data directory has changed");
}
