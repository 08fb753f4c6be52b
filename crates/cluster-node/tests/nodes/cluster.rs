//! Processes on several machines, each with a supervisor that starts it again.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use abide_cluster::{SHARDS, SessionId, Shard};
use abide_cluster_postgres::{Accept, Database};
use abide_harness::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{ADDRESS, DIR, RUNS};

const MOMENT: Duration = Duration::from_millis(5);

/// A server and machines.
pub(crate) struct Cluster {
    pub(crate) machines: Vec<Machine>,
    pub(crate) postgres: Mutex<Postgres>,
    pub(crate) runtime: Runtime,
    dir: TempDir,
    address: String,
}

/// A machine, whose process is started again whenever it has ended.
pub(crate) struct Machine {
    state: Arc<State>,
    supervisor: Option<JoinHandle<()>>,
}

struct State {
    dir: PathBuf,
    runs: PathBuf,
    address: String,
    child: Mutex<Option<Child>>,
    port: Mutex<Option<u16>>,
    is_off: AtomicBool,
    /// Its directory is to be deleted before the next process starts.
    is_lost: AtomicBool,
    ends: Mutex<Vec<Option<i32>>>,
}

/// What a process says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) session: SessionId,
    pub(crate) shards: usize,
    pub(crate) unserved: usize,
}

impl Cluster {
    pub(crate) fn start(machines: usize) -> Self {
        let postgres = Postgres::start();
        let address = postgres.address();
        let runtime = Runtime::new().unwrap();
        let database = Database::new(&address, Accept::Local).unwrap();
        runtime.block_on(database.init()).unwrap();
        let dir = TempDir::with_prefix("abide-nodes-").unwrap();
        fs::create_dir(dir.path().join("runs")).unwrap();
        let mut cluster = Self {
            machines: Vec::new(),
            postgres: Mutex::new(postgres),
            runtime,
            dir,
            address,
        };
        for number in 0..machines {
            let machine = cluster.machine(number);
            cluster.machines.push(machine);
        }
        cluster
    }

    fn machine(&self, number: usize) -> Machine {
        let state = Arc::new(State {
            dir: self.dir.path().join(number.to_string()),
            runs: self.runs(),
            address: self.address.clone(),
            child: Mutex::default(),
            port: Mutex::default(),
            is_off: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            ends: Mutex::default(),
        });
        let supervisor = thread::spawn({
            let state = state.clone();
            move || state.supervise()
        });
        Machine {
            state,
            supervisor: Some(supervisor),
        }
    }

    fn runs(&self) -> PathBuf {
        self.dir.path().join("runs")
    }

    /// Makes the runs unreadable for as long as `during` takes, and no other can be put there.
    pub(crate) fn without_runs(&self, during: impl FnOnce()) {
        let (runs, away) = (self.runs(), self.dir.path().join("away"));
        fs::rename(&runs, &away).unwrap();
        // Otherwise the directory would be created again.
        File::create(&runs).unwrap();
        during();
        fs::remove_file(&runs).unwrap();
        fs::rename(&away, &runs).unwrap();
    }

    /// How many runs there are.
    pub(crate) fn count_runs(&self) -> usize {
        let mut dirs = vec![self.runs()];
        let mut count = 0;
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else {
                    count += 1;
                }
            }
        }
        count
    }

    /// Waits until the processes that run serve all shards.
    pub(crate) fn until_whole(&self, patience: Duration) {
        let begun = Instant::now();
        while self.shards() != usize::from(SHARDS) {
            assert!(begun.elapsed() < patience, "{} are served", self.shards());
            sleep(MOMENT);
        }
    }

    fn shards(&self) -> usize {
        let served = self.machines.iter().filter_map(Machine::status);
        served.map(|status| status.shards).sum()
    }

    /// Executes SQL as an administrator.
    pub(crate) fn sql(&self, sql: &str) {
        self.runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.address, tokio_postgres::NoTls).await;
            let Ok((client, connection)) = connected else {
                return;
            };
            tokio::spawn(connection);
            // It may meet a deadlock, or the end of the server.
            let _ = client.batch_execute(sql).await;
        });
    }

    /// How the processes have ended that were not killed, by exit status.
    pub(crate) fn ends(&self) -> Vec<i32> {
        let of = |machine: &Machine| machine.state.ends.lock().unwrap().clone();
        self.machines.iter().flat_map(of).flatten().collect()
    }
}

impl State {
    fn supervise(&self) {
        while !self.is_off.load(Ordering::Acquire) {
            if self.is_lost.swap(false, Ordering::AcqRel) {
                fs::remove_dir_all(&self.dir).unwrap();
            }
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["process::a_process", "--exact", "--ignored", "--nocapture"])
                .env(DIR, &self.dir)
                .env(ADDRESS, &self.address)
                .env(RUNS, &self.runs)
                .stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let output = child.stdout.take().unwrap();
            *self.child.lock().unwrap() = Some(child);
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(port) = line.strip_prefix("port ") {
                    *self.port.lock().unwrap() = port.parse().ok();
                }
            }
            *self.port.lock().unwrap() = None;
            let mut child = self.child.lock().unwrap();
            let status = child.take().unwrap().wait().unwrap();
            self.ends.lock().unwrap().push(status.code());
            drop(child);
            sleep(MOMENT);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &*self.child.lock().unwrap() {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }
}

impl Machine {
    /// Kills the process.
    pub(crate) fn kill(&self) {
        self.state.signal(Signal::KILL);
    }

    /// Kills the process and deletes its directory.
    pub(crate) fn lose_directory(&self) {
        self.state.is_lost.store(true, Ordering::Release);
        self.kill();
    }

    /// Suspends the process.
    pub(crate) fn suspend(&self) {
        self.state.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.state.signal(Signal::CONT);
    }

    /// Kills the process and starts no other.
    pub(crate) fn switch_off(&self) {
        self.state.is_off.store(true, Ordering::Release);
        self.kill();
    }

    pub(crate) fn connect(&self) -> Option<Client> {
        let port = (*self.state.port.lock().unwrap())?;
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(3)))
            .unwrap();
        Some(Client(BufReader::new(stream)))
    }

    pub(crate) fn status(&self) -> Option<Status> {
        let line = self.connect()?.ask("status").ok()?;
        let mut words = line.strip_prefix("status ")?.split(' ');
        let mut word = || words.next();
        let number = word()?.parse().ok()?;
        let nonce = word()?.parse().ok()?;
        let shards = word()?.parse().ok()?;
        let unserved = word()?.parse().ok()?;
        let session = SessionId { number, nonce };
        Some(Status {
            session,
            shards,
            unserved,
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        while self
            .supervisor
            .as_ref()
            .is_some_and(|supervisor| !supervisor.is_finished())
        {
            self.switch_off();
            sleep(MOMENT);
        }
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
    }
}

/// A connection to a process.
pub(crate) struct Client(BufReader<TcpStream>);

/// The answer to a request for a list.
pub(crate) enum Answer {
    List(SessionId, Vec<u64>),
    /// The process does not serve the shard.
    No,
}

impl Client {
    fn ask(&mut self, request: &str) -> io::Result<String> {
        self.0
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Sends `add SHARD VALUE` or `read SHARD`.
    pub(crate) fn list(&mut self, request: &str) -> io::Result<Answer> {
        let line = self.ask(request)?;
        let Some(list) = line.strip_prefix("list ") else {
            return Ok(Answer::No);
        };
        let mut words = list.split(' ');
        let session = SessionId {
            number: words.next().unwrap().parse().unwrap(),
            nonce: words.next().unwrap().parse().unwrap(),
        };
        let values = words.filter(|word| !word.is_empty());
        let values = values.map(|word| word.parse().unwrap()).collect();
        Ok(Answer::List(session, values))
    }

    pub(crate) fn leave(&mut self) {
        let _ = self.ask("leave");
    }

    pub(crate) fn give(&mut self, shard: Shard, to: SessionId) {
        let _ = self.ask(&format!("give {} {} {}", shard.0, to.number, to.nonce));
    }
}
