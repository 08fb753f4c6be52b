//! A real `PostgreSQL` server for a single test, from the system's package.

use std::{
    fs,
    io::Write as _,
    net::Ipv4Addr,
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt, chown},
        net::UnixStream,
    },
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::PATIENCE;

const PAUSE: Duration = Duration::from_millis(20);
const PASSWORD: &str = "a password for a test";
const MISSING: &str = "PostgreSQL is not installed (Debian: apt install postgresql)";

/// A server with an empty database, reached through a socket in its own directory. If the test runs as root, the server
/// runs as another user, since it refuses to run as root.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
    /// Where it listens with TLS.
    tls: Option<Ipv4Addr>,
    child: Option<Child>,
}

impl Postgres {
    /// Creates a cluster and starts it.
    pub fn start() -> Self {
        Self::create(None)
    }

    /// The same, and it also listens with TLS, with the certificate of `shared/tls`, and requires a password there.
    pub fn start_with_tls() -> Self {
        // An address of this process alone, so that no other server has the port.
        let [_, b, c, d] = process::id().to_be_bytes();
        Self::create(Some(Ipv4Addr::new(127, 128 | b, c, d)))
    }

    fn create(tls: Option<Ipv4Addr>) -> Self {
        let dir = TempDir::with_prefix("abide-pg-").expect("a temporary directory");
        let mut server = Self {
            programs: programs().expect(MISSING),
            user: other_user(),
            tls,
            child: None,
            dir,
        };
        if let Some((uid, gid)) = server.user {
            chown(server.dir.path(), Some(uid), Some(gid)).expect("a directory can be given away");
        }
        server.write("password", PASSWORD);
        let made = server
            .command("initdb")
            .arg("--pwfile=password")
            .args(["--auth=trust", "--username=test", "--encoding=UTF8"])
            .args(["--locale=C", "--no-sync", "-D"])
            .arg(server.dir.path().join("data"))
            .stdout(Stdio::null())
            .status();
        assert!(made.expect(MISSING).success(), "initdb failed");
        if tls.is_some() {
            let logins = "local all all trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n";
            server.write("data/pg_hba.conf", logins);
            let certificate = include_str!("../shared/tls/certificate.pem");
            server.write("data/server.crt", certificate);
            server.write("data/server.key", include_str!("../shared/tls/key.pem"));
        }
        server.start_again();
        server
    }

    /// The connection string.
    pub fn address(&self) -> String {
        let host = self.dir.path().display();
        format!("host={host} user=test dbname=postgres")
    }

    /// The connection string for its TLS, without `sslmode`.
    pub fn address_with_tls(&self) -> String {
        let host = self.tls.expect("it was started with TLS");
        format!("host={host} user=test password='{PASSWORD}' dbname=postgres")
    }

    /// Writes a file that only the server's user may read.
    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.expect("a file can be written");
        if let Some((uid, gid)) = self.user {
            chown(path, Some(uid), Some(gid)).expect("a file can be given away");
        }
    }

    /// `kill -9`, in the middle of any operation.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server can be killed");
            child.wait().expect("the server is reaped");
        }
    }

    /// Restarts it after a kill, with its data.
    pub fn start_again(&mut self) {
        let begun = Instant::now();
        // Processes of a killed server may still exist for a moment.
        while !self.try_start() {
            let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(
                begun.elapsed() < PATIENCE,
                "PostgreSQL does not start: {log}"
            );
            sleep(PAUSE);
        }
    }

    fn try_start(&mut self) -> bool {
        let dir = self.dir.path().to_owned();
        let socket = dir.join(".s.PGSQL.5432");
        let log = fs::File::create(dir.join("log")).expect("a log");
        let mut command = self.command("postgres");
        command.arg("-D").arg(dir.join("data")).arg("-k").arg(&dir);
        command.args(["-c", "shared_buffers=16MB", "-c"]);
        match self.tls {
            Some(host) => command.args([&format!("listen_addresses={host}"), "-c", "ssl=on"]),
            None => command.arg("listen_addresses="),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        let mut child = child.expect(MISSING);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if child.try_wait().expect("the server is a child").is_some() {
                return false;
            }
            let ready = fs::read_to_string(dir.join("log")).unwrap_or_default();
            if ready.contains("ready to accept connections") && UnixStream::connect(&socket).is_ok()
            {
                self.child = Some(child);
                return true;
            }
            sleep(PAUSE);
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    /// A command that is killed when the test ends, however that happens.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]);
        if let Some((uid, gid)) = self.user {
            command
                .arg(format!("--reuid={uid}"))
                .arg(format!("--regid={gid}"))
                .arg("--clear-groups");
        }
        command
            .arg(self.programs.join(program))
            .current_dir(self.dir.path());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A clean shutdown, so that no shared memory is left behind.
        if let Some(mut child) = self.child.take() {
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            let begun = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(10)
            {
                sleep(PAUSE);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The directory with the server's programs. On Debian it is not in the search path.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path);
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let of_debian = versions.flatten().map(|version| version.path().join("bin"));
    of_debian
        .chain(of_path)
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
}

/// The user that root runs the server as.
fn other_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").expect("Linux").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let find = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    Some(found.expect("PostgreSQL does not run as root, and there is no other user for it"))
}
