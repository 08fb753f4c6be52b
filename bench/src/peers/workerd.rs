//! `workerd` from npm, with a SQLite-backed durable object that stores on the measured disk.
//!
//! The package is installed into `bench/peers/workerd` the first time. workerd listens on 127.0.0.1 only.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::process::Owned;

pub(crate) const NAME: &str = "workerd";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/workerd");
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(20);

/// A running workerd.
pub(crate) struct Server {
    process: Owned,
    pub(crate) addr: SocketAddr,
}

impl Server {
    /// Starts workerd on a free port with its storage under `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let binary = binary()?;
        let storage = dir.join("storage");
        fs::create_dir_all(&storage)?;
        let log_path = dir.join("workerd.log");
        let log = File::create(&log_path)?;
        let addr = free_address()?;
        let mut command = Command::new(binary);
        command
            .args([
                "serve",
                &format!("{SOURCES}/config.capnp"),
                "--socket-addr",
                &format!("http={addr}"),
            ])
            .arg("--directory-path")
            .arg(format!("storage={}", storage.display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut process = Owned::spawn(&mut command)?;
        let begun = Instant::now();
        while TcpStream::connect(addr).is_err() {
            if process.has_ended() || begun.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(&log_path).unwrap_or_default();
                bail!("workerd does not start; it says:\n{log}");
            }
            std::thread::sleep(START_POLL);
        }
        Ok(Self { process, addr })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Installs workerd unless it is there.
pub(crate) fn install() -> Result<()> {
    binary().map(drop)
}

/// Asks workerd once, outside any measurement.
pub(crate) fn ask(addr: SocketAddr, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(addr)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n"
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    ensure!(
        reply.starts_with("HTTP/1.1 200"),
        "workerd answered {reply}"
    );
    Ok(())
}

/// The native binary in the npm package for this platform; npm installs it when it is missing.
fn binary() -> Result<PathBuf> {
    if let Some(found) = installed() {
        return Ok(found);
    }
    eprintln!("installing workerd from npm into {SOURCES}");
    let status = Command::new("npm")
        .args(["install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(SOURCES)
        .stdout(Stdio::null())
        .status()
        .context("npm is not installed, so the peer workerd cannot run: install npm, or measure ours alone with --side ours")?;
    if !status.success() {
        bail!("npm install failed in {SOURCES}: mend it, or measure ours alone with --side ours");
    }
    installed().context(
        "npm installed no workerd binary for this platform: measure ours alone with --side ours",
    )
}

fn installed() -> Option<PathBuf> {
    let packages = fs::read_dir(format!("{SOURCES}/node_modules/@cloudflare")).ok()?;
    packages
        .flatten()
        .map(|package| package.path().join("bin/workerd"))
        .find(|binary| binary.is_file())
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}
