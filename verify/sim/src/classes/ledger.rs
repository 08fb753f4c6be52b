//! A list of values, stored redundantly in several rows of SQL and of the key-value store, whose consistency is
//! checked.
//!
//! Every outgoing message carries its version, the length of the list, so its receiver knows what was promised.

use abide::{
    clock::{Clock as _, TestClock},
    prelude::*,
};
use serde::{Deserialize, Serialize};

use crate::history::{Carrier, Event, ObjectNo, Recorder, Value};

/// The key of the broadcast counter.
const CASTS: &str = "casts";

/// Additional rows for each value.
const PARTS: u32 = 3;

#[durable_object]
#[derive(Clone)]
pub(crate) struct Ledger {
    ctx: Ctx,
    recorder: Recorder,
    number: ObjectNo,
    instance: u32,
}

/// The result of an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Appended {
    /// The positions of its values.
    pub(crate) places: Vec<u32>,
    /// The list's length, and its last value.
    pub(crate) version: u32,
    pub(crate) last: Option<Value>,
}

/// What an object's alarm does.
#[derive(Debug, Serialize, Deserialize)]
struct AlarmPlan {
    value: Value,
    effect: Value,
    fails: u32,
}

fn alarm_key(at: i64) -> String {
    format!("alarm {at}")
}

impl DurableObject for Ledger {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let recorder = Recorder::clone(&*env.require::<Recorder>()?);
        let number: ObjectNo = ctx
            .name()
            .and_then(|name| name.parse().ok())
            .ok_or("a ledger's name is a number")?;
        let sql = ctx.sql();
        sql.exec(
            "CREATE TABLE IF NOT EXISTS entries (place INTEGER PRIMARY KEY, value INTEGER NOT NULL UNIQUE)",
            (),
        )?;
        sql.exec(
            "CREATE TABLE IF NOT EXISTS parts (place INTEGER, part INTEGER, value INTEGER, pad BLOB, \
             PRIMARY KEY (place, part)) WITHOUT ROWID",
            (),
        )?;
        let instance = recorder.made(number);
        Ok(Self {
            ctx,
            recorder,
            number,
            instance,
        })
    }

    /// Opens a WebSocket, which receives every value from now on.
    async fn fetch(&self, _request: Request) -> Result<Response> {
        self.runs();
        let (ws, response) = self.ctx.accept_websocket(&[])?;
        ws.send(self.frame(&self.list()?)?)?;
        Ok(response)
    }

    async fn websocket_message(&self, _ws: WebSocket, message: Message) -> Result<()> {
        self.runs();
        let value = message.as_text().and_then(|text| text.parse().ok());
        let value: Value = value.ok_or("a message is a value")?;
        self.put(&[value], 10)?;
        Ok(())
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        self.runs();
        let storage = self.ctx.storage();
        let at = info.scheduled_time.unix_millis();
        let Some(plan): Option<AlarmPlan> = storage.get(&alarm_key(at))? else {
            let what = format!("an alarm of {at} went off, which was never set");
            self.recorder.note(Event::Torn(self.number, what));
            return Ok(());
        };
        self.recorder.note(Event::Rang {
            object: self.number,
            value: plan.value,
            at,
            now: self.wall_clock()?,
        });
        if info.retry_count < plan.fails {
            assert!(!plan.value.is_multiple_of(32), "{}", crate::ON_PURPOSE);
            return Err(Error::new(crate::ON_PURPOSE));
        }
        // Wait for the disk: the process may end in the meantime.
        storage.sync().await?;
        self.runs();
        if !self.list()?.contains(&plan.effect) {
            self.put(&[plan.effect], 10)?;
        }
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Ledger {
    /// Appends values in one transaction, each padded with this many bytes.
    pub async fn append(&self, values: Vec<Value>, pad: u32) -> Result<Appended> {
        self.runs();
        self.put(&values, pad)
    }

    /// Appends one value, lets others run, and appends the other.
    pub async fn pair(&self, values: [Value; 2], pad: u32) -> Result<Appended> {
        self.runs();
        let first = self.put(&values[..1], pad)?;
        // The end of the poll is the end of the transaction.
        tokio::task::yield_now().await;
        self.runs();
        let mut second = self.put(&values[1..], pad)?;
        second.places.splice(0..0, first.places);
        Ok(second)
    }

    pub async fn read(&self) -> Result<Vec<Value>> {
        self.runs();
        self.list()
    }

    /// Like [`Self::pair`], with the input gate closed.
    pub async fn alone(&self, values: [Value; 2], pad: u32) -> Result<Appended> {
        let this = self.clone();
        let both = async move { this.pair(values, pad).await };
        self.ctx.block_concurrency_while(both).await
    }

    /// Appends a value in a savepoint that then fails.
    pub async fn refuse(&self, value: Value, pad: u32) -> Result<Appended> {
        self.runs();
        self.ctx.storage().transaction(|| {
            self.write(&[value], pad)?;
            Err(Error::new("it is refused on purpose"))
        })
    }

    /// Appends a value and panics in the same transaction; sometimes with the gate closed, while others wait.
    pub async fn panic(&self, value: Value, pad: u32) -> Result<Appended> {
        self.runs();
        let this = self.clone();
        let panics = async move {
            this.runs();
            this.put(&[value], pad)?;
            panic!("{}", crate::ON_PURPOSE)
        };
        if !value.is_multiple_of(32) {
            return panics.await;
        }
        let wait = async move {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            panics.await
        };
        self.ctx.block_concurrency_while(wait).await
    }

    /// Appends a value and sets the alarm, whose handler appends the other.
    pub async fn wake(&self, values: [Value; 2], after: u32, fails: u32) -> Result<Appended> {
        self.runs();
        let storage = self.ctx.storage();
        let list = storage.transaction(|| {
            let list = self.write(&values[..1], 10)?;
            let at = self.wall_clock()? + i64::from(after);
            storage.set_alarm(Timestamp::from_unix_millis(at))?;
            let [value, effect] = values;
            let plan = AlarmPlan {
                value,
                effect,
                fails,
            };
            storage.put(&alarm_key(at), &plan)?;
            Ok::<_, Error>(list)
        })?;
        self.tell_all(&list, 1)
    }

    /// Appends a value and deletes the alarm.
    pub async fn cancel(&self, value: Value) -> Result<Appended> {
        self.runs();
        let storage = self.ctx.storage();
        let list = storage.transaction(|| {
            storage.delete_alarm()?;
            self.write(&[value], 10)
        })?;
        self.tell_all(&list, 1)
    }

    /// Appends a value, and then another one at another ledger.
    pub async fn relay(&self, value: Value, to: ObjectNo, other: Value, pad: u32) -> Result<()> {
        self.runs();
        let here = self.put(&[value], pad)?;
        let there = self.ctx.env().object::<Self>().get_by_name(&to.to_string());
        let there = there
            .take(other, self.number, here.version, here.last)
            .await?;
        self.runs();
        self.saw(to, there.version, there.last, Carrier::Answer);
        Ok(())
    }

    /// Appends a value for another ledger, and returns its state.
    pub async fn take(
        &self,
        value: Value,
        from: ObjectNo,
        version: u32,
        last: Option<Value>,
    ) -> Result<Appended> {
        self.runs();
        self.saw(from, version, last, Carrier::Call);
        self.put(&[value], 10)
    }

    /// Appends a value, sends it to another server, and appends another one after the response.
    pub async fn tell(&self, values: [Value; 2], pad: u32) -> Result<Appended> {
        self.runs();
        let first = self.put(&values[..1], pad)?;
        let uri = format!(
            "http://outside/{}/{}/{}",
            self.number,
            first.version,
            first.last.unwrap_or_default()
        );
        let request = Request::builder().uri(uri).body(Body::empty())?;
        // The response does not matter here.
        let _ = self.ctx.env().fetch(request).await;
        self.runs();
        let mut second = self.put(&values[1..], pad)?;
        second.places.splice(0..0, first.places);
        Ok(second)
    }

    /// Writes values and broadcasts them.
    fn put(&self, values: &[Value], pad: u32) -> Result<Appended> {
        let list = self.write(values, pad)?;
        self.tell_all(&list, values.len())
    }

    /// Writes values after checking the consistency of the rows. Returns the list.
    fn write(&self, values: &[Value], pad: u32) -> Result<Vec<Value>> {
        let storage = self.ctx.storage();
        // An error must not leave a part of it behind.
        storage.transaction(|| {
            let mut list = self.list()?;
            let casts: u32 = storage.get(CASTS)?.unwrap_or(0);
            storage.put(CASTS, &(casts + 1))?;
            let sql = storage.sql();
            for &value in values {
                let place = list.len() as u32;
                sql.exec("INSERT INTO entries VALUES (?1, ?2)", (place, value))?;
                for part in 0..PARTS {
                    let pad = vec![value as u8; (pad / PARTS) as usize];
                    sql.exec(
                        "INSERT INTO parts VALUES (?1, ?2, ?3, ?4)",
                        (place, part, value, pad),
                    )?;
                }
                storage.put(&format!("value {place}"), &value)?;
                list.push(value);
            }
            storage.put("version", &(list.len() as u32))?;
            Ok(list)
        })
    }

    /// Broadcasts the list, the last `new` values of which are new.
    fn tell_all(&self, list: &[Value], new: usize) -> Result<Appended> {
        self.ctx.broadcast(self.frame(list)?)?;
        let version = list.len() as u32;
        Ok(Appended {
            places: (version - new as u32..version).collect(),
            version,
            last: list.last().copied(),
        })
    }

    /// A broadcast: the number of broadcasts including this one, and the list.
    fn frame(&self, values: &[Value]) -> Result<Message> {
        let casts: u32 = self.ctx.storage().get(CASTS)?.unwrap_or(0);
        let last = values.last().copied().unwrap_or_default();
        Ok(format!("{casts} {} {last}", values.len()).into())
    }

    fn list(&self) -> Result<Vec<Value>> {
        let storage = self.ctx.storage();
        let sql = storage.sql();
        let rows: Vec<(u32, Value)> = sql
            .exec("SELECT place, value FROM entries ORDER BY place", ())?
            .all()?;
        let parts: Vec<(u32, u32, Value)> = sql
            .exec(
                "SELECT place, part, value FROM parts ORDER BY place, part",
                (),
            )?
            .all()?;
        let kept: Vec<(String, Value)> =
            storage.list(&ListOptions::default().prefix("value ".to_owned()))?;
        let version: u32 = storage.get("version")?.unwrap_or(0);
        let expected: Vec<_> = rows
            .iter()
            .flat_map(|(place, value)| (0..PARTS).map(move |part| (*place, part, *value)))
            .collect();
        let mut named: Vec<_> = rows
            .iter()
            .map(|(place, value)| (format!("value {place}"), *value))
            .collect();
        named.sort();
        let dense = rows.iter().zip(0..).all(|((place, _), at)| *place == at);
        if !dense || version as usize != rows.len() || parts != expected || kept != named {
            self.recorder.note(Event::Torn(
                self.number,
                format!("version {version}, entries {rows:?}, parts {parts:?}, keys {kept:?}"),
            ));
        }
        Ok(rows.into_iter().map(|(_, value)| value).collect())
    }

    /// The true time, whatever the machine's clock shows.
    fn wall_clock(&self) -> Result<i64> {
        let clock = self.ctx.env().require::<TestClock>()?;
        Ok(clock.unix_millis().cast_signed())
    }

    fn runs(&self) {
        self.recorder.note(Event::Ran(self.number, self.instance));
    }

    fn saw(&self, object: ObjectNo, version: u32, last: Option<Value>, by: Carrier) {
        self.recorder.note(Event::Seen {
            object,
            version,
            last,
            by,
        });
    }
}
