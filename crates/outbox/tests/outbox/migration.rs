//! Tables of older versions are migrated when an outbox is opened.

use std::{sync::Arc, time::Duration};

use abide::outbox::{BulkResult, Counts, DeadLetterFilter, Outbox, OutboxError, Registry};
use abide::{
    Node, NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};

use abide_harness::until;

use crate::{
    support::{Script, Scripted, plain, run},
    world::store,
};

/// An object whose outbox an older program has made, if its name says of which version.
#[durable_object]
struct Heir {
    state: State,
    outbox: Outbox,
}

impl DurableObject for Heir {
    fn new(state: State, env: Env) -> Result<Self> {
        let sql = state.storage().sql();
        let old = match state.name().as_deref() {
            Some("version 1") => include_str!("version_1.sql"),
            Some("version 2") => include_str!("version_2.sql"),
            _ => "",
        };
        if !old.is_empty() && !Outbox::exists(&state)? {
            sql.exec(old, ())?;
        }
        let outbox = Outbox::open(&state, env.require::<Registry>()?, plain())?;
        Ok(Self { state, outbox })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        self.state.storage().put("rang", &info.scheduled_time)
    }
}

#[rpc]
impl Heir {
    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn events(&self, id: i64) -> Result<Vec<String>> {
        let history = self.outbox.history(id)?;
        Ok(history.into_iter().map(|change| change.event).collect())
    }

    pub async fn redrive_all(&self) -> Result<BulkResult, OutboxError> {
        self.outbox.redrive_all(&DeadLetterFilter::default())
    }

    /// For when the object's own alarm went off that was set last.
    pub async fn rang(&self) -> Result<Option<AlarmTime>> {
        self.state.storage().get("rang")
    }

    /// Each index, and each column of each table, whatever their order.
    pub async fn shape(&self) -> Result<Vec<String>> {
        let sql = self.state.storage().sql();
        let columns = "SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || coalesce(c.dflt_value, '')
             FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.name LIKE 'outbox_%'
             UNION SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE 'outbox_%'
             UNION SELECT 'version ' || version FROM outbox_meta";
        sql.exec(columns, ())?.to_array()
    }

    pub async fn fence(&self) -> Result<()> {
        let storage = self.state.storage();
        storage.put("fence", &0)?;
        storage.sync().await
    }
}

/// Has an outbox of a version go on, and returns how many messages it has sent then.
async fn go_on(version: &str) -> i64 {
    let (disk, clock, script) = (SimDisk::new(), TestClock::new(), Script::default());
    assert_eq!(clock.unix_millis(), 1_767_225_600_000);
    let node = Node::builder(store(&disk, &clock))
        .class::<Heir>("HEIR", ClassOptions::default())
        .with(Registry::new().with(Scripted::new(&script)))
        .clock(Arc::new(clock.clone()))
        .workers(1)
        .start()
        .unwrap();
    let heirs = node.env().object::<Heir>();
    let (old, new) = (heirs.get_by_name(version), heirs.get_by_name("new"));
    let shape = old.shape().await.unwrap().unwrap();
    assert_eq!(shape, new.shape().await.unwrap().unwrap());
    let settle = async || {
        for _ in 0..6 {
            old.fence().await.unwrap().unwrap();
        }
    };
    let pass = async |seconds: u32| {
        for _ in 0..2 * seconds {
            settle().await;
            clock.advance(Duration::from_millis(500));
        }
    };
    settle().await;
    clock.advance(Duration::from_millis(500));
    settle().await;
    let mut effects = script.effects();
    effects.sort_unstable();
    assert_eq!(effects, ["m1", "m3", "m4"]);
    let events = old.events(1).await.unwrap().unwrap();
    assert_eq!(events, ["queued", "sending", "sent"]);
    pass(8).await;
    assert_eq!(script.effects().len(), 6, "{:?}", script.effects());
    old.redrive_all().await.unwrap().unwrap();
    pass(8).await;
    let counts = old.counts().await.unwrap().unwrap();
    assert_eq!((counts.queued, counts.sending, counts.failed), (0, 0, 0));
    counts.sent
}

#[test]
fn an_outbox_of_version_1_goes_on_where_it_was() {
    run(async { assert_eq!(go_on("version 1").await, 8) });
}

#[test]
fn an_outbox_of_version_2_goes_on_where_it_was() {
    run(async { assert_eq!(go_on("version 2").await, 9) });
}

/// What an older program has made: an outbox of version 2, whose alarm is the object's own.
#[durable_object]
struct Ancestor {
    state: State,
}

impl DurableObject for Ancestor {
    fn new(state: State, _env: Env) -> Result<Self> {
        Ok(Self { state })
    }
}

#[rpc]
impl Ancestor {
    /// Has the outbox woken, and the object's own alarm go off, after so many milliseconds.
    pub async fn make(&self, outbox: i64, own: Option<i64>) -> Result<()> {
        let sql = self.state.storage().sql();
        sql.exec(include_str!("version_2.sql"), ())?;
        let now = self.state.env().clock().unix_millis().cast_signed();
        let own = own.map(|own| now + own);
        sql.exec("UPDATE outbox_meta SET own_alarm = ?1", (own,))?;
        self.state.storage().set_alarm(now + outbox)
    }
}

#[test]
fn an_alarm_that_was_shared_with_an_outbox_becomes_the_objects_own_again() {
    run(async {
        for own in [None, Some(5_000)] {
            let (disk, clock, script) = (SimDisk::new(), TestClock::new(), Script::default());
            let options = || ClassOptions::default().unique_key("Heir".to_owned());
            let node = |classes: fn(NodeBuilder, ClassOptions) -> NodeBuilder, disk: &SimDisk| {
                classes(Node::builder(store(disk, &clock)), options())
                    .with(Registry::new().with(Scripted::new(&script)))
                    .clock(Arc::new(clock.clone()))
                    .workers(1)
                    .start()
                    .unwrap()
            };
            let start = clock.unix_millis().cast_signed();
            let old = node(
                |node, options| node.class::<Ancestor>("HEIR", options),
                &disk,
            );
            let ancestor = old.env().object::<Ancestor>().get_by_name("ada");
            ancestor.make(1_000, own).await.unwrap().unwrap();
            let new = node(
                |node, options| node.class::<Heir>("HEIR", options),
                &disk.after_kill(),
            );
            // Its alarm is the first that opens it.
            clock.advance(Duration::from_secs(1));
            let heir = new.env().object::<Heir>().get_by_name("ada");
            until("messages to be sent", async || {
                (!script.effects().is_empty()).then_some(())
            })
            .await;
            assert_eq!(heir.rang().await.unwrap().unwrap(), None);
            let alarms = new.alarms_of(heir.untyped()).await.unwrap();
            let names: Vec<_> = alarms.iter().map(|alarm| alarm.name.as_deref()).collect();
            let owns = own.map(|_| None);
            let expected: Vec<_> = owns.into_iter().chain([Some("outbox")]).collect();
            assert_eq!(names, expected);
            assert!(alarms.iter().all(|alarm| !alarm.failing), "{alarms:?}");
            for _ in 0..8 {
                clock.advance(Duration::from_millis(500));
                heir.fence().await.unwrap().unwrap();
            }
            let expected = own.map(|own| AlarmTime::from_unix_millis(start + own));
            until("the object's own alarm", async || {
                (heir.rang().await.unwrap().unwrap() == expected).then_some(())
            })
            .await;
        }
    });
}
