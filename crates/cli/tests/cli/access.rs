//! Tokens and the audit log, for a program that serves others: the program refuses to start without a token, and the
//! log says what each caller did.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use abide_harness::{Client, Program, Version};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;

/// A data directory whose path is longer than the path of a Unix socket may be.
fn data_in(dir: &Path) -> PathBuf {
    dir.join("d".repeat(120)).join("data")
}

/// Runs the command on the directory: what it prints, or what it says went wrong.
fn abide(data: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    let output = command
        .current_dir(data.parent().unwrap())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

async fn status(client: &Client, method: Method, path: &str, token: &str) -> u16 {
    let request = Request::builder()
        .method(method)
        .uri(client.url(path))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(Full::from(Bytes::from_static(b"1")));
    client.send(request.unwrap()).await.unwrap().status.as_u16()
}

/// What the audit log has of two tokens that were made, and of the second one, which was revoked twice.
fn check_rows_of_tokens([again, revoke, second_made, first_made]: [&str; 4], id: &str) {
    for (line, end) in [
        (revoke, format!("\trevoke_token\t-\tok\ttoken {id}")),
        (again, format!("\ttoken {id}")),
        (
            second_made,
            format!(
                "\tcreate_token\t-\tok\ttoken {id}, role operate, objects Kv/ada, expires -, label -"
            ),
        ),
        (first_made, ", label dashboard".to_owned()),
    ] {
        assert!(line.ends_with(&end), "{line}");
    }
    assert!(again.contains("\trevoke_token\t-\tfailed: "), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_program_needs_a_token_and_logs_its_use() {
    let dir = tempfile::tempdir().unwrap();
    let data = data_in(dir.path());
    std::fs::create_dir_all(data.parent().unwrap()).unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_abide"), &data).listen("0.0.0.0:0");
    let output = program.command().output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("abide token create"),
        "{said}"
    );

    let create = |role: &str, rest: &[&str]| {
        let args = [&["token", "create", "--role", role], rest].concat();
        abide(&data, &args).unwrap().trim().to_owned()
    };
    let reader = create("read", &["--label", "dashboard", "--expires-in", "90d"]);
    let server = program.start();
    let client = Client::new(
        &server.address().replace("0.0.0.0", "127.0.0.1"),
        Version::Http1,
    );
    // Made while the node runs.
    let writer = create("operate", &["--object-prefix", "Kv/ada"]);
    let key = "/kv/ada/score";
    while status(&client, Method::PUT, key, &writer).await == 401 {}
    assert_eq!(status(&client, Method::PUT, key, &writer).await, 204);
    assert_eq!(status(&client, Method::PUT, key, &reader).await, 403);
    assert_eq!(status(&client, Method::GET, key, &reader).await, 200);
    assert_eq!(
        status(&client, Method::PUT, "/kv/bob/score", &writer).await,
        403
    );
    assert_eq!(client.get(key).await.status, 401);

    let listed = abide(&data, &["token", "list"]).unwrap();
    let [head, first, second] = listed.lines().collect::<Vec<_>>()[..] else {
        panic!("{listed}");
    };
    assert_eq!(head, "ID\tROLE\tOBJECTS\tCREATED\tEXPIRES\tSTATE\tLABEL");
    assert!(
        first.contains("\tread\tall\t") && first.ends_with("\tvalid\tdashboard"),
        "{first}"
    );
    assert!(
        second.contains("\toperate\tKv/ada\t") && second.ends_with("\t-\tvalid\t-"),
        "{second}"
    );
    let id = second.split('\t').next().unwrap();
    assert_eq!(abide(&data, &["token", "revoke", id]).unwrap(), "revoked\n");
    assert!(
        abide(&data, &["token", "revoke", id])
            .unwrap_err()
            .contains("no unrevoked token")
    );
    while status(&client, Method::PUT, key, &writer).await != 401 {}

    // The command reaches the node through its socket.
    let object = ["Kv/ada"];
    let bookmark = abide(&data, &[&["bookmark"], &object[..]].concat()).unwrap();
    let restore = ["restore", "--bookmark", bookmark.trim()];
    abide(&data, &[&restore, &object[..]].concat()).unwrap();
    let socket = std::fs::metadata(data.join("admin.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    drop(server);
    // The socket of a node that was killed is no obstacle.
    let server = program.start();
    abide(&data, &["alarms", "list"]).unwrap();
    server.stop();
    assert!(!data.join("admin.sock").exists());
    abide(
        &data,
        &[
            "sql",
            "ada",
            "DELETE FROM _abide_kv WHERE key = 'nothing'",
            "--write",
        ],
    )
    .unwrap_err();
    abide(
        &data,
        &["sql", "ada", "CREATE TABLE notes (text)", "--write"],
    )
    .unwrap();
    let log = abide(&data, &["audit"]).unwrap();
    let [_, sql, restore, again, revoke, second_made, first_made] =
        log.lines().collect::<Vec<_>>()[..]
    else {
        panic!("{log}");
    };
    check_rows_of_tokens([again, revoke, second_made, first_made], id);
    assert!(!log.contains(&reader) && !log.contains(&writer), "{log}");
    let uid = rustix::process::getuid().as_raw();
    let who = format!("\tuser {uid}\tlocal\t");
    assert!(
        sql.contains(&who) && sql.ends_with("sql\tKv/ada\tok\tCREATE TABLE notes (text)"),
        "{sql}"
    );
    assert!(
        restore.contains(&who) && restore.contains("\trestore\tKv/ada\t200\t"),
        "{restore}"
    );
}
