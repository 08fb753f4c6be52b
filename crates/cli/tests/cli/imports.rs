//! `abide import`: exports come back on another machine, and databases become objects.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use abide::server::RunningHost;
use rusqlite::Connection;

use crate::{
    exports::{account, balances, files, listing, start},
    recovery::abide,
};

/// Exports a node with a few accounts, of which one has an alarm that is due soon.
async fn exported(dir: &Path) -> PathBuf {
    let data = dir.join("origin");
    let host = start(&data).await;
    for at in 0..12 {
        account(&host, &format!("account {at}"))
            .set(at)
            .await
            .unwrap();
    }
    let clock = account(&host, "account 3");
    clock.ring_in(Duration::from_secs(5)).await.unwrap();
    host.env()
        .object::<crate::recovery::Note>()
        .get_by_name("note")
        .write("text".into())
        .await
        .unwrap();
    let to = dir.join("export");
    abide(&["export", "--all", "--to", to.to_str().unwrap()], &data)
        .await
        .unwrap();
    host.shutdown().await.unwrap();
    assert_eq!(listing(&to)["objects"].as_array().unwrap().len(), 13);
    to
}

async fn stop(host: Option<RunningHost>) {
    if let Some(host) = host {
        host.shutdown().await.unwrap();
    }
}

async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..400 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_comes_back_on_an_empty_machine_dormant_or_acting() {
    let dir = tempfile::tempdir().unwrap();
    let export = exported(dir.path()).await;
    let from = export.to_str().unwrap();
    for (is_served, act) in [(true, false), (true, true), (false, false), (false, true)] {
        let data = dir.path().join(format!("machine {is_served} {act}"));
        let mut host = Some(start(&data).await);
        let mut import = vec!["import", from];
        import.extend(act.then_some("--act"));
        if !is_served {
            stop(host.take()).await;
        }
        let said = abide(&import, &data).await.unwrap();
        assert!(said.starts_with("imported 13 objects, "), "{said}");
        assert_eq!(said.contains("dormant"), !act, "{said}");
        let host = match host.take() {
            Some(host) => host,
            None => start(&data).await,
        };
        for at in 0..12 {
            let account = account(&host, &format!("account {at}"));
            assert_eq!(account.balance().await.unwrap(), at);
        }
        let shown = abide(&["timeline", "Account/account 3", "--json"], &data).await;
        let shown: serde_json::Value = serde_json::from_str(&shown.unwrap()).unwrap();
        assert_eq!(
            (&shown["cause"], &shown["dormant"]),
            (&"imported".into(), &(!act).into())
        );
        assert_eq!(shown["name"], "account 3");
        let clock = account(&host, "account 3");
        if act {
            eventually(async || clock.has_rung().await.unwrap()).await;
        } else {
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert!(!clock.has_rung().await.unwrap());
            let continues = ["activate", "Account/account 3", "--continue"];
            abide(&continues, &data).await.unwrap();
            eventually(async || clock.has_rung().await.unwrap()).await;
        }
        drop(clock);
        // All of it was imported from this export.
        let again = abide(&import, &data).await.unwrap();
        assert!(again.contains("imported 0 objects"), "{again}");
        assert!(again.contains("13 were imported before"), "{again}");
        let back = dir.path().join(format!("back {is_served} {act}"));
        abide(&["export", "--all", "--to", back.to_str().unwrap()], &data)
            .await
            .unwrap();
        assert_eq!(balances(&back), balances(&export));
        let audited = abide(&["audit"], &data).await.unwrap();
        assert!(audited.contains("import"), "{audited}");
        host.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_continues_and_nothing_else_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let export = exported(dir.path()).await;
    let from = export.to_str().unwrap();
    let data = dir.path().join("data");
    let host = start(&data).await;
    abide(&["import", from], &data).await.unwrap();
    // As if it had been interrupted: some are not there.
    for at in [2, 7, 9] {
        let name = format!("Account/account {at}");
        abide(&["activate", &name], &data).await.unwrap();
        account(&host, &format!("account {at}"))
            .close()
            .await
            .unwrap();
    }
    host.shutdown().await.unwrap();
    let host = start(&data).await;
    let said = abide(&["import", from], &data).await.unwrap();
    assert!(said.contains("imported 3 objects"), "{said}");
    assert!(said.contains("10 were imported before"), "{said}");
    assert_eq!(account(&host, "account 7").balance().await.unwrap(), 7);
    host.shutdown().await.unwrap();

    let other = dir.path().join("other");
    let host = start(&other).await;
    account(&host, "account 4").set(-4).await.unwrap();
    let said = abide(&["import", from], &other).await.unwrap_err();
    let id = account(&host, "account 4").id();
    assert!(
        said.contains("1 objects exist") && said.contains(&format!("Account/{id}")),
        "{said}"
    );
    assert_eq!(account(&host, "account 4").balance().await.unwrap(), -4);
    let objects = abide(&["timeline", "Account/account 5"], &other).await;
    assert!(objects.unwrap_err().contains("there is no object"));
    host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_was_changed_or_does_not_fit_is_refused_whole() {
    let dir = tempfile::tempdir().unwrap();
    let export = exported(dir.path()).await;
    let from = export.to_str().unwrap();
    let data = dir.path().join("data");
    let host = start(&data).await;
    let refused = async |why: &str| {
        let said = abide(&["import", from], &data).await.unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
        let nothing = abide(&["timeline", "Account/account 5"], &data).await;
        assert!(nothing.unwrap_err().contains("there is no object"));
    };
    let path = &files(&export)["account 8"];
    let whole = fs::read(path).unwrap();
    let mut flipped = whole.clone();
    flipped[5000] ^= 1;
    for changed in [&flipped[..], &whole[..whole.len() - 1]] {
        fs::write(path, changed).unwrap();
        refused("is not as it was exported").await;
    }
    fs::write(path, &whole).unwrap();
    let list = export.join("export.json");
    let text = fs::read_to_string(&list).unwrap();
    for (old, new, why) in [
        (
            "\"name\":\"account 8\"",
            "\"name\":\"account 99\"",
            "has another id",
        ),
        ("\"version\":1", "\"version\":2", "version 2"),
        (
            "\"class\":\"Account\"",
            "\"class\":\"Konto\"",
            "another unique key",
        ),
        ("\"objects\"", "\"things\"", "is not the listing"),
    ] {
        fs::write(&list, text.replacen(old, new, 1)).unwrap();
        refused(why).await;
    }
    fs::remove_file(&list).unwrap();
    refused("not a complete export").await;
    fs::write(&list, &text).unwrap();
    host.shutdown().await.unwrap();

    // A program without one of the classes.
    let other = dir.path().join("other");
    let host = abide::Host::builder(&other)
        .object::<crate::recovery::Note>()
        .configure(|config| {
            config.server.listen = abide::server::ListenAddress::any_port();
            config.admin.listen = Some(abide::server::ListenAddress::any_port());
        });
    let host = host.start().await.unwrap();
    for is_served in [true, false] {
        let said = abide(&["import", from], &other).await.unwrap_err();
        assert!(said.contains("no class \"Account\""), "{said}");
        if is_served {
            let notes = abide(&["timeline", "Note/note"], &other).await;
            assert!(notes.unwrap_err().contains("there is no object"));
        }
        if is_served {
            break;
        }
    }
    host.shutdown().await.unwrap();
    let said = abide(&["import", from], &other).await.unwrap_err();
    assert!(said.contains("no class \"Account\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_any_form_becomes_an_object() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let made = |name: &str, pragmas: &str| {
        let path = dir.path().join(name);
        let db = Connection::open(&path).unwrap();
        let rows = "CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (41); UPDATE account SET balance = 42";
        db.execute_batch(&format!("{pragmas}; {rows}")).unwrap();
        (path, db)
    };
    let forms = [
        ("plain", ""),
        ("large pages", "PRAGMA page_size = 16384"),
        ("small pages", "PRAGMA page_size = 512"),
        ("vacuum", "PRAGMA auto_vacuum = 1"),
        (
            "wal",
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0",
        ),
    ];
    let mut host = Some(start(&data).await);
    for is_served in [true, false] {
        if !is_served {
            stop(host.take()).await;
        }
        for (form, pragmas) in forms {
            let name = format!("{form} {is_served}");
            let (path, _open) = made(&name, pragmas);
            let to = format!("Account/{name}");
            let import = ["import", path.to_str().unwrap(), "--to", &to];
            let said = abide(&import, &data).await.unwrap();
            assert!(said.contains("dormant"), "{said}");
            let again = abide(&import, &data).await.unwrap_err();
            assert!(again.contains("exists"), "{again}");
        }
        let served = match host.take() {
            Some(host) => host,
            None => start(&data).await,
        };
        for (form, _) in forms {
            let account = account(&served, &format!("{form} {is_served}"));
            assert_eq!(account.balance().await.unwrap(), 42, "{form}");
        }
        host = Some(served);
    }
    let host = host.unwrap();
    let (utf16, _open) = made("utf-16", "PRAGMA encoding = 'UTF-16'");
    let import = ["import", utf16.to_str().unwrap(), "--to", "Account/utf"];
    let said = abide(&import, &data).await.unwrap_err();
    assert!(said.contains(".dump"), "{said}");
    let text = dir.path().join("text");
    fs::write(
        &text,
        "no database, although it is long enough for the header of one: ".repeat(9),
    )
    .unwrap();
    let import = ["import", text.to_str().unwrap(), "--to", "Account/text"];
    let said = abide(&import, &data).await.unwrap_err();
    assert!(said.contains("not a database"), "{said}");
    let (path, _open) = made("of no class", "");
    let import = ["import", path.to_str().unwrap(), "--to", "Konto/a"];
    let said = abide(&import, &data).await.unwrap_err();
    assert!(said.contains("no class \"Konto\""), "{said}");
    // What one command exports, another imports.
    let one = dir.path().join("one.sqlite");
    let export = ["export", "Account/wal true", "--to", one.to_str().unwrap()];
    abide(&export, &data).await.unwrap();
    let import = [
        "import",
        one.to_str().unwrap(),
        "--to",
        "Account/copy",
        "--act",
    ];
    abide(&import, &data).await.unwrap();
    assert_eq!(account(&host, "copy").balance().await.unwrap(), 42);
    host.shutdown().await.unwrap();
}
