//! A Chromium process.
//!
//! Contract: a browser does not outlive the program for long. Chromium ends when its pipe breaks, which also happens
//! when the program is killed. It has its own process group, which is killed as a whole. [`sweep`] kills what an
//! earlier run left behind and removes its files. Of the program's environment, Chromium sees only where programs and
//! fonts are, and the language.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::DirBuilder,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::DirBuilderExt},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    process::{Child, ChildStderr, Command},
    sync::{oneshot, watch},
    time::timeout,
};

use super::memory::{MemoryWatch, Watched};
use crate::limits;

/// How Chromium is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub chromium: PathBuf,
    /// Runs it without its sandbox.
    pub no_sandbox: bool,
    /// Where each browser has a directory for its profile. Nothing else is in it.
    pub profiles: PathBuf,
    /// Bounds the memory of each browser.
    pub memory: MemoryWatch,
}

/// A running browser. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    stop: Mutex<Option<oneshot::Sender<()>>>,
    ended: watch::Receiver<bool>,
    is_over_memory: Arc<AtomicBool>,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
}

/// The ends of the pipe on which a browser speaks the `DevTools` protocol.
pub struct Pipe {
    /// Where commands go.
    pub commands: pipe::Sender,
    /// Where events and results come from.
    pub events: pipe::Receiver,
}

impl Process {
    /// Starts a browser. The guard is dropped when the process has ended and its files are gone.
    pub fn start(
        launch: &Launch,
        number: u64,
        guard: impl Send + 'static,
    ) -> io::Result<(Self, Pipe)> {
        // Profiles hold what pages have stored.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&launch.profiles)?;
        let profile =
            std::path::absolute(&launch.profiles)?.join(format!("{}-{number}", std::process::id()));
        // An earlier run may have had the same process id, as in a container, and an end too sudden to remove its files.
        match std::fs::remove_dir_all(&profile) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&profile)?,
        }
        let (commands_read, commands_write) = io::pipe()?;
        let (events_read, events_write) = io::pipe()?;
        let mut command = Command::new(&launch.chromium);
        command
            .args(arguments(&profile, launch.no_sandbox))
            .env_clear()
            .envs(
                ["PATH", "LANG", "FONTCONFIG_PATH", "FONTCONFIG_FILE"]
                    .iter()
                    .filter_map(|name| std::env::var_os(name).map(|value| (*name, value))),
            )
            .env("HOME", &profile)
            .envs(socket_directory(&profile).map(|directory| ("TMPDIR", directory)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .fd_mappings(vec![
                FdMapping {
                    parent_fd: commands_read.into(),
                    child_fd: 3,
                },
                FdMapping {
                    parent_fd: events_write.into(),
                    child_fd: 4,
                },
            ])
            .map_err(io::Error::other)?;
        let spawned = command.spawn();
        // The program's copies of the browser's ends close: each side notices by a broken pipe that the other has
        // ended.
        drop(command);
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&profile);
                return Err(error);
            }
        };
        let is_over_memory = Arc::<AtomicBool>::default();
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.map(|group| launch.memory.bind(group, &is_over_memory));
        let stderr_tail = Arc::<Mutex<VecDeque<u8>>>::default();
        let stderr = child.stderr.take();
        let listener = stderr.map(|stderr| tokio::spawn(listen(stderr, Arc::clone(&stderr_tail))));
        let (stop, stopped) = oneshot::channel();
        let (has_ended, ended) = watch::channel(false);
        tokio::spawn(async move {
            attend(child, group, stopped, &profile).await;
            if let Some(listener) = listener {
                // The pipe ends with the last process of the group.
                let _ = timeout(limits::CLOSE_TIME, listener).await;
            }
            has_ended.send_replace(true);
            drop(guard);
        });
        let process = Self {
            stop: Mutex::new(Some(stop)),
            ended,
            is_over_memory,
            stderr_tail,
        };
        let pipe = Pipe {
            commands: pipe::Sender::from_owned_fd(OwnedFd::from(commands_write))?,
            events: pipe::Receiver::from_owned_fd(OwnedFd::from(events_read))?,
        };
        Ok((process, pipe))
    }

    /// Ends it, without waiting for the end.
    pub fn kill(&self) {
        let stop = self
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(stop) = stop {
            // It may have ended already.
            let _ = stop.send(());
        }
    }

    /// True when the process is gone.
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// True if it was killed because it took too much memory.
    pub fn is_over_memory(&self) -> bool {
        self.is_over_memory.load(Ordering::SeqCst)
    }

    /// Ends it and waits for the end. Returns what it last wrote to standard error.
    pub async fn end(&self) -> String {
        self.kill();
        let mut ended = self.ended.clone();
        // The sender lives until then.
        let _ = ended.wait_for(|ended| *ended).await;
        let bytes = self
            .stderr_tail
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The directory for a browser's temporary files, which are removed with its profile. It also has a socket, whose
/// path must be short; if the path is too long, the system's directory is used.
fn socket_directory(profile: &Path) -> Option<&Path> {
    (profile.as_os_str().len() <= limits::SOCKET_DIRECTORY).then_some(profile)
}

/// Waits for a browser's end, or ends it; then removes its files.
async fn attend(
    mut child: Child,
    group: Option<Watched>,
    stopped: oneshot::Receiver<()>,
    profile: &Path,
) {
    tokio::select! {
        _ = child.wait() => {}
        _ = stopped => {}
    }
    if let Some(group) = group {
        // What is left of the group; nothing may be.
        group.kill();
    }
    let _ = child.wait().await;
    // Processes of the group that are just ending may still write.
    for _ in 0..20 {
        match tokio::fs::remove_dir_all(profile).await {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            _ => return,
        }
    }
}

/// Keeps the last output of a browser, and continues reading: a browser that writes to a full pipe would stop.
async fn listen(mut stderr: ChildStderr, stderr_tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let mut words = stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(&buffer[..read]);
        let surplus = words.len().saturating_sub(limits::STDERR_BYTES);
        words.drain(..surplus);
    }
}

fn arguments(profile: &Path, no_sandbox: bool) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "--headless=new",
        "--remote-debugging-pipe",
        "--no-first-run",
        "--no-default-browser-check",
        "--no-startup-window",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--disable-component-update",
        "--disable-background-networking",
        "--disable-sync",
        "--disable-default-apps",
        "--disable-breakpad",
        "--disable-crash-reporter",
        "--disable-client-side-phishing-detection",
        "--disable-domain-reliability",
        // The last two connect to a search engine through the page's proxy, as if the page had.
        "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,AutofillServerCommunication,\
         AimEnabled,PreconnectToSearch",
        "--disable-renderer-backgrounding",
        "--disable-backgrounding-occluded-windows",
        "--metrics-recording-only",
        "--mute-audio",
        "--hide-scrollbars",
        "--password-store=basic",
        "--use-mock-keychain",
        // Connections that bypass a page's own proxy fail: no name is resolved here, and nothing is sent past a
        // proxy.
        "--proxy-server=socks5://127.0.0.1:9",
        "--proxy-bypass-list=<-loopback>",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--dns-prefetch-disable",
        "--disable-quic",
        "--webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    ]
    .map(OsString::from)
    .into();
    arguments.push(
        format!(
            "--js-flags=--max-old-space-size={}",
            limits::SCRIPT_HEAP_MIB
        )
        .into(),
    );
    arguments.push(format!("--disk-cache-size={}", limits::CACHE_BYTES).into());
    let mut directory = OsString::from(PROFILE);
    directory.push(profile);
    arguments.push(directory);
    if no_sandbox {
        arguments.push("--no-sandbox".into());
    }
    arguments
}

/// The argument that tells whose a browser is.
const PROFILE: &str = "--user-data-dir=";

/// Kills the browsers that an earlier run of the program left behind, and removes their files. Call it when this
/// program owns the data directory. Returns how many there were.
pub fn sweep(profiles: &Path) -> io::Result<usize> {
    let profiles = std::path::absolute(profiles)?;
    let mut ours = OsString::from(PROFILE);
    ours.push(&profiles);
    ours.push("/");
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = id.and_then(Pid::from_raw) else {
            continue;
        };
        // The process may have exited; other users' processes cannot be read.
        let Ok(command) = std::fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        let is_ours = command
            .split(|byte| *byte == 0)
            .any(|argument| argument.starts_with(ours.as_bytes()));
        if is_ours && let Ok(group) = rustix::process::getpgid(Some(pid)) {
            // Never the group of this program.
            if group != rustix::process::getpgrp()
                && kill_process_group(group, Signal::KILL).is_ok()
            {
                killed += 1;
            }
        }
    }
    match std::fs::remove_dir_all(&profiles) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            // A killed process may still be ending; the next start removes the rest.
            tracing::debug!(%error, "profiles of earlier browsers stay for now");
        }
        _ => {}
    }
    Ok(killed)
}
