//! `abide export --class` and `--all`: all objects as of one moment, beside a node that runs and on the directory that it leaves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{Host, prelude::*, server::RunningHost};
use abide_storage::{Disk as _, RealDisk};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::recovery::{Note, abide};

/// An account in whose object an alarm may go off.
#[durable_object]
pub(crate) struct Account {
    ctx: Ctx,
}

impl DurableObject for Account {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        ctx.sql()
            .exec("CREATE TABLE IF NOT EXISTS account (balance INTEGER)", ())?;
        Ok(Self { ctx })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        self.ctx.storage().put("rang", &true)
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Account {
    pub async fn set(&self, balance: i64) -> Result<()> {
        let sql = self.ctx.sql();
        // A closed account has none until it is opened again.
        sql.exec("CREATE TABLE IF NOT EXISTS account (balance INTEGER)", ())?;
        sql.exec("DELETE FROM account", ())?;
        sql.exec("INSERT INTO account VALUES (?1)", [balance])
            .map(drop)
    }

    pub async fn balance(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        sql.exec("SELECT balance FROM account", ())?.one()
    }

    pub async fn ring_in(&self, wait: Duration) -> Result<()> {
        self.ctx.storage().set_alarm(wait)
    }

    pub async fn has_rung(&self) -> Result<bool> {
        Ok(self.ctx.storage().get("rang")?.unwrap_or(false))
    }

    pub async fn close(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }
}

pub(crate) async fn start(data: &Path) -> RunningHost {
    let host = Host::builder(data)
        .object::<Account>()
        .object::<Note>()
        .configure(|config| {
            config.server.listen = abide::server::ListenAddress::any_port();
            config.admin.listen = Some(abide::server::ListenAddress::any_port());
        });
    host.start().await.unwrap()
}

pub(crate) fn account(host: &RunningHost, name: &str) -> Stub<Account> {
    host.env().object::<Account>().get_by_name(name)
}

pub(crate) fn listing(dir: &Path) -> Value {
    serde_json::from_slice(&fs::read(dir.join("export.json")).unwrap()).unwrap()
}

/// The files that a listing says that there are.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, PathBuf> {
    let listing = listing(dir);
    let objects = listing["objects"].as_array().unwrap();
    let file = |object: &Value| {
        let (class, id) = (object["class"].as_str(), object["id"].as_str());
        let path = dir
            .join(class.unwrap())
            .join(format!("{}.sqlite", id.unwrap()));
        let bytes = fs::metadata(&path).unwrap().len();
        assert_eq!(object["bytes"], bytes);
        (object["name"].as_str().unwrap_or("").to_owned(), path)
    };
    objects.iter().map(file).collect()
}

fn one<T: rusqlite::types::FromSql>(path: &Path, sql: &str) -> T {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(path, flags).unwrap();
    let check: String = file
        .query_row("PRAGMA integrity_check", (), |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok", "{}", path.display());
    file.query_row(sql, (), |row| row.get(0)).unwrap()
}

pub(crate) fn balances(dir: &Path) -> BTreeMap<String, i64> {
    let accounts = files(dir);
    let accounts = accounts
        .iter()
        .filter(|(_, path)| path.parent().unwrap().ends_with("Account"))
        // One that was just closed has nothing.
        .filter(|(name, _)| !name.is_empty() && !name.starts_with("other"));
    accounts
        .map(|(name, path)| (name.clone(), one(path, "SELECT balance FROM account")))
        .collect()
}

/// Moves money in a circle of accounts, one transfer after another, until it is told to stop: what was taken from one is given to the next
/// before the next transfer. Other accounts are opened and closed meanwhile.
async fn transfer(host: Arc<RunningHost>, ring: usize, stop: Arc<AtomicBool>) -> u64 {
    let names: Vec<_> = (0..4).map(|at| format!("ring {ring}: {at}")).collect();
    let mut balances = [100; 4];
    for name in &names {
        account(&host, name).set(100).await.unwrap();
    }
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (count as usize % 4, (count as usize + 1) % 4);
        balances[from] -= 1;
        account(&host, &names[from])
            .set(balances[from])
            .await
            .unwrap();
        balances[to] += 1;
        account(&host, &names[to]).set(balances[to]).await.unwrap();
        let other = account(&host, &format!("other {ring}: {}", count % 7));
        if count % 2 == 0 {
            other.set(0).await.unwrap();
        } else {
            other.close().await.unwrap();
        }
        count += 1;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn all_objects_of_a_class_under_load_are_exported_at_one_position() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = Arc::new(start(&data).await);
    let note = host.env().object::<Note>().get_by_name("of another class");
    note.write("text".into()).await.unwrap();
    for at in 0..60 {
        account(&host, &format!("idle {at}")).set(at).await.unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..3)
        .map(|ring| tokio::spawn(transfer(Arc::clone(&host), ring, Arc::clone(&stop))))
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    for round in 0..4 {
        let to = dir.path().join(format!("export {round}"));
        let export = ["export", "--class", "Account", "--to", to.to_str().unwrap()];
        let said = abide(&export, &data).await.unwrap();
        let balances = balances(&to);
        let count = listing(&to)["objects"].as_array().unwrap().len();
        assert!(said.contains(&format!("{count} objects")), "{said}");
        assert!(!to.join("Note").exists());
        for at in 0..60 {
            assert_eq!(balances[&format!("idle {at}")], at);
        }
        for ring in 0..3 {
            let ring = format!("ring {ring}: ");
            let ring = balances.iter().filter(|(name, _)| name.starts_with(&ring));
            let sum: i64 = ring.map(|(_, balance)| balance).sum();
            // Between the two halves of a transfer, one is on its way.
            assert!([399, 400].contains(&sum), "{sum}: {balances:?}");
        }
    }
    stop.store(true, Ordering::Relaxed);
    for load in load {
        let transfers = load.await.unwrap();
        assert!(transfers > 50, "{transfers}");
    }
    let audited = abide(&["audit"], &data).await.unwrap();
    assert!(audited.contains("export"), "{audited}");

    drop(note);
    Arc::try_unwrap(host)
        .ok()
        .unwrap()
        .shutdown()
        .await
        .unwrap();
    // The directory has them as they are now.
    let to = dir.path().join("of the directory");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    abide(&export, &data).await.unwrap();
    for ring in 0..3 {
        let balances = balances(&to);
        let ring = format!("ring {ring}: ");
        let ring = balances.iter().filter(|(name, _)| name.starts_with(&ring));
        assert_eq!(ring.map(|(_, balance)| balance).sum::<i64>(), 400);
    }
    let text: String = one(&files(&to)["of another class"], "SELECT text FROM note");
    assert_eq!(text, "text");
    let again = abide(&export, &data).await.unwrap_err();
    assert!(again.contains("is not empty"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_database_opens_in_the_sqlite_shell() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = start(&data).await;
    account(&host, "ada").set(7).await.unwrap();
    let to = dir.path().join("export");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    abide(&export, &data).await.unwrap();
    let path = &files(&to)["ada"];
    let listing = listing(&to);
    assert_eq!(listing["version"], 1);
    let listed = listing["objects"][0]["sha256"].as_str().unwrap();
    let mut sum = Command::new("sha256sum");
    sum.arg(path);
    let sum = abide_harness::printed(sum).await.unwrap();
    assert!(sum.starts_with(listed), "{sum} {listed}");
    let mut shell = Command::new("sqlite3");
    shell
        .args(["-readonly"])
        .arg(path)
        .arg("SELECT balance FROM account");
    match shell.output() {
        Ok(output) => assert_eq!(String::from_utf8(output.stdout).unwrap(), "7\n"),
        // It is not on every machine.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
    host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_node_without_a_complete_archive_is_not_exported() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = Host::builder(&data)
        .object::<Account>()
        .configure(|config| {
            config.server.listen = abide::server::ListenAddress::any_port();
            config.admin.listen = Some(abide::server::ListenAddress::any_port());
            config.archive.enabled = false;
        });
    let host = host.start().await.unwrap();
    account(&host, "ada").set(7).await.unwrap();
    let to = dir.path().join("export");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    let said = abide(&export, &data).await.unwrap_err();
    assert!(said.contains("archive is off"), "{said}");
    assert!(!to.exists());
    host.shutdown().await.unwrap();
    // Nothing is written to a directory that no node serves.
    abide(&export, &data).await.unwrap();
    assert_eq!(balances(&to)["ada"], 7);
    let none = dir.path().join("none");
    let class = [
        "export",
        "--class",
        "Acount",
        "--to",
        none.to_str().unwrap(),
    ];
    let said = abide(&class, &data).await.unwrap_err();
    assert!(
        said.contains("there is no class") && said.contains("Account"),
        "{said}"
    );
    assert!(!none.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_object_is_exported_from_its_history_or_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = start(&data).await;
    for (name, balance) in [("ada", 1), ("bob", 2)] {
        account(&host, name).set(balance).await.unwrap();
    }
    let id = account(&host, "ada").id().to_string();
    host.shutdown().await.unwrap();
    let part = data.join("objects").join("Account").join(&id[..2]);
    let file = part.join(format!("{id}.sqlite"));
    fs::write(&file, b"").unwrap();
    let host = start(&data).await;
    account(&host, "ada").balance().await.unwrap_err();
    let quarantined = abide(&["quarantined"], &data).await.unwrap();
    assert!(quarantined.contains(&id), "{quarantined}");
    let to = dir.path().join("with history");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    abide(&export, &data).await.unwrap();
    assert_eq!(balances(&to)["ada"], 1);
    host.shutdown().await.unwrap();
    let to = dir.path().join("of the directory");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    abide(&export, &data).await.unwrap();
    assert_eq!(
        balances(&to),
        BTreeMap::from([("ada".into(), 1), ("bob".into(), 2)])
    );
    // Without its history it is named.
    for name in RealDisk.list(&data.join("archive")).unwrap() {
        fs::write(data.join("archive").join(name), b"").unwrap();
    }
    let to = dir.path().join("without history");
    let export = ["export", "--all", "--to", to.to_str().unwrap()];
    let said = abide(&export, &data).await.unwrap_err();
    assert!(said.contains("1 objects could not be exported"), "{said}");
    assert_eq!(balances(&to), BTreeMap::from([("bob".into(), 2)]));
    assert_eq!(listing(&to)["missing"][0]["id"], *id);
}
