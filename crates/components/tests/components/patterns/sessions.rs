//! Sessions.

use std::{collections::BTreeMap, time::Duration};

use abide::limits::patterns::{MAX_SESSION_BYTES, MAX_SESSIONS, MAX_SUBJECT_BYTES};
use abide::{
    patterns::sessions::{NewSession, Session, SessionError, SessionOptions, Sessions},
    prelude::*,
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

#[durable_object]
struct Accounts {
    ctx: Ctx,
    sessions: Sessions,
}

impl DurableObject for Accounts {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = env.require::<SessionOptions>()?;
        let sessions = Sessions::open(&ctx, (*options).clone())?;
        Ok(Self { ctx, sessions })
    }
}

#[rpc]
impl Accounts {
    pub async fn create(&self, subject: String, data: String) -> Result<NewSession, SessionError> {
        self.sessions.create(&subject, &data)
    }

    pub async fn get(&self, id: String) -> Result<Option<Session<String>>, SessionError> {
        self.sessions.get(&id)
    }

    pub async fn get_number(&self, id: String) -> Result<Option<Session<u32>>, SessionError> {
        self.sessions.get(&id)
    }

    pub async fn renew(&self, id: String) -> Result<Option<i64>, SessionError> {
        self.sessions.renew(&id)
    }

    pub async fn update(&self, id: String, data: String) -> Result<bool, SessionError> {
        self.sessions.update(&id, &data)
    }

    pub async fn end(&self, id: String) -> Result<bool, SessionError> {
        self.sessions.end(&id)
    }

    pub async fn end_all_of(&self, subject: String) -> Result<i64, SessionError> {
        self.sessions.end_all_of(&subject)
    }

    pub async fn count(&self) -> Result<i64> {
        self.sessions.count()
    }

    /// Rows, also of those that have expired; and whether an id is anywhere in them.
    pub async fn rows(&self, id: String) -> Result<(i64, i64)> {
        let sql = self.ctx.sql();
        let rows = sql.exec("SELECT count(*) FROM sessions", ())?.one()?;
        let select =
            "SELECT count(*) FROM sessions WHERE instr(digest, ?1) OR instr(subject || data, ?1)";
        Ok((rows, sql.exec(select, (id,))?.one()?))
    }

    pub async fn open_with(&self, options: (Duration, Duration, u32)) -> Option<String> {
        let (lifetime, max_lifetime, max_sessions) = options;
        let options = SessionOptions::default()
            .lifetime(lifetime)
            .max_lifetime(max_lifetime)
            .max_sessions(max_sessions);
        let opened = Sessions::open(&self.ctx, options);
        opened.err().map(|error| error.to_string())
    }
}

fn world(options: SessionOptions) -> World {
    World::new(move |node| {
        node.class::<Accounts>(ClassOptions::default())
            .with(options.clone())
    })
}

fn accounts(world: &World) -> Stub<Accounts> {
    world.stub::<Accounts>("shard")
}

const LIFETIME: i64 = 20_000;
const MAX_LIFETIME: i64 = 45_000;
const MAX: u32 = 8;

async fn simulate(seed: u64, mut random: Random) {
    let options = SessionOptions::default()
        .lifetime(secs(20))
        .max_lifetime(secs(45))
        .max_sessions(MAX);
    let mut world = world(options);
    let mut known: BTreeMap<String, Session<String>> = BTreeMap::new();
    // Also ids of sessions that have ended, and one that never was.
    let mut ids = vec!["unknown".to_owned()];
    for step in 0..200 {
        let now = world.now();
        known.retain(|_, session| session.expires_at > now);
        let which = ids.len().saturating_sub(1 + random.below(6) as usize);
        let id = ids[which].clone();
        let subject = ["ada", "bob"][random.below(2) as usize].to_owned();
        let case = format!("seed {seed}, step {step}");
        let shard = accounts(&world);
        match random.below(14) {
            0..=3 => {
                let data = format!("data {step}");
                let made = shard.create(subject.clone(), data.clone()).await;
                if known.len() >= MAX as usize {
                    assert!(
                        matches!(made, Err(SessionError::Full { max: MAX })),
                        "{case}"
                    );
                    continue;
                }
                let made = made.unwrap();
                assert_eq!(made.expires_at, now + LIFETIME, "{case}");
                let session = Session {
                    subject,
                    data,
                    created_at: now,
                    expires_at: made.expires_at,
                };
                let before = known.insert(made.id.clone(), session);
                assert!(before.is_none(), "{case}: an id came twice");
                ids.push(made.id);
            }
            4..=6 => {
                let got = shard.get(id.clone()).await.unwrap();
                assert_eq!(got.as_ref(), known.get(&id), "{case}");
            }
            7 => {
                let end = shard.renew(id.clone()).await.unwrap();
                let wanted = known.get_mut(&id).map(|session| {
                    session.expires_at = (now + LIFETIME).min(session.created_at + MAX_LIFETIME);
                    session.expires_at
                });
                assert_eq!(end, wanted, "{case}");
            }
            8 => {
                let data = format!("new data {step}");
                let is_known = shard.update(id.clone(), data.clone()).await.unwrap();
                assert_eq!(is_known, known.contains_key(&id), "{case}");
                known.entry(id).and_modify(|session| session.data = data);
            }
            9 => {
                let ended = shard.end(id.clone()).await.unwrap();
                assert_eq!(ended, known.remove(&id).is_some(), "{case}");
            }
            10 if random.below(3) == 0 => {
                let ended = shard.end_all_of(subject.clone()).await.unwrap();
                let before = known.len();
                known.retain(|_, session| session.subject != subject);
                assert_eq!(
                    ended,
                    i64::try_from(before - known.len()).unwrap(),
                    "{case}"
                );
            }
            10..=12 => world.advance(millis(random.below(6_000))).await,
            _ => world = world.killed_or_crashed(&mut random),
        }
        let now = world.now();
        known.retain(|_, session| session.expires_at > now);
        let count = accounts(&world).count().await.unwrap();
        assert_eq!(count, i64::try_from(known.len()).unwrap(), "{case}");
    }
    world.advance(secs(45)).await;
    let (rows, _) = accounts(&world).rows("x".to_owned()).await.unwrap();
    assert_eq!(
        (rows, world.alarms()),
        (0, 0),
        "seed {seed}: all have expired"
    );
}

#[test]
fn a_session_lives_exactly_as_long_as_it_was_promised() {
    each_seed(simulate);
}

#[test]
fn an_id_is_a_secret_that_is_stored_nowhere() {
    run(async {
        let world = world(SessionOptions::default());
        let shard = accounts(&world);
        let made = shard
            .create("ada".to_owned(), "phone".to_owned())
            .await
            .unwrap();
        let is_hex = made.id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(made.id.len() == 40 && is_hex, "{}", made.id.len());
        assert!(!format!("{made:?}").contains(&made.id));
        let (rows, with_id) = shard.rows(made.id.clone()).await.unwrap();
        assert_eq!((rows, with_id), (1, 0));
        // Upper case is another id, and so is a part of it.
        for wrong in [
            made.id.to_uppercase() + "0",
            made.id[..39].to_owned(),
            String::new(),
        ] {
            assert_eq!(shard.get(wrong).await.unwrap(), None);
        }
    });
}

#[test]
fn many_that_expire_together_are_deleted_in_several_passes() {
    run(async {
        let world = world(SessionOptions::default().max_sessions(MAX_SESSIONS));
        let shard = accounts(&world);
        let made: Vec<_> = (0..2_100)
            .map(|_| shard.create("ada".to_owned(), String::new()))
            .collect();
        for made in made {
            made.await.unwrap();
        }
        world.advance(secs(24 * 3_600)).await;
        let (rows, _) = accounts(&world).rows("x".to_owned()).await.unwrap();
        assert_eq!((rows, world.alarms()), (0, 0));
    });
}

#[test]
fn invalid_input_is_refused_and_changes_nothing() {
    run(async {
        let world = world(SessionOptions::default());
        let shard = accounts(&world);
        for (subject, data) in [
            ("", "data"),
            (&*"s".repeat(MAX_SUBJECT_BYTES + 1), "data"),
            ("ada", &*"d".repeat(MAX_SESSION_BYTES)),
        ] {
            let refused = shard.create(subject.to_owned(), data.to_owned()).await;
            assert!(
                matches!(refused, Err(SessionError::Invalid(_))),
                "{refused:?}"
            );
        }
        assert_eq!(shard.count().await.unwrap(), 0);
        let made = shard
            .create("ada".to_owned(), "x".to_owned())
            .await
            .unwrap();
        let refused = shard.get_number(made.id.clone()).await;
        assert!(matches!(refused, Err(SessionError::Data(_))), "{refused:?}");
        let long = "d".repeat(MAX_SESSION_BYTES);
        assert!(shard.update(made.id.clone(), long).await.is_err());
        let session = shard.get(made.id).await.unwrap().unwrap();
        assert_eq!(session.data, "x");
        let day = secs(86_400);
        for options in [
            (Duration::ZERO, day, 1),
            (day, secs(1), 1),
            (day, Duration::MAX, 1),
            (day, day, 0),
            (day, day, MAX_SESSIONS + 1),
            // Sessions are opened once.
            (day, day, 1),
        ] {
            let refused = shard.open_with(options).await.unwrap();
            assert!(refused.is_some(), "{options:?}");
        }
    });
}
