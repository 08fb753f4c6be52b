//! A process of a cluster, for tests: each shard has one object, which is a list.
//!
//! It answers a line with a line, on a port of 127.0.0.1 that it prints:
//!
//! | request | answer |
//! |---|---|
//! | `add SHARD VALUE`, `read SHARD` | `list NUMBER NONCE VALUE …`: the session that answers, and the list |
//! | `give SHARD NUMBER NONCE` | `given` |
//! | `leave` | none: the process leaves the cluster and ends |
//! | `status` | `status NUMBER NONCE SHARDS UNSERVED`: the session, how many shards it serves, and how many it owns and cannot serve |
//!
//! or `no`: nothing was done.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::exit,
    sync::{Arc, mpsc},
    thread::{self, sleep},
    time::Duration,
};

use abide_cluster::{SessionId, Shard};
use abide_cluster_node::{End, Home, Member, Settings, now};
use abide_cluster_postgres::{Accept, Database};
use abide_history::{Location, RealMachine};
use abide_storage::{ErrorKind, Lsn, ObjectDb, ObjectKey, StoreOptions};
use object_store::local::LocalFileSystem;
use tokio::runtime::Builder;

pub(crate) const DIR: &str = "ABIDE_TEST_NODE_DIR";
pub(crate) const ADDRESS: &str = "ABIDE_TEST_NODE_POSTGRES";
/// The directory with the runs of all processes.
pub(crate) const RUNS: &str = "ABIDE_TEST_NODE_RUNS";
const MOMENT: Duration = Duration::from_millis(1);

#[test]
#[ignore = "is a process of other tests"]
fn a_process() {
    let Ok(dir) = env::var(DIR) else { return };
    let address = env::var(ADDRESS).unwrap();
    let database = Database::new(&address, Accept::Local).unwrap();
    let joined = Home::open(&PathBuf::from(dir)).and_then(|home| {
        let options = StoreOptions::small().checkpoint_interval(Duration::from_secs(1));
        let runs = stored_runs(&PathBuf::from(env::var(RUNS).unwrap()));
        let mut settings = Settings::new(database, runs);
        settings.run_every = Duration::from_millis(500);
        settings.keep_replaced = Duration::ZERO;
        Member::join(home, settings, options)
    });
    let member = joined.unwrap_or_else(|error| {
        eprintln!("not joined: {error}");
        exit(1)
    });
    let member = Arc::new(member);
    let lists = start_lists(member.clone());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    println!("\nport {}", listener.local_addr().unwrap().port());
    let of_clients = member.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (member, lists) = (of_clients.clone(), lists.clone());
            thread::spawn(move || serve(&client, &member, &lists));
        }
    });
    loop {
        if let Some(end) = member.end().filter(|end| *end != End::Left) {
            eprintln!("ended: {end}");
            exit(2);
        }
        sleep(MOMENT);
    }
}

/// What the thread that has the objects is asked to do.
enum Task {
    Add(Shard, i64),
    Read(Shard),
    Give(Shard, SessionId),
}

/// A list, which may be shown when the store is durable up to a position.
struct List {
    values: Vec<i64>,
    needs: Lsn,
    computed: Duration,
}

type Lists = mpsc::Sender<(Task, mpsc::Sender<Option<List>>)>;

fn start_lists(member: Arc<Member>) -> Lists {
    let (sender, tasks) = mpsc::channel::<(Task, mpsc::Sender<Option<List>>)>();
    thread::spawn(move || {
        let mut open = BTreeMap::new();
        for (task, answer) in tasks {
            let _ = answer.send(execute(&member, &mut open, &task));
        }
    });
    sender
}

fn execute(member: &Member, open: &mut BTreeMap<Shard, ObjectDb>, task: &Task) -> Option<List> {
    let shard = match task {
        Task::Add(shard, _) | Task::Read(shard) | Task::Give(shard, _) => *shard,
    };
    if let Task::Give(_, to) = task {
        open.remove(&shard);
        let is_given = member.give(shard, *to);
        return is_given.then(|| List {
            values: Vec::new(),
            needs: Lsn::ZERO,
            computed: now(),
        });
    }
    if !member.serves(shard) {
        open.remove(&shard);
        return None;
    }
    let executed = (|| {
        let db = match open.entry(shard) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let namespace = member.store().namespace("List")?;
                let id = id(shard);
                let db = member.store().open_object(ObjectKey { namespace, id })?;
                db.exec("CREATE TABLE IF NOT EXISTS list (value INTEGER)", ())?;
                entry.insert(db)
            }
        };
        if let Task::Add(_, value) = task {
            db.exec("INSERT INTO list VALUES (?1)", [*value])?;
        }
        let values = db
            .exec("SELECT value FROM list ORDER BY rowid", ())?
            .all::<i64>()?;
        db.commit()?;
        Ok::<_, abide_storage::Error>(List {
            values,
            needs: db.newest(),
            computed: now(),
        })
    })();
    match executed {
        Ok(list) => Some(list),
        // It was given away, or the process ends.
        Err(error) => {
            open.remove(&shard);
            let is_expected = error.kind() == ErrorKind::Moved || member.end().is_some();
            if !is_expected {
                eprintln!("{shard:?}: {error}");
                exit(101);
            }
            None
        }
    }
}

/// A directory as a store of runs.
pub(crate) fn stored_runs(dir: &Path) -> abide_history::Store {
    let location: Location = format!("file://{}", dir.display()).parse().unwrap();
    let files = LocalFileSystem::new_with_prefix(dir).unwrap();
    let objects = Arc::new(files.with_fsync(true));
    abide_history::Store::of(objects, Arc::new(RealMachine), &location)
}

/// The id of the object of a shard.
pub(crate) fn id(shard: Shard) -> [u8; 32] {
    let mut id = [7; 32];
    [id[0], id[1]] = (shard.0 << 6).to_be_bytes();
    id
}

fn serve(client: &TcpStream, member: &Member, lists: &Lists) {
    let mut requests = BufReader::new(client).lines();
    while let Some(Ok(request)) = requests.next() {
        let Some(answer) = answer(&request, member, lists) else {
            return;
        };
        if (&mut &*client).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The line that answers a request. `None` if the session has ended.
fn answer(request: &str, member: &Member, lists: &Lists) -> Option<String> {
    let me = member.session();
    let (me_number, me_nonce) = (me.number, me.nonce);
    let words: Vec<&str> = request.split(' ').collect();
    let number = |word: &str| Shard(word.parse().unwrap());
    let task = match words[..] {
        ["add", of, value] => Task::Add(number(of), value.parse().unwrap()),
        ["read", of] => Task::Read(number(of)),
        ["leave"] => {
            let runtime = Builder::new_current_thread().enable_time().build().unwrap();
            let has_left = runtime.block_on(member.leave());
            exit(if has_left { 0 } else { 3 })
        }
        ["give", of, number, nonce] => {
            let shard = Shard(of.parse().unwrap());
            let (number, nonce) = (number.parse().unwrap(), nonce.parse().unwrap());
            Task::Give(shard, SessionId { number, nonce })
        }
        _ => {
            let (shards, unserved) = (member.shards(), member.unserved().len());
            return Some(format!(
                "status {me_number} {me_nonce} {shards} {unserved}\n"
            ));
        }
    };
    let is_gift = matches!(task, Task::Give(..));
    let read = match task {
        Task::Read(shard) => Some(shard),
        _ => None,
    };
    let (sender, list) = mpsc::channel();
    lists.send((task, sender)).ok()?;
    let Some(list) = list.recv().ok()? else {
        return Some("no\n".to_owned());
    };
    let may_leave = || {
        let is_current = read.is_none_or(|shard| member.may_release(shard, list.computed));
        member.store().durable() >= list.needs && is_current
    };
    while !may_leave() {
        sleep(MOMENT);
        if read.is_some_and(|shard| !member.serves(shard)) {
            return Some("no\n".to_owned());
        }
        if member.end().is_some() {
            return None;
        }
    }
    if is_gift {
        return Some("given\n".to_owned());
    }
    let values: Vec<String> = list.values.iter().map(ToString::to_string).collect();
    let values = values.join(" ");
    Some(format!("list {me_number} {me_nonce} {values}\n"))
}
