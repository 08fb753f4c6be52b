//! `abide bookmark`, `abide restore` and `abide fork`, beside a node that runs and on the directory that it leaves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command};

use abide::{Host, prelude::*};

#[durable_object]
pub(crate) struct Note {
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

    pub async fn burn(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub async fn read(&self) -> Result<String> {
        let sql = self.ctx.sql();
        sql.exec("SELECT text FROM note", ())?.one()
    }
}

/// Runs the command on a directory, and returns what it printed, or said if it failed.
pub(crate) async fn abide(args: &[&str], data: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    command.current_dir(data.parent().unwrap());
    abide_harness::printed(command).await
}

/// The bookmark at the end of what `abide restore` prints.
fn undo(printed: &str) -> String {
    printed.trim_end().rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_restored_and_forked_on_a_node_and_in_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = Host::builder(&data).object::<Note>().configure(|config| {
        config.server.listen = abide::server::ListenAddress::any_port();
        config.admin.listen = Some(abide::server::ListenAddress::any_port());
    });
    let host = host.start().await.unwrap();
    let note = host.env().object::<Note>().get_by_name("a/b");
    note.write("first".into()).await.unwrap();
    let at = ["Note/a/b"];
    let bookmark = abide(&[&["bookmark"], &at[..]].concat(), &data)
        .await
        .unwrap();
    let bookmark = bookmark.trim_end();
    note.write("second".into()).await.unwrap();

    let restore = [&["restore", "--bookmark", bookmark], &at[..]].concat();
    let undone = undo(&abide(&restore, &data).await.unwrap());
    assert_eq!(note.read().await.unwrap(), "first");
    let fork = ["fork", "--bookmark", &undone, "--to", "copy"];
    let printed = abide(&[&fork, &at[..]].concat(), &data).await.unwrap();
    let copy = host.env().object::<Note>().get_by_name("copy");
    let line = format!("Note\t{}\tcopy\ndormant: ", copy.id());
    assert!(printed.starts_with(&line), "{printed}");
    assert!(printed.contains("abide activate Note/copy"), "{printed}");
    assert_eq!(copy.read().await.unwrap(), "second");
    let shown = abide(&["timeline", "Note/copy"], &data).await.unwrap();
    let of = format!("cause\tforked from Note/{} at {undone}", note.id());
    assert!(shown.contains(&of), "{shown}");
    let hint = "dormant\tyes; to let it act: abide activate Note/copy\n";
    assert!(shown.contains(hint), "{shown}");
    let listed = abide(&["dormant"], &data).await.unwrap();
    let line = format!("Note\t{}\tcopy\tforked\t", copy.id());
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains(&line), "{listed}");
    let activate = ["activate", "Note/copy"];
    let printed = abide(&activate, &data).await.unwrap();
    assert!(printed.starts_with("activated;"), "{printed}");
    let listed = abide(&["dormant"], &data).await.unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let said = abide(&activate, &data).await.unwrap_err();
    assert!(said.contains("is not dormant"), "{said}");
    let dormant = [&["restore", "--bookmark", &undone, "--dormant"], &at[..]].concat();
    abide(&dormant, &data).await.unwrap();
    let shown = abide(&["timeline", "Note/a/b", "--json"], &data)
        .await
        .unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["cause"], "restored", "{shown}");
    assert_eq!(shown["to"], *undone, "{shown}");
    assert_eq!(shown["dormant"], true, "{shown}");
    assert_eq!(shown["timeline"], shown["from"], "{shown}");
    let said = abide(&["timeline", "Note/absent"], &data).await;
    assert!(said.unwrap_err().contains("there is no object"));
    let activate = ["activate", "Note/a/b", "--continue"];
    let printed = abide(&activate, &data).await.unwrap();
    assert!(printed.contains("continues"), "{printed}");
    let restore = [&["restore", "--bookmark", bookmark], &at[..]].concat();
    abide(&restore, &data).await.unwrap();
    let early = [&["restore", "--at", "-15m"], &at[..]].concat();
    let said = abide(&early, &data).await.unwrap_err();
    assert!(said.contains("first commit was at"), "{said}");

    drop((note, copy));
    host.shutdown().await.unwrap();
    let at = ["Note/a/b"];
    let restore = [&["restore", "--bookmark", &undone], &at[..]].concat();
    let redo = undo(&abide(&restore, &data).await.unwrap());
    let text = ["sql", "a/b", "SELECT text FROM note"];
    assert!(abide(&text, &data).await.unwrap().contains("second"));
    let fork = ["fork", "--bookmark", &redo, "--to", "another"];
    let printed = abide(&[&fork, &at[..]].concat(), &data).await.unwrap();
    let id = abide::ObjectId::from_name("Note", "another");
    let line = format!("Note\t{id}\tanother\ndormant: ");
    assert!(printed.starts_with(&line), "{printed}");
    let listed = abide(&["dormant", "--json"], &data).await.unwrap();
    let dormant: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(dormant["name"], "another", "{listed}");
    assert_eq!(dormant["cause"], "forked", "{listed}");
    let shown = abide(&["timeline", "Note/copy"], &data).await.unwrap();
    assert!(shown.ends_with("dormant\tno\n"), "{shown}");
    let listed = abide(&["objects", "list"], &data).await.unwrap();
    assert!(listed.contains(&format!("Note\t{id}\tanother")), "{listed}");
    let unsaid = abide(&[&["restore"], &at[..]].concat(), &data).await;
    assert!(unsaid.unwrap_err().contains("--at"));
    assert!(abide(&["verify"], &data).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_is_restored_on_a_node_and_in_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = async || {
        let host = Host::builder(&data).object::<Note>().configure(|config| {
            config.server.listen = abide::server::ListenAddress::any_port();
            config.admin.listen = Some(abide::server::ListenAddress::any_port());
        });
        host.start().await.unwrap()
    };
    let note = |host: &abide::server::RunningHost| host.env().object::<Note>().get_by_name("a");
    let host = start().await;
    note(&host).write("kept".into()).await.unwrap();
    let bookmark = abide(&["bookmark", "Note/a"], &data).await.unwrap();
    let restore = ["restore", "--bookmark", bookmark.trim_end(), "Note/a"];
    note(&host).burn().await.unwrap();
    host.shutdown().await.unwrap();

    let listed = abide(&["objects", "list"], &data).await.unwrap();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let said = abide(&["sql", "Note/a", "SELECT 1"], &data).await;
    let said = said.unwrap_err();
    assert!(said.contains("was deleted"), "{said}");
    let undone = undo(&abide(&restore, &data).await.unwrap());
    let host = start().await;
    assert_eq!(note(&host).read().await.unwrap(), "kept");
    note(&host).burn().await.unwrap();
    host.shutdown().await.unwrap();

    let host = start().await;
    abide(&restore, &data).await.unwrap();
    assert_eq!(note(&host).read().await.unwrap(), "kept");
    let undo_all = ["restore", "--bookmark", &undone, "Note/a"];
    abide(&undo_all, &data).await.unwrap();
    let error = note(&host).read().await.unwrap_err();
    assert!(error.to_string().contains("returned 0"), "{error}");
    host.shutdown().await.unwrap();
}

/// Of another class, with the same content.
#[durable_object]
struct Card {
    ctx: Ctx,
}

impl DurableObject for Card {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Card {
    pub(crate) async fn read(&self) -> Result<String> {
        let sql = self.ctx.sql();
        sql.exec("SELECT text FROM note", ())?.one()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_forked_to_another_class_on_a_node_and_in_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = Host::builder(&data).object::<Note>().object::<Card>();
    let host = host.configure(|config| {
        config.server.listen = abide::server::ListenAddress::any_port();
        config.admin.listen = Some(abide::server::ListenAddress::any_port());
    });
    let host = host.start().await.unwrap();
    let note = host.env().object::<Note>().get_by_name("origin");
    note.write("text".into()).await.unwrap();
    let fork =
        async |to: &str| abide(&["fork", "Note/origin", "--at=-0s", "--to", to], &data).await;
    let cards = host.env().object::<Card>();
    let (named, by_id) = (cards.get_by_name("a/copy"), cards.get(cards.unique_id()));
    let id = by_id.id().to_string();
    let printed = fork("Card/a/copy").await.unwrap();
    let line = format!("Card\t{}\ta/copy\ndormant: ", named.id());
    assert!(printed.starts_with(&line), "{printed}");
    assert!(
        printed.ends_with("abide activate Card/a/copy\n"),
        "{printed}"
    );
    let printed = fork(&format!("Card/{id}")).await.unwrap();
    assert!(
        printed.starts_with(&format!("Card\t{id}\t-\n")),
        "{printed}"
    );
    for card in [&named, &by_id] {
        assert_eq!(card.read().await.unwrap(), "text");
    }
    let shown = abide(&["timeline", "Card/a/copy"], &data).await.unwrap();
    let of = format!("cause\tforked from Note/{} at ", note.id());
    assert!(shown.contains(&of), "{shown}");
    let refused = |said: Result<String, String>, why: &str| {
        let said = said.unwrap_err();
        assert!(said.contains(why), "{said}");
    };
    refused(fork("Card/a/copy").await, "is not empty");
    refused(
        fork("Crad/copy").await,
        "no class \"Crad\"; it has Note, Card",
    );
    drop((note, named, by_id, cards));
    host.shutdown().await.unwrap();

    refused(fork("Card/a/copy").await, "is not empty");
    refused(
        fork("Crad/copy").await,
        "no class \"Crad\"; the classes are ",
    );
    refused(fork("Card/").await, "neither a name nor an id");
    let foreign = format!("Note/{id}");
    refused(fork(&foreign).await, "neither a name nor an id");
    let printed = fork("Card/offline").await.unwrap();
    assert!(printed.contains("abide activate Card/offline"), "{printed}");
    let text = ["sql", "Card/offline", "SELECT text FROM note"];
    assert!(abide(&text, &data).await.unwrap().contains("text"));
    let shown = abide(&["timeline", "Card/offline"], &data).await.unwrap();
    assert!(shown.contains(&of), "{shown}");
    let shown = abide(&["audit"], &data).await.unwrap();
    assert!(shown.contains("as Card/offline"), "{shown}");
}
