//! A program of this workspace as a child process.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Client, Version, neutral, patience::patience};

/// A server program and its data directory.
#[derive(Clone, Debug)]
pub struct Program {
    binary: PathBuf,
    data: PathBuf,
    listen: String,
    variables: Vec<(String, String)>,
    arguments: Vec<String>,
    log: Option<PathBuf>,
    admin_scheme: &'static str,
}

impl Program {
    /// A binary, `env!("CARGO_BIN_EXE_…")`, with a `serve` command, and a data directory.
    pub fn new(binary: impl AsRef<Path>, data: impl AsRef<Path>) -> Self {
        Self {
            binary: binary.as_ref().to_owned(),
            data: data.as_ref().to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            variables: Vec::new(),
            arguments: Vec::new(),
            log: None,
            admin_scheme: "http",
        }
    }

    /// Listens on this address instead of a free port, such as that of an earlier server.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        address.clone_into(&mut self.listen);
        self
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Declares that its admin listener uses TLS.
    #[must_use]
    pub fn admin_speaks_tls(mut self) -> Self {
        self.admin_scheme = "https";
        self
    }

    /// Writes its standard error to a file.
    #[must_use]
    pub fn log_to(mut self, file: &Path) -> Self {
        self.log = Some(file.to_owned());
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// The command: with a free port, and without settings from this machine.
    pub fn command(&self) -> Command {
        // With the loosest mask for the modes of files, so that programs must say which they want.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\""]);
        command.arg(&self.binary);
        let beside = self
            .data
            .parent()
            .expect("a data directory lies in a directory");
        neutral(&mut command, beside)
            .args(["serve", "--listen", &self.listen, "--data"])
            .arg(&self.data)
            .args(&self.arguments)
            .env("ABIDE__ADMIN__LISTEN", "127.0.0.1:0")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(beside)
            .stdin(Stdio::null());
        command
    }

    /// Starts it; returns when it is serving.
    pub fn start(&self) -> Server {
        self.try_start().expect("the server starts")
    }

    /// The same, for a server that may fail to start; the error is what it printed instead of its address.
    pub fn try_start(&self) -> Result<Server, String> {
        let mut command = self.command();
        if let Some(log) = &self.log {
            let log = std::fs::File::create(log).expect("a log");
            command.stderr(log);
        }
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        // From here on the process ends with this value.
        let mut server = Server {
            child,
            stdout,
            address: String::new(),
            admin: String::new(),
        };
        server.address = server.line("listening on http://")?;
        server.admin = server.line(&format!("health and metrics on {}://", self.admin_scheme))?;
        Ok(server)
    }
}

/// A running server. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Kept open, so that the server never writes to a closed pipe.
    stdout: BufReader<ChildStdout>,
    address: String,
    admin: String,
}

impl Server {
    /// The text after this prefix on the next line.
    fn line(&mut self, intro: &str) -> Result<String, String> {
        let mut text = String::new();
        self.stdout
            .read_line(&mut text)
            .expect("the server prints lines");
        let rest = text.trim().strip_prefix(intro);
        rest.map(str::to_owned)
            .ok_or_else(|| format!("expected {intro:?}, got {:?}", text.trim()))
    }

    /// Host and port of the listener for clients.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Host and port of the admin listener.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// A client that speaks HTTP/1.1.
    pub fn client(&self) -> Client {
        Client::new(&self.address, Version::Http1)
    }

    /// A client that speaks HTTP/2.
    pub fn http2_client(&self) -> Client {
        Client::new(&self.address, Version::Http2)
    }

    /// A client of the admin listener.
    pub fn admin_client(&self) -> Client {
        Client::new(&self.admin, Version::Http1)
    }

    /// The peak memory of the process so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .expect("the server runs");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
            .expect("the system tells what a process has");
        peak.parse::<u64>().expect("a number") << 10
    }

    /// SIGHUP: the server reads its settings again.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server is reaped");
    }

    /// Suspends it.
    pub fn suspend(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it continue.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the server can be signalled");
    }

    /// Waits until the process has ended.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("the server is reaped")
    }

    /// SIGTERM, then waits for the process to end.
    pub fn stop(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that is expected to fail; returns its exit status and its standard error.
pub fn refused(mut command: Command) -> (ExitStatus, String) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let said = thread::spawn(move || {
        let mut said = String::new();
        let read = stderr.read_to_string(&mut said);
        read.map(|_| said).expect("stderr is text")
    });
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the process is reaped") {
            break Some(status);
        }
        if begun.elapsed() > patience() {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let said = said.join().expect("stderr is read");
    let status = status.unwrap_or_else(|| panic!("it runs, and was to be refused: {said}"));
    (status, said)
}
