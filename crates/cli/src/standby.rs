//! `abide standby` and `abide promote`: a second machine that has the copy before it is needed.
//!
//! The standby holds the lock `standby.lock` in its directory of runs. To promote it, a command leaves the file `promote` there;
//! the standby ends as soon as it sees that, and the command continues alone.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use abide::history::{Download, Error as HistoryError, Store as Copies};
use abide_storage::{FETCHED_FILE, STANDBY_LOCK};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use jiff::SignedDuration;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    backup::{CopyArgs, PlaceArgs, runtime},
    data::{DataArgs, time},
};

/// How often the standby looks for a request to promote it.
const LOOK: Duration = Duration::from_millis(100);

/// How long a promotion waits for the standby to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The number of rounds after which the manifests are listed.
const LISTED: u64 = 100;

#[derive(Args)]
pub(crate) struct StandbyArgs {
    #[command(flatten)]
    place: PlaceArgs,

    #[command(flatten)]
    data: DataArgs,

    /// How often the store is asked for a newer copy
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    interval: Duration,
}

#[derive(Args)]
pub(crate) struct PromoteArgs {
    #[command(flatten)]
    place: PlaceArgs,

    #[command(flatten)]
    data: DataArgs,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed
        .ok()
        .and_then(|parsed| Duration::try_from(parsed).ok());
    let parsed = parsed.filter(|parsed| *parsed >= LOOK);
    parsed.ok_or_else(|| "expected at least 100ms, such as 5s".to_owned())
}

/// The directory of a standby's runs.
pub(crate) struct Standby {
    archive: PathBuf,
}

/// The held lock.
pub(crate) struct Held {
    archive: PathBuf,
    _file: File,
}

impl Held {
    /// The directory is restored: removes what only the restore needed.
    pub(crate) fn end(self) -> io::Result<()> {
        for name in [FETCHED_FILE, STANDBY_LOCK] {
            match fs::remove_file(self.archive.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Standby {
    pub(crate) fn of(dir: &Path) -> Self {
        let archive = dir.join("archive");
        Self { archive }
    }

    fn request(&self) -> PathBuf {
        self.archive.join("promote")
    }

    fn lock_path(&self) -> PathBuf {
        self.archive.join(STANDBY_LOCK)
    }

    /// Takes the lock; `None` if another process has it.
    fn lock(&self) -> Result<Option<Held>> {
        let path = self.lock_path();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Held {
                archive: self.archive.clone(),
                _file: file,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock {}", path.display()))
            }
        }
    }

    /// Takes the lock for a restore into the directory.
    pub(crate) fn must_be_free(&self) -> Result<Held> {
        self.lock()?.with_context(|| {
            format!(
                "a standby follows a copy into {}: use `abide promote`",
                self.archive.display()
            )
        })
    }

    /// Ends the standby, if there is one, and takes the lock.
    fn end(&self) -> Result<Held> {
        let request = self.request();
        let failed = || format!("cannot write {}", request.display());
        File::create(&request).with_context(failed)?;
        let begun = Instant::now();
        loop {
            if let Some(held) = self.lock()? {
                fs::remove_file(&request).with_context(failed)?;
                return Ok(held);
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the standby of {} does not end: stop its process, and try again",
                    self.archive.display()
                );
            }
            thread::sleep(LOOK);
        }
    }

    fn is_requested(&self) -> bool {
        self.request().exists()
    }
}

/// Refuses a directory that a node serves, or served. One whose restore was interrupted is none.
pub(crate) fn must_be_no_data_directory(dir: &Path) -> Result<()> {
    let has = |name| dir.join(name).exists();
    ensure!(
        !has("MANIFEST") || has("RESTORING"),
        "{} is a data directory already: choose an empty one with --data",
        dir.display()
    );
    Ok(())
}

/// Follows a copy until it is promoted or stopped.
pub(crate) fn follow(args: &StandbyArgs, out: &mut impl Write) -> Result<()> {
    let place = args.place.find(&args.data)?;
    must_be_no_data_directory(&args.data.config()?.data.dir)?;
    let dir = args.data.make_dir()?;
    let standby = Standby::of(&dir);
    fs::create_dir_all(&standby.archive)
        .with_context(|| format!("cannot create {}", standby.archive.display()))?;
    let _held = standby.must_be_free()?;
    // Left by a promotion that was interrupted.
    match fs::remove_file(standby.request()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    writeln!(
        out,
        "follows {}; `abide promote` ends it",
        place.copies().location()
    )?;
    out.flush()?;
    let ended = runtime()?.block_on(async {
        tokio::select! {
            followed = round_after_round(place.copies(), &standby, args.interval, out) => followed.map(|never| match never {}),
            why = ended(&standby) => why,
        }
    })?;
    writeln!(out, "{ended}")?;
    Ok(())
}

/// Returns once a promotion is requested, or it was interrupted.
async fn ended(standby: &Standby) -> Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut look = interval(LOOK);
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok("stopped"),
            _ = interrupt.recv() => return Ok("stopped"),
            _ = look.tick() => {
                if standby.is_requested() {
                    return Ok("promoted: the command that asked for it continues");
                }
            }
        }
    }
}

/// Downloads what is new, again and again.
async fn round_after_round(
    copies: &Copies,
    standby: &Standby,
    every: Duration,
    out: &mut impl Write,
) -> Result<std::convert::Infallible> {
    let mut rounds = interval(every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut followed, mut failing) = (None, false);
    let mut round = 0_u64;
    loop {
        round += 1;
        rounds.tick().await;
        // Now and then it lists them: manifests between may have been deleted.
        let known = followed.filter(|_| !round.is_multiple_of(LISTED));
        match newest(copies, known).await {
            Ok(Some(found)) if Some(found.manifest().number) == followed => failing = false,
            Ok(Some(found)) => {
                let manifest = found.manifest();
                if let Err(error) = found.save(&standby.archive, |_, _| {}).await {
                    // A later copy may have replaced it.
                    followed = None;
                    warn(out, &error)?;
                    continue;
                }
                followed = Some(manifest.number);
                writeln!(
                    out,
                    "has manifest {}, as of {}, {} bytes",
                    manifest.number,
                    time(manifest.time),
                    manifest.bytes()
                )?;
                out.flush()?;
                failing = false;
            }
            Ok(None) => failing = false,
            // Such as another key: waiting does not help.
            Err(error) if error.is_refusal() => return Err(error.into()),
            // Once, until it answers.
            Err(error) if !failing => {
                failing = true;
                warn(out, &error)?;
            }
            Err(_) => {}
        }
    }
}

fn warn(out: &mut impl Write, error: &HistoryError) -> io::Result<()> {
    writeln!(out, "warning: {error}; it is tried again")?;
    out.flush()
}

/// The newest copy, unless it is known.
async fn newest(copies: &Copies, known: Option<u64>) -> Result<Option<Download>, HistoryError> {
    match known {
        Some(known) => Download::newer_than(copies, known).await,
        None => Download::find(copies, None).await.map(Some),
    }
}

/// Makes a standby's directory one that a node serves, and seals the copy.
pub(crate) fn promote(args: PromoteArgs, out: &mut impl Write) -> Result<()> {
    let dir = args.data.config()?.data.dir;
    must_be_no_data_directory(&dir)?;
    let standby = Standby::of(&dir);
    ensure!(
        standby.archive.is_dir(),
        "{} is not the directory of a standby; select one with --data",
        dir.display()
    );
    // Before the standby ends.
    args.place.find(&args.data)?;
    let held = standby.end()?;
    CopyArgs::promoting(args.place).restore_held(&args.data, None, held, out)
}
