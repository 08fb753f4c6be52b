//! A value that can be erased. An object that has erased it, and leaves memory, exists no longer.

use abide::{
    clock::{Clock as _, TestClock},
    prelude::*,
};

use crate::history::{Event, Recorder, SlateNo, Value};

const VALUE: &str = "value";

/// Bytes that go with the value.
const PAD: &str = "pad";

/// When the alarm is to erase the value.
const UNTIL: &str = "until";

#[durable_object]
pub(crate) struct Slate {
    ctx: Ctx,
    recorder: Recorder,
    number: SlateNo,
}

impl DurableObject for Slate {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let number = ctx
            .name()
            .and_then(|name| name.parse().ok())
            .ok_or("a slate's name is a number")?;
        Ok(Self {
            ctx,
            recorder: Recorder::clone(&*env.require::<Recorder>()?),
            number,
        })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let storage = self.ctx.storage();
        let until: Option<i64> = storage.get(UNTIL)?;
        // Otherwise the slate has changed since the attempt began.
        if until == Some(info.scheduled_time.unix_millis()) {
            self.recorder.note(Event::Wiped(self.number));
            storage.delete_all()?;
        }
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Slate {
    /// Writes a value, which is erased after this many milliseconds, if any. An odd value is written after an erasure in
    /// the same transaction, which does not end the object.
    pub async fn write(&self, value: Value, after: Option<u32>, pad: u32) -> Result<()> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            if !value.is_multiple_of(2) {
                storage.delete_all()?;
            }
            storage.put(VALUE, &value)?;
            storage.put(PAD, &vec![value as u8; pad as usize])?;
            let Some(after) = after else {
                storage.delete(UNTIL)?;
                return storage.delete_alarm();
            };
            let clock = self.ctx.env().require::<TestClock>()?;
            let at = clock.unix_millis().cast_signed() + i64::from(after);
            storage.put(UNTIL, &at)?;
            storage.set_alarm(Timestamp::from_unix_millis(at))
        })
    }

    pub async fn erase(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub async fn look(&self) -> Result<Option<Value>> {
        let storage = self.ctx.storage();
        let value: Option<Value> = storage.get(VALUE)?;
        let pad: Option<Vec<u8>> = storage.get(PAD)?;
        let fits = match (value, &pad) {
            (Some(value), Some(pad)) => pad.iter().all(|byte| *byte == value as u8),
            (value, pad) => value.is_none() && pad.is_none(),
        };
        if !fits {
            self.recorder.note(Event::Smudged(self.number));
        }
        Ok(value)
    }
}
