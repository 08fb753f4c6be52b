//! The server's process, which is killed and started again at the same address.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::process::{self, Owned};

pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    dir: PathBuf,
    process: Owned,
}

/// What the process uses at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident bytes.
    pub(crate) memory: f64,
    pub(crate) descriptors: f64,
}

impl Server {
    /// Starts a server; returns when it serves.
    pub(crate) fn start(dir: PathBuf) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let addr = listener.local_addr()?;
        drop(listener);
        let process = spawn(&dir, addr)?;
        Ok(Self { addr, dir, process })
    }

    /// `kill -9`, and another process at once; returns when that serves.
    pub(crate) fn kill_and_restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = spawn(&self.dir, self.addr)?;
        Ok(())
    }

    /// Ends it cleanly.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.process.close_input();
        self.process.wait()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let pid = self.process.pid();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
            .context("the server has ended")?
            .count();
        Ok(Usage {
            memory: process::resident_bytes(pid)? as f64,
            descriptors: descriptors as f64,
        })
    }

    /// How long a new file beside the data takes to be on disk: tells a slow machine from a slow server.
    pub(crate) fn sync_beside(&self) -> Result<Duration> {
        let path = self.dir.with_extension("sync");
        let begun = Instant::now();
        File::create(&path)?.sync_all()?;
        let took = begun.elapsed();
        fs::remove_file(&path)?;
        Ok(took)
    }

    /// Bytes that the data directory takes on disk.
    pub(crate) fn disk_use(&self) -> Result<f64> {
        Ok(blocks(&self.dir)? as f64 * 512.0)
    }
}

fn spawn(dir: &Path, addr: SocketAddr) -> Result<Owned> {
    let port = addr.port().to_string();
    let mut process = Owned::ourselves_with("soak", dir, 0, &["--port", &port])?;
    process
        .lines()?
        .next()
        .context("the server did not start; its error is above")??;
    Ok(process)
}

/// Blocks of 512 bytes below a directory. Files that are removed meanwhile do not count.
fn blocks(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).context("the data directory is gone")? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        sum += metadata.blocks();
        if metadata.is_dir() {
            sum += blocks(&entry.path()).unwrap_or(0);
        }
    }
    Ok(sum)
}
