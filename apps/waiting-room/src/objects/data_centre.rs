//! The object of one data centre: who is inside and who waits there, and what the other data centres have said last.
//!
//! Contract: what a worker reports is on disk before the worker hears that it is. The same report again changes nothing. The state that a
//! worker is given for a minute counts every visitor this data centre admitted before that minute, including those a killed worker never
//! reported. An admission for a minute that is over is refused: the other data centres have divided the slots without it.

use std::{cell::RefCell, collections::BTreeMap};

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::{TicketCounter, counter::counter_name};
use crate::{
    logic::{
        bucket::{BucketId, Draw},
        merge::RoomState,
        minute::Minute,
        report::{Lane, REPORTED_MINUTES, Report},
    },
    ticket::VisitorId,
};

/// A worker is inactive when it has not reported for this long.
const WORKER_SILENCE: u64 = 60_000;
/// A data centre gets no slots when it has not been heard from for this long.
const PEER_SILENCE: u64 = 60_000;

const OPEN_MINUTE: &str = "open_minute";
/// The moment of the last draw.
const DRAWN_AT: &str = "drawn_at";

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS sessions (visitor BLOB PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS sessions_by_time ON sessions (seen);
    CREATE TABLE IF NOT EXISTS waiting (visitor BLOB PRIMARY KEY, bucket INTEGER NOT NULL, seen INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS waiting_by_bucket ON waiting (bucket);
    CREATE INDEX IF NOT EXISTS waiting_by_time ON waiting (seen);
    CREATE TABLE IF NOT EXISTS admitted (visitor BLOB PRIMARY KEY, minute INTEGER NOT NULL, lane INTEGER NOT NULL,
        counter TEXT) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS admitted_by_minute ON admitted (minute, lane);
    CREATE TABLE IF NOT EXISTS departures (minute INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS arrivals (minute INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS workers (name TEXT PRIMARY KEY, seen INTEGER NOT NULL) WITHOUT ROWID";

/// One data centre of one room.
#[durable_object]
pub struct DataCentre {
    ctx: Ctx,
    env: Env,
    /// The newest report of each other data centre. The driver asks again after a start, before it admits visitors.
    peers: RefCell<BTreeMap<String, Report>>,
}

/// What an object has to know of its room.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The room's name.
    pub room: String,
    /// The data centre's.
    pub data_centre: String,
    /// How long a minute is, in milliseconds.
    pub minute_millis: u64,
    /// A visitor counts as inside for this long after the last report about them.
    pub session_millis: u64,
    /// A visitor counts as waiting for this long after the last look at the queue.
    pub patience_millis: u64,
    /// The draw of an event.
    pub draw: Option<Draw>,
}

impl Terms {
    /// The bucket of a visitor at a moment: after a draw the one that was drawn.
    pub fn place(&self, visitor: VisitorId, bucket: BucketId, now: u64) -> BucketId {
        self.draw
            .map_or(bucket, |draw| draw.place(&visitor.0, bucket, now))
    }

    /// Whether a visitor of a bucket takes part in a draw.
    fn is_before_draw(&self, bucket: BucketId) -> bool {
        self.draw.is_some_and(|draw| draw.takes(bucket))
    }

    /// The bucket of a visitor who comes at a moment.
    pub fn join(&self, now: u64) -> BucketId {
        match self.draw {
            Some(draw) => draw.join(now, self.minute_millis),
            None => BucketId::at(now, self.minute_millis),
        }
    }
}

/// The answer to a report: the state, and which of the reported admissions were refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// The state of the room, as this data centre knows it.
    pub state: RoomState,
    /// Visitors whose minute was over. They have been neither admitted nor queued.
    pub late: Vec<VisitorId>,
}

/// What a worker has to tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happening {
    /// A new visitor was queued.
    Joined {
        /// Who.
        visitor: VisitorId,
        /// The minute in which no slot was left for them.
        minute: Minute,
        /// Where.
        bucket: BucketId,
    },
    /// A visitor was admitted.
    Admitted {
        /// Who.
        visitor: VisitorId,
        /// When.
        minute: Minute,
        /// Where they stood.
        lane: Lane,
        /// The counter that the number is from, if not the data centre's own.
        borrowed_from: Option<String>,
    },
    /// A new visitor was turned away.
    TurnedAway {
        /// When.
        minute: Minute,
    },
    /// A visitor who is inside sent a request.
    Seen {
        /// Who.
        visitor: VisitorId,
    },
    /// A visitor who waits looked at the queue.
    Looked {
        /// Who.
        visitor: VisitorId,
        /// Where.
        bucket: BucketId,
    },
}

impl DurableObject for DataCentre {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(SCHEMA, ())?;
        Ok(Self {
            ctx,
            env,
            peers: RefCell::default(),
        })
    }
}

#[rpc]
impl DataCentre {
    /// Called when the process starts. Waiting visitors could not poll while it was down, so none of them is treated as gone. A number
    /// that no worker reported is counted as inside.
    pub async fn resume(&self, terms: Terms, now: u64) -> Result<()> {
        self.sql().exec("UPDATE waiting SET seen = ?", (now,))?;
        self.sql().exec("DELETE FROM workers", ())?;
        if let Some(open) = self.ctx.storage().get::<Minute>(OPEN_MINUTE)? {
            let name = counter_name(&terms.room, &terms.data_centre, open);
            let counter = self.env.object::<TicketCounter>().get_by_name(&name);
            for (visitor, lane) in counter.given(open).await? {
                self.admit(visitor, open, lane, None, now)?;
            }
        }
        Ok(())
    }

    /// Takes what a worker has to tell.
    pub async fn report(
        &self,
        terms: Terms,
        now: u64,
        worker: String,
        happenings: Vec<Happening>,
    ) -> Result<Reported> {
        let minute = Minute::at(now, terms.minute_millis);
        let minute = self.turn(&terms, minute, now).await?;
        self.sql().exec(
            "INSERT INTO workers (name, seen) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seen = max(seen, ?2)",
            (worker, now),
        )?;
        self.draw(&terms, now)?;
        let mut late = Vec::new();
        for happening in happenings {
            match happening {
                Happening::Admitted {
                    visitor,
                    minute: of,
                    ..
                } if of < minute => late.push(visitor),
                Happening::Joined {
                    visitor,
                    minute: of,
                    bucket,
                } if of < minute && !terms.is_before_draw(bucket) => late.push(visitor),
                happening => self.note(happening, now, &terms)?,
            }
        }
        self.forget(&terms, minute, now)?;
        let mut reports = vec![self.own_report(&terms, minute, now)?];
        reports.extend(self.peers(&terms, now));
        let state = RoomState::merge(&terms.data_centre, minute, reports);
        Ok(Reported { state, late })
    }

    /// What the other data centres are told.
    pub async fn summary(&self, terms: Terms, now: u64) -> Result<Report> {
        let minute = self
            .turn(&terms, Minute::at(now, terms.minute_millis), now)
            .await?;
        self.draw(&terms, now)?;
        self.forget(&terms, minute, now)?;
        self.own_report(&terms, minute, now)
    }

    /// Hears what the other data centres have said.
    pub async fn hear(&self, reports: Vec<Report>) -> Result<()> {
        let mut peers = self.peers.borrow_mut();
        for report in reports {
            let known = peers.get(&report.data_centre);
            if known.is_none_or(|known| known.at <= report.at) {
                peers.insert(report.data_centre.clone(), report);
            }
        }
        Ok(())
    }
}

impl DataCentre {
    fn sql(&self) -> Sql {
        self.ctx.sql()
    }

    /// Begins a minute: the last one's counter stops giving numbers, and every visitor who has one is recorded.
    async fn turn(&self, terms: &Terms, minute: Minute, now: u64) -> Result<Minute> {
        let open = self.ctx.storage().get::<Minute>(OPEN_MINUTE)?;
        let Some(open) = open else {
            self.ctx.storage().put(OPEN_MINUTE, &minute)?;
            return Ok(minute);
        };
        // The clock may have been set back.
        if open >= minute {
            return Ok(open);
        }
        let name = counter_name(&terms.room, &terms.data_centre, open);
        let counter = self.env.object::<TicketCounter>().get_by_name(&name);
        for (visitor, lane) in counter.close(open).await? {
            self.admit(visitor, open, lane, None, now)?;
        }
        // A later minute may have begun while the counter was asked.
        let minute = self
            .ctx
            .storage()
            .get(OPEN_MINUTE)?
            .map_or(minute, |open: Minute| open.max(minute));
        self.ctx.storage().put(OPEN_MINUTE, &minute)?;
        Ok(minute)
    }

    /// The draw of an event, once: each visitor who waits gets another bucket.
    fn draw(&self, terms: &Terms, now: u64) -> Result<()> {
        let storage = self.ctx.storage();
        let Some(draw) = terms.draw.filter(|draw| draw.at <= now) else {
            return Ok(());
        };
        if storage.get::<u64>(DRAWN_AT)? == Some(draw.at) {
            return Ok(());
        }
        let sql = self.sql();
        let rows = sql.exec("SELECT visitor, bucket FROM waiting", ())?;
        for (visitor, bucket) in rows.all::<(ByteBuf, u64)>()? {
            let place = draw.place(&visitor, BucketId::from_number(bucket), now);
            sql.exec(
                "UPDATE waiting SET bucket = ? WHERE visitor = ?",
                (place.number(), &visitor[..]),
            )?;
        }
        storage.put(DRAWN_AT, &draw.at)
    }

    fn note(&self, happening: Happening, now: u64, terms: &Terms) -> Result<()> {
        match happening {
            Happening::Joined {
                visitor, bucket, ..
            } => {
                if self.wait(visitor, bucket, now, terms)? {
                    self.arrive(Minute::at(now, terms.minute_millis))?;
                }
            }
            Happening::Admitted {
                visitor,
                minute,
                lane,
                borrowed_from,
            } => self.admit(visitor, minute, lane, borrowed_from.as_deref(), now)?,
            Happening::TurnedAway { minute } => self.arrive(minute)?,
            Happening::Seen { visitor } => self.see(visitor, now)?,
            Happening::Looked { visitor, bucket } => {
                self.wait(visitor, bucket, now, terms)?;
            }
        }
        Ok(())
    }

    /// Records an admission, once per minute. A visitor who presents the same queue ticket again is admitted, and counted, again.
    fn admit(
        &self,
        visitor: VisitorId,
        minute: Minute,
        lane: Lane,
        borrowed_from: Option<&str>,
        now: u64,
    ) -> Result<()> {
        let added = self.sql().exec(
            "INSERT INTO admitted (visitor, minute, lane, counter) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET minute = ?2, lane = ?3, counter = ?4 WHERE minute < ?2 RETURNING minute",
            (&visitor.0[..], minute.0, lane.to_column(), borrowed_from),
        )?;
        if added.optional::<u64>()?.is_none() {
            return Ok(());
        }
        if lane == Lane::New {
            self.arrive(minute)?;
        }
        self.sql()
            .exec("DELETE FROM waiting WHERE visitor = ?", (&visitor.0[..],))?;
        self.see(visitor, now)
    }

    fn see(&self, visitor: VisitorId, now: u64) -> Result<()> {
        self.sql().exec(
            "INSERT INTO sessions (visitor, seen) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET seen = max(seen, ?2)",
            (&visitor.0[..], now),
        )?;
        Ok(())
    }

    /// Records a visitor who waits, unless they were admitted. True if the visitor is new.
    fn wait(&self, visitor: VisitorId, bucket: BucketId, now: u64, terms: &Terms) -> Result<bool> {
        let bucket = terms.place(visitor, bucket, now);
        let visitor = &visitor.0[..];
        let looked = "UPDATE waiting SET seen = max(seen, ?2) WHERE visitor = ?1 RETURNING bucket";
        if self
            .sql()
            .exec(looked, (visitor, now))?
            .optional::<u64>()?
            .is_some()
        {
            return Ok(false);
        }
        let added = self.sql().exec(
            "INSERT INTO waiting (visitor, bucket, seen) SELECT ?1, ?2, ?3
             WHERE NOT EXISTS (SELECT 1 FROM admitted WHERE visitor = ?1) RETURNING bucket",
            (visitor, bucket.number(), now),
        )?;
        Ok(added.optional::<u64>()?.is_some())
    }

    fn arrive(&self, minute: Minute) -> Result<()> {
        self.sql().exec(
            "INSERT INTO arrivals (minute, count) VALUES (?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
            (minute.0,),
        )?;
        Ok(())
    }

    /// Deletes what has expired.
    fn forget(&self, terms: &Terms, minute: Minute, now: u64) -> Result<()> {
        let sql = self.sql();
        let before = |millis: u64| now.saturating_sub(millis);
        let left = "DELETE FROM sessions WHERE seen < ? RETURNING 1";
        let left = sql.exec(left, (before(terms.session_millis),))?;
        let left = left.all::<u64>()?.len() as u64;
        if left > 0 {
            sql.exec(
                "INSERT INTO departures (minute, count) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET count = count + ?2",
                (minute.0, left),
            )?;
        }
        sql.exec(
            "DELETE FROM waiting WHERE seen < ?",
            (before(terms.patience_millis),),
        )?;
        sql.exec(
            "DELETE FROM workers WHERE seen < ?",
            (before(WORKER_SILENCE),),
        )?;
        let oldest = minute.before(REPORTED_MINUTES).0;
        sql.exec("DELETE FROM admitted WHERE minute < ?", (oldest,))?;
        sql.exec("DELETE FROM arrivals WHERE minute < ?", (oldest,))?;
        sql.exec("DELETE FROM departures WHERE minute < ?", (oldest,))?;
        Ok(())
    }

    fn own_report(&self, terms: &Terms, minute: Minute, now: u64) -> Result<Report> {
        let sql = self.sql();
        let count = |query: &str| sql.exec(query, ())?.one::<u64>();
        let by_minute = |query: &str| -> Result<BTreeMap<Minute, u64>> {
            let rows = sql.exec(query, ())?.all::<(u64, u64)>()?;
            Ok(rows
                .into_iter()
                .map(|(minute, count)| (Minute(minute), count))
                .collect())
        };
        let waiting = "SELECT bucket, count(*) FROM waiting GROUP BY bucket";
        let waiting = sql.exec(waiting, ())?.all::<(u64, u64)>()?;
        let waiting = waiting
            .into_iter()
            .map(|(bucket, count)| (BucketId::from_number(bucket), count));
        let by_lane = "SELECT lane, count(*) FROM admitted WHERE minute = ? GROUP BY lane";
        let by_lane = sql.exec(by_lane, (minute.0,))?.all::<(i64, u64)>()?;
        let by_lane = by_lane
            .into_iter()
            .map(|(lane, count)| (Lane::from_column(lane), count));
        let borrowed = "SELECT counter, count(*) FROM admitted WHERE minute = ? AND counter IS NOT NULL GROUP BY counter";
        let borrowed = sql.exec(borrowed, (minute.0,))?;
        let borrowed = borrowed.all::<(String, u64)>()?;
        Ok(Report {
            data_centre: terms.data_centre.clone(),
            at: now,
            active: count("SELECT count(*) FROM sessions")?,
            workers: count("SELECT count(*) FROM workers")?,
            waiting: waiting.collect(),
            arrivals: by_minute("SELECT minute, count FROM arrivals")?,
            admitted: by_minute("SELECT minute, count(*) FROM admitted GROUP BY minute")?,
            left: by_minute("SELECT minute, count FROM departures")?,
            minute,
            is_silent: false,
            admitted_by_lane: by_lane.collect(),
            borrowed: borrowed.into_iter().collect(),
        })
    }

    /// The others' newest reports. A silent data centre gets no slots and its queue does not count, but its visitors may be inside for a
    /// session.
    fn peers(&self, terms: &Terms, now: u64) -> Vec<Report> {
        let mut peers = self.peers.borrow_mut();
        peers.retain(|_, report| {
            now.saturating_sub(report.at) < terms.session_millis.max(PEER_SILENCE)
        });
        let heard = peers.values().cloned().map(|mut report| {
            if now.saturating_sub(report.at) >= PEER_SILENCE {
                report.is_silent = true;
                report.workers = 0;
                report.waiting.clear();
            }
            report
        });
        heard.collect()
    }
}
