//! A queue in `PostgreSQL`: workers take rows with `FOR UPDATE SKIP LOCKED`, deliver them, and write what came of it.
//!
//! The server is a private one, with its data on the measured disk, a socket in the system's temporary directory, and
//! settings under which a commit is durable. It ends with the bench.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use futures_util::future::{join_all, try_join_all};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{runtime::Runtime, sync::Notify, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, Statement};

use crate::{
    http_client::HttpClient,
    process::{Owned, cpu_seconds_with_children},
    receiver::Stamp,
};

const SCHEMA: &str = "
    CREATE TABLE queue (
        id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        url         TEXT NOT NULL,
        payload     TEXT NOT NULL,
        key         UUID NOT NULL DEFAULT gen_random_uuid(),
        status      TEXT NOT NULL DEFAULT 'queued',
        attempts    INT NOT NULL DEFAULT 0,
        next_at     TIMESTAMPTZ NOT NULL DEFAULT now(),
        last_error  TEXT,
        created_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
        finished_at TIMESTAMPTZ
    ) WITH (fillfactor = 50);
    CREATE INDEX queue_due ON queue (next_at, id) WHERE status = 'queued';
    CREATE TABLE history (
        message BIGINT NOT NULL,
        seq     INT NOT NULL,
        at      TIMESTAMPTZ NOT NULL DEFAULT now(),
        event   TEXT NOT NULL,
        PRIMARY KEY (message, seq)
    );";

/// The rows that are due, locked, but for those that others have locked.
const DUE: &str = "SELECT id FROM queue WHERE status = 'queued' AND next_at <= now()
    ORDER BY next_at, id LIMIT $1 FOR UPDATE SKIP LOCKED";

/// How the workers go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A batch is marked as being sent, in a transaction; then it is sent; then it is marked as sent, in another: an
    /// attempt is recorded before it is made, as with ours.
    Batches,
    /// The same, and each change of a row is kept in a table of history, as with ours.
    BatchesWithHistory,
    /// As `Batches`, and each row is marked as sent when its answer comes, in its own transaction.
    OneByOne,
    /// A batch stays locked while it is sent and is marked as sent at the end of the same transaction: one commit, and
    /// after a crash nothing tells which messages may have been sent.
    OneTransaction,
}

impl Form {
    pub(crate) const ALL: [Self; 4] = [
        Self::Batches,
        Self::BatchesWithHistory,
        Self::OneByOne,
        Self::OneTransaction,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Batches => "PostgreSQL, SKIP LOCKED, batches",
            Self::BatchesWithHistory => "PostgreSQL, SKIP LOCKED, batches, history",
            Self::OneByOne => "PostgreSQL, SKIP LOCKED, marked one by one",
            Self::OneTransaction => "PostgreSQL, SKIP LOCKED, locked while sent",
        }
    }

    fn claim(self) -> String {
        let claim = format!(
            "UPDATE queue SET status = 'sending', attempts = attempts + 1 WHERE id IN ({DUE})
             RETURNING id, url, payload, key::text, attempts"
        );
        match self {
            Self::Batches | Self::OneByOne => claim,
            Self::BatchesWithHistory => format!(
                "WITH claimed AS ({claim}), noted AS (
                     INSERT INTO history (message, seq, event) SELECT id, attempts * 2, 'sending' FROM claimed)
                 SELECT id, url, payload, key FROM claimed"
            ),
            Self::OneTransaction => {
                format!("SELECT id, url, payload, key::text FROM queue WHERE id IN ({DUE})")
            }
        }
    }

    fn mark(self) -> String {
        let mark = "UPDATE queue SET status = 'sent', finished_at = now() WHERE id = ANY($1)";
        match self {
            Self::Batches | Self::OneByOne => mark.to_owned(),
            Self::BatchesWithHistory => format!(
                "WITH marked AS ({mark} RETURNING id, attempts)
                 INSERT INTO history (message, seq, event) SELECT id, attempts * 2 + 1, 'sent' FROM marked"
            ),
            Self::OneTransaction => mark.replace("'sent',", "'sent', attempts = attempts + 1,"),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    process: Owned,
    socket_dir: PathBuf,
}

const START_TIMEOUT: Duration = Duration::from_mins(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
const MISSING: &str = "PostgreSQL is not installed, so the peer cannot run: install it (Debian: apt install postgresql), or \
                       measure ours alone with --side ours";

impl Server {
    /// Makes a cluster under `dir` and starts it.
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let programs = programs().context(MISSING)?;
        let data = dir.join("cluster");
        let socket_dir = std::env::temp_dir().join(format!("abide-bench-{}", std::process::id()));
        let _ = fs::remove_dir_all(&socket_dir);
        for dir in [&data, &socket_dir] {
            fs::create_dir_all(dir)?;
        }
        let user = ServerUser::find()?;
        for dir in [&data, &socket_dir] {
            user.give(dir)?;
        }
        let made = user
            .command(&programs.join("initdb"))
            .args([
                "--auth=trust",
                "--username=bench",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .stdout(Stdio::null())
            .status()
            .context(MISSING)?;
        if !made.success() {
            bail!("initdb failed; its error is above");
        }
        let log = fs::File::create(dir.join("postgres.log"))?;
        let mut command = user.command(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(&socket_dir);
        for setting in [
            "listen_addresses=",
            "fsync=on",
            "synchronous_commit=on",
            "full_page_writes=on",
            "wal_sync_method=fdatasync",
            "shared_buffers=256MB",
            "max_wal_size=4GB",
        ] {
            command.args(["-c", setting]);
        }
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = Owned::spawn(&mut command)?;
        let mut server = Self {
            process,
            socket_dir,
        };
        let socket = server.socket_dir.join(".s.PGSQL.5432");
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            if server.process.has_ended() || begun.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(dir.join("postgres.log")).unwrap_or_default();
                bail!("PostgreSQL does not start; it says:\n{log}");
            }
            std::thread::sleep(PAUSE);
        }
        Ok(server)
    }
}

impl Server {
    /// The connection string.
    pub(crate) fn address(&self) -> String {
        let host = self.socket_dir.display();
        format!("host={host} user=bench dbname=postgres")
    }

    /// CPU seconds of all its processes so far.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_with_children(self.process.pid())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Cleanly, so that no shared memory stays behind; `Owned` kills it if that takes too long.
        let pid = i32::try_from(self.process.pid())
            .ok()
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::INT);
        }
        let begun = Instant::now();
        while !self.process.has_ended() && begun.elapsed() < STOP_TIMEOUT {
            std::thread::sleep(PAUSE);
        }
        let _ = fs::remove_dir_all(&self.socket_dir);
    }
}

/// The directory with the server's programs. Debian keeps them out of the search path.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path);
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let of_debian = versions.flatten().map(|version| version.path().join("bin"));
    of_debian
        .chain(of_path)
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
}

/// Who runs the server, which refuses to be run by root.
enum ServerUser {
    Ourselves,
    Other {
        name: &'static str,
        uid: u32,
        gid: u32,
    },
}

impl ServerUser {
    fn find() -> Result<Self> {
        let us = fs::metadata("/proc/self")?.uid();
        if us != 0 {
            return Ok(Self::Ourselves);
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        for name in ["postgres", "nobody"] {
            for line in users.lines() {
                let fields: Vec<&str> = line.split(':').collect();
                if let [found, _, uid, gid, ..] = fields[..]
                    && found == name
                {
                    return Ok(Self::Other {
                        name,
                        uid: uid.parse()?,
                        gid: gid.parse()?,
                    });
                }
            }
        }
        bail!(
            "PostgreSQL does not run as root, and there is no user postgres or nobody: run the bench as another user"
        )
    }

    fn give(&self, dir: &Path) -> Result<()> {
        match *self {
            Self::Ourselves => Ok(()),
            Self::Other { name, uid, gid } => chown(dir, Some(uid), Some(gid))
                .with_context(|| format!("cannot give {} to user {name}", dir.display())),
        }
    }

    /// A command that ends when the bench does, however that ends.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "INT"]);
        if let Self::Other { uid, gid, .. } = self {
            command
                .arg(format!("--reuid={uid}"))
                .arg(format!("--regid={gid}"))
                .arg("--clear-groups");
        }
        command.arg(program);
        command
    }
}

/// Workers on a queue.
pub(crate) struct Queue {
    runtime: Runtime,
    producers: Vec<Producer>,
    marked: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

struct Producer {
    client: Client,
    insert: Statement,
    insert_and_tell: Statement,
}

/// What a worker needs.
struct Worker {
    client: Client,
    http: HttpClient,
    form: Form,
    batch: i64,
    news: Arc<Notify>,
    marked: Arc<AtomicUsize>,
}

impl Queue {
    /// An empty queue, and workers that together have this many messages in flight.
    pub(crate) fn start(
        server: &Server,
        form: Form,
        workers: usize,
        in_flight: usize,
        producers: usize,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let marked = Arc::new(AtomicUsize::new(0));
        let http = HttpClient::new();
        let (tasks, producers) = runtime.block_on(async {
            let (setup, _) = server.connect(None).await?;
            setup
                .batch_execute(&format!("DROP TABLE IF EXISTS queue, history; {SCHEMA}"))
                .await?;
            let mut tasks = Vec::new();
            for _ in 0..workers {
                let news = Arc::new(Notify::new());
                let (client, driver) = server.connect(Some(Arc::clone(&news))).await?;
                client.batch_execute("LISTEN queue").await?;
                let worker = Worker {
                    client,
                    http: http.clone(),
                    form,
                    batch: i64::try_from(in_flight.div_ceil(workers))?,
                    news,
                    marked: Arc::clone(&marked),
                };
                tasks.push(driver);
                tasks.push(tokio::spawn(worker.run()));
            }
            let producers = try_join_all((0..producers).map(|_| Producer::connect(server))).await?;
            Ok::<_, anyhow::Error>((tasks, producers))
        })?;
        Ok(Self {
            runtime,
            producers,
            marked,
            tasks,
        })
    }

    /// Enqueues a message that is due at once, and tells the workers.
    pub(crate) fn enqueue_and_tell(&self, url: &str, number: u64) -> Result<()> {
        let Some(producer) = self.producers.first() else {
            bail!("there is no producer to enqueue it");
        };
        let text = Stamp::now(number).text();
        self.runtime.block_on(async {
            producer
                .client
                .execute(&producer.insert_and_tell, &[&url, &text])
                .await?;
            Ok(())
        })
    }

    /// Enqueues messages that are due tomorrow, each in its own transaction, from all producers at once.
    pub(crate) fn enqueue_for_later(&self, url: &str, count: u64) -> Result<()> {
        self.runtime.block_on(async {
            let lanes = self.producers.iter().enumerate().map(|(lane, producer)| {
                let numbers = (lane as u64..count).step_by(self.producers.len());
                async move {
                    for number in numbers {
                        let text = Stamp::now(number).text();
                        producer
                            .client
                            .execute(&producer.insert, &[&url, &text])
                            .await?;
                    }
                    Ok(())
                }
            });
            try_join_all(lanes).await.map(drop)
        })
    }

    /// Enqueues messages in one transaction, due at a time in milliseconds since 1970.
    pub(crate) fn fill(&self, url: &str, first: u64, count: u64, due: i64) -> Result<()> {
        let Some(producer) = self.producers.first() else {
            bail!("there is no producer to enqueue it");
        };
        let texts: Vec<String> = (first..first + count)
            .map(|number| Stamp::now(number).text())
            .collect();
        self.runtime.block_on(async {
            let fill = "INSERT INTO queue (url, payload, next_at)
                SELECT $1, unnest($2::text[]), to_timestamp($3::float8 / 1000)";
            let due = due as f64;
            producer.client.execute(fill, &[&url, &texts, &due]).await?;
            Ok(())
        })
    }

    /// Has the workers look at what is due.
    pub(crate) fn tell(&self) -> Result<()> {
        let Some(producer) = self.producers.first() else {
            bail!("there is no worker to notify");
        };
        self.runtime.block_on(async {
            producer.client.batch_execute("NOTIFY queue").await?;
            Ok(())
        })
    }

    /// How many messages have been marked as sent.
    pub(crate) fn marked(&self) -> Result<usize> {
        for task in &self.tasks {
            if task.is_finished() {
                bail!("a worker of the PostgreSQL queue has ended");
            }
        }
        Ok(self.marked.load(Ordering::Relaxed))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Server {
    /// A connection; notifications go to `news`.
    async fn connect(&self, news: Option<Arc<Notify>>) -> Result<(Client, JoinHandle<Result<()>>)> {
        let (client, mut connection) = tokio_postgres::Config::new()
            .host_path(&self.socket_dir)
            .user("bench")
            .dbname("postgres")
            .connect(NoTls)
            .await?;
        let driver = tokio::spawn(async move {
            while let Some(message) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let (AsyncMessage::Notification(_), Some(news)) = (message?, &news) {
                    news.notify_one();
                }
            }
            Ok(())
        });
        Ok((client, driver))
    }
}

impl Producer {
    async fn connect(server: &Server) -> Result<Self> {
        let (client, _) = server.connect(None).await?;
        let later =
            "INSERT INTO queue (url, payload, next_at) VALUES ($1, $2, now() + interval '1 day')";
        let told = "WITH added AS (INSERT INTO queue (url, payload) VALUES ($1, $2))
            SELECT pg_notify('queue', '')";
        Ok(Self {
            insert: client.prepare(later).await?,
            insert_and_tell: client.prepare(told).await?,
            client,
        })
    }
}

impl Worker {
    async fn run(self) -> Result<()> {
        let claim = self.client.prepare(&self.form.claim()).await?;
        let mark = self.client.prepare(&self.form.mark()).await?;
        loop {
            if self.form == Form::OneTransaction {
                self.client.batch_execute("BEGIN").await?;
            }
            let rows = self.client.query(&claim, &[&self.batch]).await?;
            let count = rows.len();
            if self.form == Form::OneByOne {
                join_all(rows.iter().map(|row| async {
                    let sent = self.send(row).await?;
                    self.client.execute(&mark, &[&vec![sent]]).await?;
                    Ok::<_, anyhow::Error>(())
                }))
                .await
                .into_iter()
                .collect::<Result<()>>()?;
            } else if count > 0 {
                let sent = try_join_all(rows.iter().map(|row| self.send(row))).await?;
                self.client.execute(&mark, &[&sent]).await?;
            }
            if self.form == Form::OneTransaction {
                self.client.batch_execute("COMMIT").await?;
            }
            self.marked.fetch_add(count, Ordering::Relaxed);
            if count == 0 {
                self.news.notified().await;
            }
        }
    }

    /// Delivers a row, and returns its id.
    async fn send(&self, row: &Row) -> Result<i64> {
        let (url, payload, key): (&str, String, &str) = (row.get(1), row.get(2), row.get(3));
        self.http.deliver(url, key, payload).await?;
        Ok(row.get(0))
    }
}
