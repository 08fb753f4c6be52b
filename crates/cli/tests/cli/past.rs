//! `abide sql` and `abide export` of what an object is and was, beside a node that runs and on the directory that it leaves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::path::Path;

use abide::{Host, server::RunningHost};
use abide_harness::Random;
use rusqlite::{Connection, OpenFlags};

use crate::recovery::{Note, abide};

const QUERY: &str = "SELECT text FROM note";

async fn start(data: &Path) -> RunningHost {
    let host = Host::builder(data).object::<Note>().configure(|config| {
        config.server.listen = abide::server::ListenAddress::any_port();
        config.admin.listen = Some(abide::server::ListenAddress::any_port());
    });
    host.start().await.unwrap()
}

/// What the query finds at a bookmark.
async fn at(bookmark: &str, data: &Path) -> Result<String, String> {
    abide(&["sql", "Note/ada", QUERY, "--bookmark", bookmark], data).await
}

fn in_file(path: &Path) -> String {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(path, flags).unwrap();
    file.query_row(QUERY, (), |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_moment_of_an_object_is_read_without_changing_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut random = Random::new(3);
    let mut moments = Vec::new();
    let host = start(&data).await;
    let note = host.env().object::<Note>().get_by_name("ada");
    for round in 0..12 {
        let text = format!("{round} {}", "x".repeat(random.below(20_000) as usize));
        note.write(text.clone()).await.unwrap();
        let bookmark = abide(&["bookmark", "Note/ada"], &data).await.unwrap();
        moments.push((bookmark.trim_end().to_owned(), text));
    }
    let (newest, last) = moments.last().unwrap().clone();
    let now = abide(&["sql", "ada", QUERY], &data).await.unwrap();
    assert_eq!(now, format!("text\n{last}\n"));
    for (bookmark, text) in moments.iter().rev().step_by(3) {
        assert_eq!(
            at(bookmark, &data).await.unwrap(),
            format!("text\n{text}\n")
        );
        let to = dir.path().join(format!("{}.sqlite", &text[..2].trim()));
        let export = [
            "export",
            "Note/ada",
            "--bookmark",
            bookmark,
            "--to",
            to.to_str().unwrap(),
        ];
        let said = abide(&export, &data).await.unwrap();
        assert!(said.contains(&bookmark[..40]), "{said}");
        assert_eq!(in_file(&to), *text);
        let again = abide(&export, &data).await.unwrap_err();
        assert!(again.contains("exists: choose another"), "{again}");
    }
    let changes = ["sql", "ada", "DELETE FROM note", "--at", "-0s"];
    let said = abide(&changes, &data).await.unwrap_err();
    assert!(said.contains("can only be read"), "{said}");
    let said = abide(&["sql", "ada", "DELETE FROM note", "--write"], &data).await;
    assert!(said.unwrap_err().contains("stop it before"));
    let early = abide(&["sql", "ada", QUERY, "--at", "-1d"], &data).await;
    assert!(early.unwrap_err().contains("first commit was at"));
    assert_eq!(note.read().await.unwrap(), last);
    let unchanged = abide(&["bookmark", "Note/ada"], &data).await.unwrap();
    assert_eq!(
        unchanged.split('-').nth(2),
        newest.split('-').nth(2),
        "no commit was made"
    );
    let audited = abide(&["audit"], &data).await.unwrap();
    assert!(audited.contains("export"), "{audited}");

    note.burn().await.unwrap();
    host.shutdown().await.unwrap();
    let gone = abide(&["sql", "Note/ada", QUERY], &data).await.unwrap_err();
    assert!(gone.contains("was deleted"), "{gone}");
    for (bookmark, text) in moments.iter().step_by(4) {
        assert_eq!(
            at(bookmark, &data).await.unwrap(),
            format!("text\n{text}\n")
        );
    }
    let to = dir.path().join("of a directory.sqlite");
    let export = [
        "export",
        "Note/ada",
        "--bookmark",
        &newest,
        "--to",
        to.to_str().unwrap(),
    ];
    abide(&export, &data).await.unwrap();
    assert_eq!(in_file(&to), last);
    let now = ["export", "Note/ada", "--to", "none.sqlite"];
    let gone = abide(&now, &data).await.unwrap_err();
    assert!(gone.contains("did not exist at that point"), "{gone}");
    assert!(!dir.path().join("none.sqlite").exists());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1 + 4 + 1, "temporary files are left");
}
