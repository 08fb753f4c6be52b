//! `abide quarantined`, `abide repair` and `abide restore` of a quarantined object, beside a node that runs and on the
//! directory that it leaves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide::{Host, prelude::*};

#[durable_object]
struct Note {
    ctx: Ctx,
}

impl DurableObject for Note {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS note (text)", ())?;
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Note {
    pub async fn write(&self, text: String) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec("DELETE FROM note", ())?;
        sql.exec("INSERT INTO note VALUES (?1)", [text]).map(drop)
    }

    pub async fn read(&self) -> Result<Option<String>> {
        let sql = self.ctx.sql();
        let rows = sql.exec("SELECT text FROM note", ())?;
        Ok(rows.all::<String>()?.pop())
    }
}

/// Runs the command on a directory. Whether it succeeded, and all that it said.
async fn abide(args: &[&str], data: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    command.current_dir(data.parent().unwrap());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

async fn host(data: &Path) -> abide::server::RunningHost {
    let host = Host::builder(data).object::<Note>().configure(|config| {
        config.server.listen = abide::server::ListenAddress::any_port();
        config.admin.listen = Some(abide::server::ListenAddress::any_port());
    });
    host.start().await.unwrap()
}

/// The file of an object that has one.
fn file(data: &Path, id: &str) -> std::path::PathBuf {
    let dir = data.join("objects/Note").join(&id[..2]);
    dir.join(format!("{id}.sqlite"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantined_object_is_listed_and_leaves_quarantine_by_each_way() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let running = host(&data).await;
    for name in ["restored", "accepted", "anew", "sound"] {
        let note = running.env().object::<Note>().get_by_name(name);
        note.write(name.to_owned()).await.unwrap();
    }
    running.shutdown().await.unwrap();
    let id = |name| abide::ObjectId::from_name("Note", name).to_string();
    for name in ["restored", "accepted", "anew"] {
        let file = file(&data, &id(name));
        std::fs::copy(&file, file.with_extension("copy")).unwrap();
        std::fs::write(&file, []).unwrap();
    }

    // In the directory.
    let (sound, said) = abide(&["verify"], &data).await;
    assert!(!sound && said.contains("4 objects, 3 damaged"), "{said}");
    assert!(said.contains("is quarantined: its file is empty"), "{said}");
    let (_, listed) = abide(&["quarantined"], &data).await;
    let rows: Vec<Vec<&str>> = listed.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(rows[0], ["CLASS", "ID", "WHY"]);
    assert_eq!(rows.len(), 4, "{listed}");
    assert!(rows[1..].iter().all(|row| row[0] == "Note"), "{listed}");
    let (done, said) = abide(&["sql", "accepted", "SELECT 1"], &data).await;
    assert!(
        !done && said.contains("`abide restore`") && said.contains("`abide repair --accept`"),
        "{said}"
    );
    // An empty file is nothing to continue from; the copy of before is.
    let accept = ["repair", "--accept", "Note/accepted"];
    let (done, said) = abide(&accept, &data).await;
    assert!(!done && said.contains("no content to accept"), "{said}");
    let path = file(&data, &id("accepted"));
    std::fs::rename(path.with_extension("copy"), &path).unwrap();
    let (done, said) = abide(&accept, &data).await;
    assert!(
        done && said.starts_with("repaired; its state now: --bookmark "),
        "{said}"
    );
    let kept = said
        .lines()
        .find_map(|line| line.strip_prefix("kept: "))
        .unwrap();
    assert!(Path::new(kept).exists(), "{said}");
    let unsaid = abide(&["repair", "Note/anew"], &data).await;
    assert!(!unsaid.0 && unsaid.1.contains("--accept"), "{}", unsaid.1);

    // On a running node.
    let running = host(&data).await;
    let note = |name: &str| running.env().object::<Note>().get_by_name(name);
    assert_eq!(
        note("accepted").read().await.unwrap().as_deref(),
        Some("accepted")
    );
    let refused = note("restored").read().await.unwrap_err();
    assert_eq!(refused.kind(), abide::ErrorKind::Damaged);
    let at = ["Note/restored"];
    let restore = [&["restore", "--at", "-0s"], &at[..]].concat();
    let (done, said) = abide(&restore, &data).await;
    assert!(done && said.contains("to undo it"), "{said}");
    assert_eq!(
        note("restored").read().await.unwrap().as_deref(),
        Some("restored")
    );
    let (done, said) = abide(&["quarantined"], &data).await;
    assert!(
        done && said.contains(&id("anew")) && !said.contains(&id("restored")),
        "{said}"
    );
    let anew = ["repair", "--anew", "Note/anew"];
    let (done, said) = abide(&anew, &data).await;
    assert!(done, "{said}");
    assert_eq!(note("anew").read().await.unwrap(), None);
    let sound = ["repair", "--anew", "Note/sound"];
    let (done, said) = abide(&sound, &data).await;
    assert!(!done && said.contains("is not quarantined"), "{said}");
    note("anew").write("again".to_owned()).await.unwrap();
    running.shutdown().await.unwrap();
    let (sound, said) = abide(&["verify"], &data).await;
    assert!(sound, "{said}");
}
