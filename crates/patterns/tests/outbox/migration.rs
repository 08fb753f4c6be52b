//! Tables of older versions are brought forward when an outbox is opened.

use std::{sync::Arc, time::Duration};

use abide::{
    Node, SimDisk,
    clock::{Clock as _, TestClock},
    prelude::*,
};
use abide_patterns::outbox::{
    self, Counts, DeadLetterFilter, Outbox, OutboxError, Registry, Swept,
};

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

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.outbox.alarm()
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

    pub async fn redrive_all(&self) -> Result<Swept, OutboxError> {
        self.outbox.redrive_all(&DeadLetterFilter::default())
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
        .class::<Heir>("HEIR", outbox::class_options())
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
