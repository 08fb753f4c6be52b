//! `abide schedule` on the schedule of an object, whose class has no line of code for it.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use abide::schedule::{Failure, Phase, Schedule, ScheduleOptions, Spec};
use abide::{
    Host,
    prelude::*,
    server::{ListenAddress, RunningHost, access::AccessStore},
};

/// Whether bells ring.
#[derive(Clone, Default)]
struct Mended(Arc<AtomicBool>);

#[durable_object]
struct Tower {
    ctx: Ctx,
    schedule: Schedule,
}

impl DurableObject for Tower {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, ScheduleOptions::default())?;
        let mended = env.require::<Mended>()?;
        schedule.on_firing(move |_| {
            if mended.0.load(Ordering::Relaxed) {
                return Ok(());
            }
            Err(Failure::permanent("the bell\u{7} is broken"))
        })?;
        Ok(Self { ctx, schedule })
    }
}

#[rpc]
impl Tower {
    pub(crate) async fn set(&self, timer: String) -> Result<()> {
        let now = self.ctx.now().unix_millis();
        let set = self.schedule.upsert(&timer, &Spec::once("bell", now));
        set.map(drop).map_err(Error::from)
    }

    pub(crate) async fn phase(&self, timer: String) -> Result<Option<Phase>> {
        let timer = self.schedule.get(&timer)?;
        Ok(timer.map(|timer| timer.phase))
    }
}

struct Town {
    host: RunningHost,
    mended: Mended,
}

impl Town {
    async fn new(data: &Path) -> Self {
        let mended = Mended::default();
        let host = Host::builder(data)
            .configure(|config| {
                config.server.listen = ListenAddress::any_port();
                config.admin.listen = None;
            })
            .with(mended.clone())
            .object::<Tower>()
            .start()
            .await
            .unwrap();
        Self { host, mended }
    }

    fn tower(&self) -> Stub<Tower> {
        self.host.env().object::<Tower>().get_by_name("main")
    }

    async fn set(&self, timer: &str) {
        self.tower().set(timer.to_owned()).await.unwrap();
    }

    async fn until(&self, timer: &str, phase: Option<Phase>) {
        abide_harness::until(timer, async || {
            let found = self.tower().phase(timer.to_owned()).await;
            (found.unwrap() == phase).then_some(())
        })
        .await;
    }
}

/// What the command prints, or says if it fails.
async fn abide(data: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(args).arg("--data").arg(data);
    abide_harness::printed(command).await
}

const TOWER: &str = "Tower/main";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_of_any_object_are_seen_tried_again_and_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let town = Town::new(&data).await;
    for timer in ["noon", "night & day"] {
        town.set(timer).await;
        town.until(timer, Some(Phase::Failed)).await;
    }
    let ask = async |args: &[&str]| abide(&data, &[&["schedule"], args].concat()).await;

    let list = ask(&["list", TOWER]).await.unwrap();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[0], "TIMER\tPHASE\tDUE\tATTEMPTS\tERROR");
    for (line, timer) in lines[1..].iter().zip(["night & day", "noon"]) {
        assert!(
            line.starts_with(&format!("{timer}\tfailed\t-\t1\t")),
            "{line}"
        );
        assert!(line.ends_with("the bell\\u{7} is broken"), "{line}");
    }
    let failed = ask(&["failed", TOWER]).await.unwrap();
    assert_eq!(failed.lines().count(), 3, "{failed}");

    town.mended.0.store(true, Ordering::Relaxed);
    ask(&["retry", TOWER, "night & day"]).await.unwrap();
    town.until("night & day", Some(Phase::Ended)).await;
    ask(&["discard", TOWER, "noon"]).await.unwrap();
    town.until("noon", Some(Phase::Ended)).await;
    let twice = ask(&["retry", TOWER, "noon"]).await.unwrap_err();
    assert!(twice.contains("has not failed"), "{twice}");
    let nobody = ask(&["run", TOWER, "midnight"]).await.unwrap_err();
    assert!(nobody.contains("no timer `midnight`"), "{nobody}");
    ask(&["run", TOWER, "noon"]).await.unwrap();
    town.until("noon", Some(Phase::Ended)).await;

    let timer = ["history", TOWER, "--timer", "night & day"];
    let history = ask(&timer).await.unwrap();
    let events: Vec<_> = history
        .lines()
        .filter_map(|line| line.split('\t').nth(2))
        .collect();
    assert_eq!(
        events,
        ["done", "redriven", "failed", "created"],
        "{history}"
    );
    let missing = ask(&["list", "Tower/other"]).await.unwrap_err();
    assert!(missing.contains("other"), "{missing}");

    let audit = AccessStore::open(&data).unwrap().audit(None, 10).unwrap();
    let told: Vec<_> = audit
        .iter()
        .map(|row| row.operation.detail.clone())
        .collect();
    assert_eq!(told.len(), 5, "{audit:?}");
    assert_eq!(told[4].as_deref(), Some("POST schedule/retry"), "{audit:?}");
    town.host.shutdown().await.unwrap();
}
