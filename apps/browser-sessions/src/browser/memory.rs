//! The limit of a browser's memory.
//!
//! Contract: all processes of a browser together take at most the limit and [`limits::MEMORY_MARGIN`]. Two mechanisms
//! keep it, and neither needs privileges. A thread adds up the memory of each browser's processes, every
//! [`limits::MEMORY_TICK`], and kills a browser above the limit. And the kernel stops a single process at limit and
//! margin (`RLIMIT_DATA`), so that a process which takes memory faster than the thread looks cannot take the
//! machine's. `RLIMIT_AS` does not work: Chromium reserves terabytes of addresses.
//!
//! Memory is what a process has written (anonymous) and what it shares with others of the browser. Shared memory
//! counts in each process that uses it. Programs and other files, which the kernel can drop at any time and all
//! browsers share, do not count.

use std::{
    collections::HashMap,
    fs, io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use crate::limits;

/// Watches the memory of browsers. Clones share a thread, which ends with the last.
#[derive(Clone, Debug)]
pub struct MemoryWatch(Arc<Watch>);

#[derive(Debug)]
struct Watch {
    bound: u64,
    browsers: Arc<Browsers>,
}

#[derive(Debug, Default)]
struct Browsers {
    watched: Mutex<HashMap<i32, Arc<AtomicBool>>>,
    /// There is a first browser, or the watch has ended.
    changed: Condvar,
}

/// A browser whose memory is watched, until this is dropped.
#[derive(Debug)]
pub(super) struct Watched {
    group: Pid,
    browsers: Arc<Browsers>,
}

impl MemoryWatch {
    /// Starts the thread. The bound is in bytes, for each browser.
    pub fn start(bound: u64) -> io::Result<Self> {
        let watch = Arc::new(Watch {
            bound,
            browsers: Arc::default(),
        });
        let browsers = Arc::clone(&watch.browsers);
        let owner = Arc::downgrade(&watch);
        thread::Builder::new()
            .name("browser-memory".to_owned())
            .spawn(move || look_after(&browsers, &owner))?;
        Ok(Self(watch))
    }

    /// The bound, in bytes.
    pub fn bound(&self) -> u64 {
        self.0.bound
    }

    /// Bounds a browser that has just been started: a process group that begins with this process. The flag is set when it is
    /// killed.
    pub(super) fn bind(&self, group: Pid, is_over: &Arc<AtomicBool>) -> Watched {
        let most = Some(self.0.bound.saturating_add(limits::MEMORY_MARGIN));
        let data = Rlimit {
            current: most,
            maximum: most,
        };
        // The processes that it starts inherit it.
        if let Err(error) = prlimit(Some(group), Resource::Data, data) {
            tracing::warn!(%error, "the kernel does not bound a browser's memory; only the watch does");
        }
        let browsers = Arc::clone(&self.0.browsers);
        browsers
            .watched()
            .insert(group.as_raw_nonzero().get(), Arc::clone(is_over));
        browsers.changed.notify_all();
        Watched { group, browsers }
    }
}

impl Watched {
    /// Kills all processes of the browser.
    pub(super) fn kill(&self) {
        // There may be none.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The thread has looked and waits, or has yet to look.
        let watched = self.browsers.watched();
        self.browsers.changed.notify_all();
        drop(watched);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let group = self.group.as_raw_nonzero().get();
        self.browsers.watched().remove(&group);
    }
}

impl Browsers {
    fn watched(&self) -> MutexGuard<'_, HashMap<i32, Arc<AtomicBool>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look_after(browsers: &Browsers, owner: &Weak<Watch>) {
    loop {
        let mut watched = browsers.watched();
        while watched.is_empty() {
            if owner.strong_count() == 0 {
                return;
            }
            watched = browsers
                .changed
                .wait(watched)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let groups = watched.clone();
        drop(watched);
        let Some(bound) = owner.upgrade().map(|watch| watch.bound) else {
            return;
        };
        for (group, bytes) in taken(&groups) {
            if bytes > bound {
                kill(browsers, group, bytes);
            }
        }
        thread::sleep(limits::MEMORY_TICK);
    }
}

/// Kills a browser, unless it has ended in the meantime: its process id may be reused by then.
fn kill(browsers: &Browsers, group: i32, bytes: u64) {
    let watched = browsers.watched();
    if let Some(is_over) = watched.get(&group)
        && let Some(pid) = Pid::from_raw(group)
        && !is_over.swap(true, Ordering::SeqCst)
    {
        tracing::warn!(
            mib = bytes >> 20,
            "a browser takes too much memory; it is killed"
        );
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// The memory of each of these process groups, in bytes.
fn taken(groups: &HashMap<i32, Arc<AtomicBool>>) -> HashMap<i32, u64> {
    let mut taken = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let directory = entry.path();
        let name = entry.file_name();
        let is_process = name
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        // A process may end while it is looked at.
        if is_process
            && let Ok(stat) = fs::read_to_string(directory.join("stat"))
            && let Some(group) = group(&stat)
            && groups.contains_key(&group)
            && let Ok(status) = fs::read_to_string(directory.join("status"))
        {
            *taken.entry(group).or_default() += memory(&status);
        }
    }
    taken
}

/// The group of a process, from its `stat`: after its name (which may hold any character), its state and its parent.
fn group(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// The memory of a process in bytes, from its `status`. What was swapped out is its memory, too.
fn memory(status: &str) -> u64 {
    let kib = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        matches!(name, "RssAnon" | "RssShmem" | "VmSwap")
            .then(|| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())?
    };
    status.lines().filter_map(kib).sum::<u64>() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_a_process_wrote_shares_and_swapped_out() {
        let status = "Name:\tRssAnon: 9\nVmRSS:\t  999 kB\nRssAnon:\t     100 kB\nRssFile:\t  50 kB\nRssShmem:\t 20 kB\nVmSwap:\t 3 kB\n";
        assert_eq!(memory(status), 123 << 10);
        assert_eq!(memory("Name:\tkthreadd\n"), 0);
    }

    #[test]
    fn a_group_is_found_behind_any_name() {
        assert_eq!(group("12 (a) b) (c) S 1 77 77 0 -1"), Some(77));
        assert_eq!(group("12 (cut off"), None);
    }
}
