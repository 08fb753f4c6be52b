//! Nodes of a cluster: processes that share their objects through PostgreSQL and a directory of runs.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use abide_harness::{Client, Postgres, Program, Server, refused, until};
use http::StatusCode;
use serde_json::json;
use tempfile::TempDir;

struct World {
    dir: TempDir,
    postgres: Postgres,
}

impl World {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("runs")).unwrap();
        Self {
            dir,
            postgres: Postgres::start(),
        }
    }

    fn settings(&self) -> [(&'static str, String); 5] {
        [
            ("ABIDE__CLUSTER__POSTGRES", self.postgres.address()),
            ("ABIDE__CLUSTER__REPLICATION", "none".to_owned()),
            (
                "ABIDE__ARCHIVE__URL",
                format!("file://{}", self.dir.path().join("runs").display()),
            ),
            ("ABIDE__ARCHIVE__UPLOAD_INTERVAL", "100ms".to_owned()),
            ("ABIDE__STORAGE__CHECKPOINT_INTERVAL", "300ms".to_owned()),
        ]
    }

    fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str) -> Program {
        let program = Program::new(env!("CARGO_BIN_EXE_abide"), self.data(name));
        let settings = self.settings().into_iter();
        settings.fold(program, |program, (name, value)| program.env(name, &value))
    }

    fn abide(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
        command.args(args).current_dir(self.dir.path());
        command.envs(self.settings());
        command.output().unwrap()
    }

    fn printed(&self, args: &[&str]) -> String {
        let output = self.abide(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn path(key: usize) -> String {
    format!("/kv/room{key}/value")
}

async fn put(client: &Client, value: usize) {
    for key in 0..20 {
        let put = client.put(&path(key), &json!(value)).await;
        assert!(put.status.is_success(), "{put:?}");
    }
}

async fn has(client: &Client, value: usize) {
    for key in 0..20 {
        let got = client.get(&path(key)).await;
        assert_eq!((got.status, got.body), (StatusCode::OK, json!(value)));
    }
}

/// Waits until a node serves all objects.
async fn serves(server: &Server) {
    let client = server.client();
    until("it serves all objects", async || {
        for key in 0..20 {
            let got = client.get(&path(key)).await;
            if !matches!(got.status, StatusCode::OK | StatusCode::NOT_FOUND) {
                return None;
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn nodes_take_over_from_one_that_leaves_and_from_one_that_is_killed() {
    let world = World::start();
    let (status, said) = refused(world.program("one").command());
    assert!(
        !status.success() && said.contains("abide cluster init"),
        "{said}"
    );
    for _ in 0..2 {
        assert_eq!(
            world.printed(&["cluster", "init"]),
            "the database has the tables of a cluster\n"
        );
    }
    let one = world.program("one").start();
    serves(&one).await;
    put(&one.client(), 1).await;

    // A request to the wrong node names the right one, and does nothing.
    let two = world.program("two").start();
    let wrong = until("the second knows the first", async || {
        let wrong = two.client().put(&path(3), &json!("wrong")).await;
        assert_eq!(wrong.status, StatusCode::MISDIRECTED_REQUEST, "{wrong:?}");
        wrong.headers.contains_key("abide-owner").then_some(wrong)
    })
    .await;
    let owner = format!("http://{}", one.address());
    assert_eq!(wrong.headers["abide-owner"], owner);
    assert_eq!(wrong.code(), "elsewhere");
    has(&one.client(), 1).await;
    let told = world.printed(&["cluster", "status"]);
    assert!(
        told.contains(&owner) && told.contains("\tlive\t1024\t"),
        "{told}"
    );
    assert!(two.admin_client().get("/readyz").await.status.is_success());

    let told = format!("\t{owner}");
    assert!(one.stop().success());
    // It has left: no one waits until it has been silent.
    let status = world.printed(&["cluster", "status"]);
    let is_live = |line: &str| line.ends_with(&told) && line.contains("\tlive\t");
    assert!(!status.lines().any(is_live), "{status}");
    serves(&two).await;
    has(&two.client(), 1).await;
    put(&two.client(), 2).await;

    let one = world.program("one").start();
    put(&two.client(), 3).await;
    let shards = world.printed(&["cluster", "shards"]);
    let listed: Vec<&str> = shards.lines().collect();
    let [_, of_all] = listed[..] else {
        panic!("{shards}")
    };
    let owner = format!("http://{}", two.address());
    let (of_all, address) = of_all.rsplit_once('\t').unwrap();
    let session = of_all.strip_prefix("0-1023\t").unwrap().to_owned();
    assert_eq!(address, owner);
    two.kill();
    // Its machine is off: no one waits until it has been silent.
    assert_eq!(
        world.printed(&["cluster", "fence", &session]),
        format!("session {session} has ended\n")
    );
    let again = world.abide(&["cluster", "fence", &session]);
    assert!(!again.status.success(), "{again:?}");
    serves(&one).await;
    has(&one.client(), 3).await;
    put(&one.client(), 4).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_node_that_was_suspended_for_too_long_ends_and_says_why() {
    let world = World::start();
    world.printed(&["cluster", "init"]);
    let log = world.dir.path().join("log");
    let one = world.program("one").log_to(&log).start();
    serves(&one).await;
    put(&one.client(), 1).await;
    let two = world.program("two").start();
    one.suspend();
    serves(&two).await;
    put(&two.client(), 2).await;
    one.resume();
    assert_eq!(one.wait().code(), Some(1));
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("no longer a part of its cluster"), "{said}");
    has(&two.client(), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_cluster_that_stops_as_a_whole_has_its_objects_afterwards() {
    let world = World::start();
    world.printed(&["cluster", "init"]);
    let one = world.program("one").start();
    serves(&one).await;
    put(&one.client(), 1).await;
    one.kill();
    // The machine is lost, and so are its files.
    fs::remove_dir_all(world.data("one")).unwrap();
    // A token is created before the first start of a node that others reach.
    let data = world.data("two");
    let data = data.to_str().unwrap();
    world.printed(&["token", "create", "--data", data, "--role", "operate"]);
    let two = world.program("two").start();
    serves(&two).await;
    has(&two.client(), 1).await;

    // A second start of a directory is refused.
    let (status, said) = refused(world.program("two").command());
    assert!(
        !status.success() && said.contains("another process"),
        "{said}"
    );
    has(&two.client(), 1).await;
    // A command that can ask the node does.
    world.printed(&["alarms", "list", "--data", data]);
    assert!(two.stop().success());
    let output = world.abide(&["class", "list", "--data", data]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("node of a cluster"), "{said}");
    // Without the setting it would be a new node with no objects.
    let alone = Program::new(env!("CARGO_BIN_EXE_abide"), data);
    assert!(alone.try_start().is_err());
    let (_, said) = refused(alone.command());
    assert!(said.contains("set cluster.postgres"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_node_says_what_its_settings_lack_and_when_it_has_no_lease() {
    let mut world = World::start();
    world.printed(&["cluster", "init"]);
    for (name, value, part) in [
        (
            "ABIDE__ARCHIVE__URL",
            "off",
            "`cluster.postgres` needs `archive.url`",
        ),
        (
            "ABIDE__ARCHIVE__SYNC",
            "true",
            "`archive.sync` is not for a node of a cluster",
        ),
        (
            "ABIDE__STORAGE__MAX_BYTES",
            "1GiB",
            "`storage.max_bytes` is not for",
        ),
        (
            "ABIDE__CLUSTER__REPLICATION",
            "standby",
            "synchronous_standby_names",
        ),
        (
            "ABIDE__CLUSTER__POSTGRES",
            "host=a secret",
            "cluster.postgres",
        ),
        (
            "ABIDE__CLUSTER__ADVERTISE",
            "node1",
            "https://node1.example.com",
        ),
    ] {
        let (status, said) = refused(world.program("one").env(name, value).command());
        assert!(!status.success() && said.contains(part), "{name}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }
    let one = world.program("one").start();
    serves(&one).await;
    world.postgres.kill();
    let admin = one.admin_client();
    until("it is not ready", async || {
        let ready = admin.get("/readyz").await;
        let told = ready.body.to_string();
        (!ready.status.is_success() && told.contains("no_lease")).then_some(())
    })
    .await;
    world.postgres.start_again();
    serves(&one).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_cluster_whose_database_is_lost_is_rebuilt_from_its_object_store() {
    let mut world = World::start();
    world.printed(&["cluster", "init"]);
    let one = world.program("one").start();
    serves(&one).await;
    put(&one.client(), 1).await;
    until("all is archived", async || {
        let status = world.printed(&["cluster", "status"]);
        status.contains("\tlive\t1024\t0\t").then_some(())
    })
    .await;
    until("the object store knows it", async || {
        let catalogues = fs::read_dir(world.dir.path().join("runs/catalogues"));
        let newest = catalogues.ok()?.map(|of| of.unwrap().path()).max()?;
        let catalogue: serde_json::Value =
            serde_json::from_slice(&fs::read(newest).unwrap()).unwrap();
        let runs = catalogue["runs"].as_array().unwrap().len();
        let status = world.printed(&["cluster", "status"]);
        let is_whole = status.ends_with(&format!("runs of history: {runs}\n"));
        is_whole.then_some(())
    })
    .await;
    let existing = world.abide(&["cluster", "rebuild"]);
    let said = String::from_utf8(existing.stderr).unwrap();
    assert!(said.contains("has the tables of a cluster"), "{said}");

    // Another server, and nothing of the old one.
    world.postgres = Postgres::start();
    one.kill();
    // Its objects would seem to be gone.
    let (status, said) = refused(world.program("two").command());
    assert!(
        !status.success() && said.contains("cluster rebuild"),
        "{said}"
    );
    let rebuilt = world.printed(&["cluster", "rebuild"]);
    assert!(
        rebuilt.contains("what was in its object store at"),
        "{rebuilt}"
    );
    let two = world.program("two").start();
    serves(&two).await;
    has(&two.client(), 1).await;
    put(&two.client(), 2).await;
    assert!(two.stop().success());
    // The machine of before.
    let one = world.program("one").start();
    serves(&one).await;
    has(&one.client(), 2).await;
}
