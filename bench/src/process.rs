//! What Linux tells about a process (CPU time, memory, descriptors), and children that end with their owner.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

/// `/proc` counts CPU time in hundredths of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
const MEMORY_PAGE: u64 = 4096;

/// CPU seconds used by a process so far, all threads, user and system.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .context("the measured process has ended")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok());
    let (Some(user), Some(system)) = (ticks(), ticks()) else {
        bail!("/proc/{pid}/stat is not as expected")
    };
    Ok((user + system) / TICKS_PER_SECOND)
}

/// The same of a process and all its children, those that have ended included.
pub(crate) fn cpu_seconds_with_children(pid: u32) -> Result<f64> {
    let mut ticks = 0.0;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // It may have ended meanwhile: then it counts with its parent.
        let Ok(stat) = fs::read_to_string(path.join("stat")) else {
            continue;
        };
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let is_parent = path
            .file_name()
            .is_some_and(|name| *name == *pid.to_string());
        let is_child = number(1) == Some(f64::from(pid));
        if is_parent || is_child {
            let own = [11, 12].into_iter().filter_map(number).sum::<f64>();
            let ended = [13, 14].into_iter().filter_map(number).sum::<f64>();
            ticks += own + ended;
        }
    }
    Ok(ticks / TICKS_PER_SECOND)
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm"))
        .context("the measured process has ended")?;
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse::<u64>().ok());
    Ok(pages.with_context(|| format!("/proc/{pid}/statm is not as expected"))? * MEMORY_PAGE)
}

/// The highest number of resident bytes of a process, since it began or [`forget_highest`].
pub(crate) fn highest_resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .context("the measured process has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.with_context(|| format!("/proc/{pid}/status is not as expected"))? << 10)
}

/// Has the highest number counted anew from now.
pub(crate) fn forget_highest(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").context("cannot reset the peak of memory")
}

/// Raises the limit of descriptors, for this process and its children, as far as it may: to `ENOUGH` if the user is
/// allowed to, otherwise the soft limit to the hard one. Returns it.
pub(crate) fn descriptor_limit() -> usize {
    const ASSUMED: u64 = 1024;
    const ENOUGH: u64 = 65_536;
    let Rlimit { maximum, current } = getrlimit(Resource::Nofile);
    if maximum.is_some_and(|maximum| maximum < ENOUGH) {
        let wanted = Rlimit {
            current: Some(ENOUGH),
            maximum: Some(ENOUGH),
        };
        if setrlimit(Resource::Nofile, wanted).is_ok() {
            return ENOUGH as usize;
        }
    }
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .is_ok();
    let limit = if raised { maximum } else { current };
    usize::try_from(limit.unwrap_or(ASSUMED)).unwrap_or(usize::MAX)
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// One side of a machine whose cores are shared out between a server and its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Server,
    Load,
}

/// Keeps this thread, and the threads and processes that it starts, on its half of the cores until the guard is dropped. Does
/// nothing on a single core, so a process that inherits one half cannot choose the other.
pub(crate) fn keep_to(half: Half) -> Result<Kept> {
    let before = sched_getaffinity(None).context("cannot tell which cores may be used")?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| before.is_set(*core))
        .collect();
    if cores.len() >= 2 {
        let (server, load) = cores.split_at(cores.len().div_ceil(2));
        let mut own = CpuSet::new();
        for core in if half == Half::Server { server } else { load } {
            own.set(*core);
        }
        sched_setaffinity(None, &own).context("cannot choose cores")?;
    }
    Ok(Kept(before))
}

/// A thread that is kept to some cores.
#[must_use]
pub(crate) struct Kept(CpuSet);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

/// A child process that is killed when this is dropped.
pub(crate) struct Owned(Child);

impl Owned {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self(child))
    }

    /// This binary again, in the given role. Its standard input stays open as long as this lives.
    pub(crate) fn ourselves(role: &str, dir: &Path, objects: usize) -> Result<Self> {
        Self::ourselves_with(role, dir, objects, &[])
    }

    /// The same, with arguments of the role's own.
    pub(crate) fn ourselves_with(
        role: &str,
        dir: &Path,
        objects: usize,
        arguments: &[&str],
    ) -> Result<Self> {
        let binary = std::env::current_exe().context("cannot tell where this binary is")?;
        let mut command = Command::new(binary);
        command
            .args(["child", role, "--data"])
            .arg(dir)
            .args(["--objects", &objects.to_string()])
            .args(arguments);
        Self::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// This binary, spinning on a CPU that is otherwise idle. In the scheduler's idle class if `chrt` is there: that
    /// class gives way at once, while a process of the lowest priority can hold others up for a tick.
    pub(crate) fn spinner() -> Result<Self> {
        let binary = std::env::current_exe().context("cannot tell where this binary is")?;
        let role = ["child", "awake", "--data", ".", "--objects", "0"];
        let mut idle = Command::new("chrt");
        idle.args(["--idle", "0"]).arg(&binary).args(role);
        Self::spawn(idle.stdin(Stdio::piped()))
            .or_else(|_| Self::spawn(Command::new(&binary).args(role).stdin(Stdio::piped())))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The lines of the child's standard output. May be taken once.
    pub(crate) fn lines(
        &mut self,
    ) -> Result<impl Iterator<Item = std::io::Result<String>> + use<>> {
        Ok(BufReader::new(
            self.0
                .stdout
                .take()
                .context("the child's output is taken already")?,
        )
        .lines())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// `kill -9`; returns when the child is gone.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.0.kill().context("cannot kill the child")?;
        self.wait()
    }

    /// Closes the child's standard input, which tells it to end cleanly.
    pub(crate) fn close_input(&mut self) {
        self.0.stdin = None;
    }

    /// Waits until the child ends.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.0.wait().context("cannot wait for the child")?;
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
