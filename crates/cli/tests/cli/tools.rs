//! The real binary: `serve` on a data directory, then the tools on what it left.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

fn abide(args: &[&str], data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command
        .args(args)
        .arg("--data")
        .arg(data)
        .env("ABIDE__ADMIN__LISTEN", "off");
    command.current_dir(data.parent().expect("a directory"));
    command
}

fn run(args: &[&str], data: &Path) -> (bool, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = abide(args, data).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.success(), text(stdout), text(stderr))
}

/// `abide serve` on a free port, and where.
fn serve(data: &Path) -> (Child, String) {
    let mut child = abide(&["serve", "--listen", "127.0.0.1:0"], data)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    let address = line
        .trim()
        .strip_prefix("listening on ")
        .unwrap_or_else(|| panic!("{line:?}"))
        .to_owned();
    (child, address)
}

async fn put(url: String, body: &'static str) -> http::StatusCode {
    put_with("content-type", "application/json", url, body).await
}

async fn put_with(name: &str, value: &str, url: String, body: &'static str) -> http::StatusCode {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let request = http::Request::put(url)
        .header(name, value)
        .body(Full::from(body))
        .expect("a request");
    let response = client.request(request).await.expect("an answer");
    let status = response.status();
    response.into_body().collect().await.expect("a body");
    status
}

#[tokio::test]
async fn what_was_served_is_listed_queried_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (mut server, address) = serve(&data);
    assert_eq!(
        put(format!("{address}/kv/ada/color"), "\"green\"").await,
        204
    );
    assert_eq!(
        put(format!("{address}/kv/grace/color"), "\"blue\"").await,
        204
    );

    // A web page can make a browser send this.
    let color = || format!("{address}/kv/ada/color");
    let sent = put_with("sec-fetch-site", "same-origin", color(), "\"red\"");
    assert_eq!(sent.await, 415);
    // A program need not say what it sends.
    let sent = put_with("content-type", "text/plain", color(), "\"green\"");
    assert_eq!(sent.await, 204);

    let (done, _, said) = run(&["objects", "list"], &data);
    assert!(!done && said.contains("in use"), "{said}");

    // The tools recover as a server would.
    server.kill().unwrap();
    server.wait().unwrap();
    let (done, listed, said) = run(&["objects", "list"], &data);
    assert!(done, "{said}");
    let rows = listed
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .collect::<Vec<_>>();
    assert_eq!(rows[0], ["CLASS", "ID", "NAME", "BYTES"]);
    let mut names = rows[1..]
        .iter()
        .map(|row| (row[0], row[2]))
        .collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, [("Kv", "ada"), ("Kv", "grace")]);

    let query = "SELECT count(*) AS n FROM notes";
    let (done, _, said) = run(&["sql", "ada", "CREATE TABLE notes (text)"], &data);
    assert!(!done && said.contains("--write"), "{said}");
    assert!(!run(&["sql", "ada", query], &data).0, "nothing was kept");
    let (done, _, said) = run(
        &[
            "sql",
            "--write",
            "ada",
            "CREATE TABLE notes (text); INSERT INTO notes VALUES ('x')",
        ],
        &data,
    );
    assert!(done, "{said}");
    let id = rows[1..].iter().find(|row| row[2] == "ada").unwrap()[1];
    let with_class = format!("Kv/{id}");
    for object in ["ada", "Kv/ada", id, &with_class, &id[..6], &with_class[..9]] {
        assert_eq!(
            run(&["sql", object, query], &data),
            (true, "n\n1\n".to_owned(), String::new())
        );
    }
    let (done, _, said) = run(&["sql", "unknown", "SELECT 1"], &data);
    assert!(
        !done && said.starts_with("error: there is no object \"unknown\""),
        "{said}"
    );
    let (done, _, said) = run(&["sql", "Ledger/ada", "SELECT 1"], &data);
    assert!(!done && said.contains("the classes are Kv, "), "{said}");

    assert_eq!(
        run(&["verify"], &data),
        (true, "2 objects, 0 damaged\n".to_owned(), String::new())
    );
    assert!(run(&["checkpoint"], &data).0);

    let (done, listed, said) = run(&["class", "list"], &data);
    assert!(done && listed.contains("\nKv\t2\n"), "{listed}{said}");
    let (done, _, said) = run(&["class", "delete", "Ledger", "--yes"], &data);
    assert!(!done && said.contains("it has Kv, "), "{said}");
    let (done, told, _) = run(&["class", "delete", "Kv"], &data);
    assert!(done && told.contains("add --yes"), "{told}");
    assert!(run(&["sql", "ada", query], &data).0, "nothing was deleted");
    let (done, told, said) = run(&["class", "delete", "Kv", "--yes"], &data);
    assert!(
        done && told == "deleted Kv and its 2 objects\n",
        "{told}{said}"
    );
    assert!(!data.join("objects/Kv").exists());
    let (_, audit, _) = run(&["audit"], &data);
    assert!(
        audit.contains("delete_class") && audit.contains("Kv: 2 objects"),
        "{audit}"
    );
    for command in [["class", "list"], ["objects", "list"]] {
        let (done, listed, said) = run(&command, &data);
        assert!(done && !listed.contains("Kv"), "{listed}{said}");
    }
}

#[test]
fn the_tools_do_not_make_a_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for command in [
        &["objects", "list"][..],
        &["verify"],
        &["checkpoint"],
        &["sql", "x", "SELECT 1"],
    ] {
        let (done, _, said) = run(command, &missing);
        assert!(
            !done && said.contains("there is no data directory"),
            "{said}"
        );
        assert!(!missing.exists());
    }
}
