//! The statements of a session in SQL. Nearly all are functions of `functions.sql`.

use abide_cluster::{
    Answer, Generation, Grant, Lsn, Owner, Part, Peer, Run, SessionId, Shard, Statement, Stored,
    Tenancy, View,
};
use serde::Deserialize;
use tokio_postgres::{Row, types::ToSql};

use crate::{
    error::Failure,
    line::Line,
    name::{bits, log_table, uuid},
};

/// A column that says whether the server waits for a standby.
const REPLICATED: &str = "current_setting('synchronous_standby_names') <> '' as is_replicated";
const IS_REPLICATED: &str = "is_replicated";

/// What a statement depends on besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) me: SessionId,
    /// What has the records of the group that is appended.
    pub(crate) group: &'a [u8],
    /// The table of the log that is filled.
    pub(crate) half: usize,
}

/// A statement that has been executed: its answer, or `None` if it was refused.
pub(crate) struct Executed {
    pub(crate) answer: Option<Answer>,
    /// After a trim: the table of the log that is not filled is empty.
    pub(crate) is_other_half_empty: bool,
}

impl From<Option<Answer>> for Executed {
    fn from(answer: Option<Answer>) -> Self {
        Self {
            answer,
            is_other_half_empty: false,
        }
    }
}

/// Executes a statement.
pub(crate) async fn execute(
    line: &mut Line,
    statement: &Statement,
    context: Context<'_>,
) -> Result<Executed, Failure> {
    let Context { me, group, half } = context;
    let (number, nonce) = (me.number.cast_signed(), uuid(me.nonce));
    let own: [&(dyn ToSql + Sync); 2] = [&number, &nonce];
    let mut call = Call { line, me, own };
    let answer = match statement {
        Statement::Append { begin, end } => append(&mut call, group, half, *begin, *end).await?,
        Statement::Settle => settle(&mut call).await?,
        Statement::Renew(renewal) => {
            let done = call
                .is_done("renew($1, $2::text::uuid, $3)", &[&renewal.cast_signed()])
                .await?;
            done.then_some(Answer::Committed)
        }
        Statement::Poll => Some(Answer::View(poll(&mut call).await?)),
        Statement::Fence { session, renewals } => {
            let (target, target_nonce) = (session.number.cast_signed(), uuid(session.nonce));
            let done = call
                .is_done(
                    "fence($1, $2::text::uuid, $3, $4::text::uuid, $5)",
                    &[&target, &target_nonce, &renewals.cast_signed()],
                )
                .await?;
            done.then_some(Answer::Committed)
        }
        Statement::Leave => {
            let done = call.is_done("leave($1, $2::text::uuid)", &[]).await?;
            done.then_some(Answer::Committed)
        }
        Statement::Claim(tenancies) => {
            let (shards, generations) = columns(tenancies.iter().copied());
            let text = call
                .text(
                    "claim($1, $2::text::uuid, $3, $4)",
                    &[&shards, &generations],
                )
                .await?;
            grants(text)?.map(Answer::Granted)
        }
        Statement::Hold => {
            let text = call.text("hold($1, $2::text::uuid)", &[]).await?;
            text.map(|text| held(&text)).transpose()?
        }
        Statement::HandOver { tenancy, to, until } => {
            let (target, target_nonce) = (to.number.cast_signed(), uuid(to.nonce));
            let (shards, generations) = columns([*tenancy]);
            let text = call
                .text(
                    "hand_over($1, $2::text::uuid, $3, $4, $5, $6::text::uuid, $7)",
                    &[
                        &shards[0],
                        &generations[0],
                        &target,
                        &target_nonce,
                        &until.0.cast_signed(),
                    ],
                )
                .await?;
            grants(text)?.map(Answer::Granted)
        }
        Statement::Publish { run, stored } => publish(&mut call, run, stored.as_ref()).await?,
        Statement::Trim => {
            let other = i32::from(half == 0);
            let row = call
                .row("trim_log($1, $2::text::uuid, $3)", &[&other])
                .await?;
            let is_empty: Option<bool> = row.get(0);
            call.is_done("forget($1, $2::text::uuid)", &[]).await?;
            return Ok(Executed {
                answer: is_empty.map(|_| Answer::Committed),
                is_other_half_empty: is_empty == Some(true),
            });
        }
    };
    Ok(answer.into())
}

/// Calls functions for a session.
struct Call<'a> {
    line: &'a mut Line,
    me: SessionId,
    /// The parameters `$1` and `$2` of each.
    own: [&'a (dyn ToSql + Sync); 2],
}

impl Call<'_> {
    /// The rows of a statement that says whether it is replicated.
    async fn rows(&mut self, sql: &str, more: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        let params: Vec<_> = self.own.iter().chain(more).copied().collect();
        let rows = self.line.query(sql, &params).await?;
        if let Some(row) = rows.first() {
            self.line.must_be_replicated(row.get(IS_REPLICATED))?;
        }
        Ok(rows)
    }

    /// The one row of a function call.
    async fn row(&mut self, call: &str, more: &[&(dyn ToSql + Sync)]) -> Result<Row, Failure> {
        let sql = format!("select {call}, {REPLICATED}");
        let rows = self.rows(&sql, more).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| Failure::Unreadable(format!("{call}: no row")))
    }

    async fn is_done(&mut self, call: &str, more: &[&(dyn ToSql + Sync)]) -> Result<bool, Failure> {
        Ok(self.row(call, more).await?.get(0))
    }

    async fn text(
        &mut self,
        call: &str,
        more: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<String>, Failure> {
        let call = format!("{call}::text");
        Ok(self.row(&call, more).await?.get(0))
    }
}

/// Moves the lane and inserts the group, in one statement. An `UPDATE` that has waited for a fence finds the lane fenced: under READ
/// COMMITTED its condition is evaluated again.
async fn append(
    call: &mut Call<'_>,
    group: &[u8],
    half: usize,
    begin: Lsn,
    end: Lsn,
) -> Result<Option<Answer>, Failure> {
    let sql = format!(
        "with moved as (update lane set lsn = $4 where session = $1 and nonce = $2::text::uuid and lsn = $3 and not is_fenced returning 1) \
         insert into {table} select $3, $4, $5 from moved returning {REPLICATED}",
        table = log_table(call.me.nonce, half)
    );
    let (first, after) = (begin.0.cast_signed(), end.0.cast_signed());
    let rows = call.rows(&sql, &[&first, &after, &group]).await?;
    Ok((!rows.is_empty()).then_some(Answer::Committed))
}

async fn settle(call: &mut Call<'_>) -> Result<Option<Answer>, Failure> {
    let sql = format!(
        "update lane set touched = touched + 1 where session = $1 and nonce = $2::text::uuid returning lsn, is_fenced, {REPLICATED}"
    );
    let rows = call.rows(&sql, &[]).await?;
    Ok(rows.first().map(|row| Answer::Lane {
        lsn: lsn(row.get(0)),
        is_fenced: row.get(1),
    }))
}

/// All rows of sessions and of shards, at one moment: in one statement.
async fn poll(call: &mut Call<'_>) -> Result<View, Failure> {
    let sql = "select 0, s.number, s.nonce::text, e.renewals, l.lsn, l.listed, s.is_fenced, s.address \
               from session s join lease e on e.session = s.number join lane l on l.session = s.number \
               union all \
               select 1, h.shard::bigint, o.nonce::text, h.generation, h.since, coalesce(o.number, 0), false, null \
               from shard h left join session o on o.number = h.owner";
    let rows = call.line.query(sql, &[]).await?;
    let mut view = View::default();
    for row in rows {
        let (kind, number): (i32, i64) = (row.get(0), row.get(1));
        let nonce = row.get::<_, Option<&str>>(2).and_then(bits);
        if kind == 1 {
            let owner = number_of(row.get(5));
            let owner = Owner {
                session: nonce.map(|nonce| SessionId {
                    number: owner,
                    nonce,
                }),
                generation: generation(row.get(3))?,
                since: lsn(row.get(4)),
            };
            view.shards.insert(shard(number)?, owner);
        } else {
            let nonce = nonce.ok_or_else(|| Failure::Unreadable("a session's nonce".to_owned()))?;
            let session = SessionId {
                number: number_of(number),
                nonce,
            };
            let peer = Peer {
                renewals: number_of(row.get(3)),
                lsn: lsn(row.get(4)),
                listed: number_of(row.get(5)),
                is_fenced: row.get(6),
            };
            view.peers.insert(session, peer);
            if let Some(address) = row.get(7) {
                view.addresses.insert(session, address);
            }
        }
    }
    Ok(view)
}

async fn publish(
    call: &mut Call<'_>,
    run: &Run,
    stored: Option<&Stored>,
) -> Result<Option<Answer>, Failure> {
    let parts = run.parts.iter().map(|(shard, part)| Tenancy {
        shard: *shard,
        generation: part.generation,
    });
    let (part_shards, part_generations) = columns(parts);
    let (own_shards, own_generations) = columns(run.tenancies.iter().copied());
    let about = stored.map(|stored| &stored.about);
    let place = stored.map(|stored| &stored.place);
    let done = call
        .is_done(
            "publish($1, $2::text::uuid, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            &[
                &run.number.cast_signed(),
                &run.after.cast_signed(),
                &run.until.0.cast_signed(),
                &part_shards,
                &part_generations,
                &own_shards,
                &own_generations,
                &about,
                &place,
            ],
        )
        .await?;
    Ok(done.then_some(Answer::Committed))
}

fn columns(tenancies: impl IntoIterator<Item = Tenancy>) -> (Vec<i32>, Vec<i64>) {
    let of = |tenancy: Tenancy| (i32::from(tenancy.shard.0), i64::from(tenancy.generation.0));
    tenancies.into_iter().map(of).unzip()
}

/// What `grants` of `functions.sql` says.
#[derive(Deserialize)]
struct GrantText {
    shard: u16,
    generation: u32,
    since: u64,
    floor: u64,
    parts: Vec<PartText>,
}

#[derive(Deserialize)]
struct PartText {
    generation: u32,
    session: u64,
    nonce: String,
    since: u64,
    until: u64,
}

#[derive(Deserialize)]
struct HeldText {
    archived: u64,
    listed: u64,
    grants: Vec<GrantText>,
}

fn grants(text: Option<String>) -> Result<Option<Vec<Grant>>, Failure> {
    let grants = text.map(|text| {
        let grants: Vec<GrantText> = serde_json::from_str(&text).map_err(unreadable)?;
        grants.into_iter().map(grant).collect()
    });
    grants.transpose()
}

fn held(text: &str) -> Result<Answer, Failure> {
    let held: HeldText = serde_json::from_str(text).map_err(unreadable)?;
    let grants: Result<_, _> = held.grants.into_iter().map(grant).collect();
    Ok(Answer::Held {
        archived: Lsn(held.archived),
        listed: held.listed,
        grants: grants?,
    })
}

fn grant(of: GrantText) -> Result<Grant, Failure> {
    let parts = of.parts.into_iter().map(|part| {
        let nonce = bits(&part.nonce)
            .ok_or_else(|| Failure::Unreadable(format!("a nonce: {}", part.nonce)))?;
        let number = part.session;
        Ok(Part {
            generation: Generation(part.generation),
            session: SessionId { number, nonce },
            since: Lsn(part.since),
            until: Lsn(part.until),
        })
    });
    Ok(Grant {
        tenancy: Tenancy {
            shard: Shard(of.shard),
            generation: Generation(of.generation),
        },
        since: Lsn(of.since),
        floor: of.floor,
        parts: parts.collect::<Result<_, Failure>>()?,
    })
}

#[allow(clippy::needless_pass_by_value, reason = "it maps an error")]
fn unreadable(error: serde_json::Error) -> Failure {
    Failure::Unreadable(error.to_string())
}

fn lsn(value: i64) -> Lsn {
    Lsn(number_of(value))
}

/// Numbers in the tables are not negative.
fn number_of(value: i64) -> u64 {
    value.cast_unsigned()
}

fn generation(value: i64) -> Result<Generation, Failure> {
    let generation = u32::try_from(value).map(Generation);
    generation.map_err(|_| Failure::Unreadable(format!("generation {value}")))
}

fn shard(value: i64) -> Result<Shard, Failure> {
    let shard = u16::try_from(value).map(Shard);
    shard.map_err(|_| Failure::Unreadable(format!("shard {value}")))
}
