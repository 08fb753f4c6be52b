//! `abide alarms`, beside a node that runs and on the directory that it leaves.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command, time::Duration};

use abide::{
    AlarmRetry, Host,
    prelude::*,
    server::{
        RunningHost,
        access::{NewToken, Role},
    },
};

/// Its alarm fails.
#[durable_object]
struct Clockwork {
    ctx: Ctx,
}

impl DurableObject for Clockwork {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        Err("a spring is broken".into())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Clockwork {
    pub async fn set(&self, at: i64) -> Result<()> {
        self.ctx.storage().set_alarm(at)
    }
}

/// Runs the command on a directory, and returns what it printed, or said if it failed.
async fn abide(args: &[&str], data: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    command.current_dir(data.parent().unwrap());
    abide_harness::printed(command).await
}

/// A node with two classes of clockwork: one is given up after a retry at once, the other is tried again an hour later.
async fn serve(data: &Path) -> RunningHost {
    let options = |name: &str, alarm_retry| {
        ClassOptions::default()
            .binding(name.to_owned())
            .unique_key(name.to_owned())
            .alarm_retry(alarm_retry)
    };
    let at_once = AlarmRetry::at_most(1).base(Duration::ZERO);
    let patient = AlarmRetry::default().base(Duration::from_hours(1));
    let host = Host::builder(data)
        .object_with::<Clockwork>(options("Clockwork", at_once))
        .object_with::<Clockwork>(options("Stubborn", patient))
        .configure(|config| {
            config.server.listen = abide::server::ListenAddress::any_port();
            config.admin.listen = Some(abide::server::ListenAddress::any_port());
        });
    host.start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn alarms_are_listed_and_rerun_on_a_node_and_on_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = serve(&data).await;
    let admin = format!("http://{}", host.admin_addr().unwrap());
    let token = NewToken::new(Role::Operate);
    let token = host.access().store().create_token(token).unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, token.text).unwrap();
    let at = ["--admin", &admin, "--token-file", file.to_str().unwrap()];
    let clockwork = host.env().namespace::<Clockwork>("Clockwork").unwrap();
    let (broken, later) = (clockwork.get_by_name("a/b"), clockwork.get_by_name("later"));
    later.set(4_000_000_000_000).await.unwrap();
    broken.set(1_000).await.unwrap();

    let line = format!(
        "Clockwork\t{}\t-\t1970-01-01T00:00:01.000Z\t2\t0\ta spring is broken\n",
        broken.id()
    );
    let failed = [&["alarms", "list", "--failed"], &at[..]].concat();
    while !abide(&failed, &data).await.unwrap().contains(&line) {}
    let pending = abide(&[&["alarms", "list"], &at[..]].concat(), &data)
        .await
        .unwrap();
    let expected = format!(
        "CLASS\tID\tALARM\tDUE\tATTEMPTS\nClockwork\t{}\t-\t2096-10-02T07:06:40.000Z\t0\n",
        later.id()
    );
    assert_eq!(pending, expected);

    let rerun = [&["alarms", "rerun", "Clockwork/a/b"], &at[..]].concat();
    assert_eq!(abide(&rerun, &data).await.unwrap(), "it fires now\n");
    while !abide(&failed, &data).await.unwrap().contains(&line) {}
    let other = [&["alarms", "rerun", "Clockwork/later"], &at[..]].concat();
    let said = abide(&other, &data).await.unwrap_err();
    assert!(said.contains("no alarm that was given up"), "{said}");
    let unasked = abide(&["alarms", "list", "--admin", "http://127.0.0.1:1"], &data).await;
    let said = unasked.unwrap_err();
    assert!(said.contains("no node answers at"), "{said}");

    drop((clockwork, broken, later));
    host.shutdown().await.unwrap();
    assert!(abide(&failed[..3], &data).await.unwrap().contains(&line));
    assert_eq!(
        abide(&["alarms", "list"], &data).await.unwrap(),
        expected,
        "the directory tells the same"
    );
    assert_eq!(
        abide(&["alarms", "rerun", "Clockwork/a/b"], &data)
            .await
            .unwrap(),
        "it fires when a node serves the directory\n"
    );
    let list = abide(&["alarms", "list", "--limit", "1"], &data).await;
    assert!(
        list.unwrap().contains("1970-01-01T00:00:01.000Z\t0"),
        "run again"
    );
    let said = abide(&["alarms", "rerun", "Clockwork"], &data)
        .await
        .unwrap_err();
    assert!(said.contains("CLASS/NAME"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_alarms_are_listed_with_their_last_error_and_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let host = serve(&data).await;
    let stubborn = host.env().namespace::<Clockwork>("Stubborn").unwrap();
    let stubborn = stubborn.get_by_name("s");
    stubborn.set(1_000).await.unwrap();
    let failing = ["alarms", "list", "--failing"];
    let told = loop {
        let told = abide(&failing, &data).await.unwrap();
        if told.contains("a spring") {
            break told;
        }
    };
    let (head, line_of_it) = told.trim_end().split_once('\n').unwrap();
    assert_eq!(head, "CLASS\tID\tALARM\tDUE\tATTEMPTS\tCRASHES\tERROR");
    let expected_of_it = format!("Stubborn\t{}\t-\t", stubborn.id());
    assert!(line_of_it.starts_with(&expected_of_it), "{told}");
    assert!(line_of_it.ends_with("\t1\t0\ta spring is broken"), "{told}");
    let both = ["alarms", "list", "--failing", "--failed"];
    assert!(
        abide(&both, &data)
            .await
            .unwrap_err()
            .contains("cannot be used with")
    );

    drop(stubborn);
    host.shutdown().await.unwrap();
    let of_directory = abide(&failing[..3], &data).await.unwrap();
    assert_eq!(of_directory, told, "the directory tells the same");
    assert_eq!(
        abide(&["alarms", "rerun", "Stubborn/s"], &data)
            .await
            .unwrap(),
        "it fires when a node serves the directory\n"
    );
    let none = "CLASS\tID\tALARM\tDUE\tATTEMPTS\tCRASHES\tERROR\n";
    assert_eq!(abide(&failing[..3], &data).await.unwrap(), none);
}
