//! The context of every bench: the common options, its own directory on a real disk, the printer.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::{
    figures,
    probe::{self, DiskLatency},
    process::{self, Owned},
    report::{Measurement, Report, Unit},
};

/// Which sides of a comparison run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Ours and the peer, in turns.
    Both,
    /// Only ours.
    Ours,
    /// Only the peer.
    Peer,
}

/// Whether low-priority processes keep the CPUs busy while both sides are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeepAwake {
    /// If it makes the disk's sync much faster here: see the README.
    Auto,
    /// Never.
    Off,
}

/// A sync slower than this may be an idle CPU that sees the disk's answer late.
const SUSPECT_SYNC_US: f64 = 1_000.0;
/// By how much a sync must get faster for the CPUs to be kept awake.
const WORTHWHILE: f64 = 3.0;

/// The options that all benches share.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// One JSON line for each measurement instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Where data is written: the disk that is measured. Its content is removed.
    /// Default: `bench-data` beside the binary's directory.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// Length of one slice, in seconds.
    #[arg(long, global = true, default_value_t = 1.0)]
    seconds: f64,
    /// Slices of each side; they alternate, and the median counts.
    #[arg(long, global = true, default_value_t = 3)]
    rounds: usize,
    /// Which sides run.
    #[arg(long, global = true, value_enum, default_value_t = Side::Both)]
    side: Side,
    /// Keep the CPUs awake where an idle virtual CPU sees the disk's answers late.
    #[arg(long, global = true, value_enum, default_value_t = KeepAwake::Auto)]
    keep_awake: KeepAwake,
}

/// The run's directory, options and printer.
pub(crate) struct Context {
    settings: Settings,
    dir: PathBuf,
    report: Report,
    spinners: RefCell<Vec<Owned>>,
}

impl Context {
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let base = match &settings.dir {
            Some(dir) => dir.clone(),
            None => default_dir()?,
        };
        let dir = base.join(format!("run-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| {
            format!("cannot create {}; choose another with --dir", dir.display())
        })?;
        let report = Report::new(settings.json);
        Ok(Self {
            settings,
            dir,
            report,
            spinners: RefCell::default(),
        })
    }

    /// A new empty directory on the measured disk.
    pub(crate) fn fresh_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
        }
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(dir)
    }

    pub(crate) fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.settings.seconds)
    }

    /// A quarter of a slice: fills caches, pools and the log's first segments; never counted.
    pub(crate) fn warm_up(&self) -> Duration {
        self.slice() / 4
    }

    pub(crate) fn rounds(&self) -> usize {
        self.settings.rounds.max(1)
    }

    pub(crate) fn wants_ours(&self) -> bool {
        self.settings.side != Side::Peer
    }

    pub(crate) fn wants_peer(&self) -> bool {
        self.settings.side != Side::Ours
    }

    /// Latency of `fdatasync` on the measured disk, now. Keeps the CPUs awake from here on if that is needed.
    pub(crate) fn probe(&self) -> Result<DiskLatency> {
        let mut spinners = self.spinners.borrow_mut();
        let found = probe::fdatasync(&self.dir, !spinners.is_empty())?;
        if self.settings.keep_awake == KeepAwake::Off
            || !spinners.is_empty()
            || found.p50_us < SUSPECT_SYNC_US
        {
            return Ok(found);
        }
        for _ in 0..process::cores() {
            spinners.push(Owned::spinner()?);
        }
        let awake = probe::fdatasync(&self.dir, true)?;
        if awake.p50_us * WORTHWHILE > found.p50_us {
            spinners.clear();
            return Ok(found);
        }
        self.report.say(&format!(
            "idle CPUs see the disk's answers late here (fdatasync {:.0} us, awake {:.0} us): processes of the idle class keep them \
             awake for both sides; --keep-awake off measures without",
            found.p50_us, awake.p50_us
        ));
        Ok(awake)
    }

    /// A sentence for people.
    pub(crate) fn say(&self, text: &str) {
        self.report.say(text);
    }

    pub(crate) fn print(&self, measurement: &Measurement) {
        self.report.print(measurement);
    }

    /// Prints commits per second, and the median and the 99th percentile of their latency in microseconds.
    pub(crate) fn print_commits(
        &self,
        name: &str,
        disk: DiskLatency,
        sides: &Sides<3>,
        peer: &'static str,
    ) {
        for (index, suffix, unit) in [
            (0, "", Unit::CommitsPerSecond),
            (1, "/p50", Unit::Microseconds),
            (2, "/p99", Unit::Microseconds),
        ] {
            let (ours, theirs) = sides.figure(index);
            let measurement = Measurement::new(format!("{name}{suffix}"), unit, disk).ours(ours);
            self.print(&measurement.peer(peer, theirs));
        }
    }

    /// Runs the sides in turns, `rounds` slices each, and returns the median of each figure.
    pub(crate) fn alternate<const N: usize>(
        &self,
        mut ours: Option<impl FnMut() -> Result<[f64; N]>>,
        mut peer: Option<impl FnMut() -> Result<[f64; N]>>,
    ) -> Result<Sides<N>> {
        let (mut of_ours, mut of_peer) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds() {
            if let Some(ours) = &mut ours {
                of_ours.push(ours()?);
            }
            if let Some(peer) = &mut peer {
                of_peer.push(peer()?);
            }
        }
        Ok(Sides {
            ours: figures::medians(&of_ours),
            peer: figures::medians(&of_peer),
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Best effort: the rest is in a directory that may be deleted by hand.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The medians of both sides; `None` for a side that did not run.
pub(crate) struct Sides<const N: usize> {
    pub(crate) ours: Option<[f64; N]>,
    pub(crate) peer: Option<[f64; N]>,
}

impl<const N: usize> Sides<N> {
    /// One figure of both sides.
    pub(crate) fn figure(&self, index: usize) -> (Option<f64>, Option<f64>) {
        (
            self.ours.map(|figures| figures[index]),
            self.peer.map(|figures| figures[index]),
        )
    }
}

/// `target/release/bench` → `target/bench-data`: on the disk of the working tree, and ignored by git. The
/// system's temporary directory would not do, since it is often in memory.
fn default_dir() -> Result<PathBuf> {
    let binary = std::env::current_exe().context("cannot tell where this binary is; give --dir")?;
    let parent = binary
        .parent()
        .and_then(Path::parent)
        .context("give --dir")?;
    Ok(parent.join("bench-data"))
}
