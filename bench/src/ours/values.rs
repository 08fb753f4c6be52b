//! Values of typical shapes, and an object that returns them, stores them and reads them.
#![allow(clippy::unused_async)] // a remote method is async, whether it waits for something or not

use std::{hint::black_box, time::Instant};

use abide::prelude::*;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_bytes::ByteBuf;

use crate::report::micros;

const LIST: u64 = 1_000;
const BYTES: usize = 64 * 1024;
const TEXT: usize = 4 * 1024;
const KEY: &str = "value";
const OTHER: &str = "other";

/// A type that is measured.
pub(crate) trait Sample: Serialize + DeserializeOwned + PartialEq {
    /// The remote method of [`Values`] that returns it.
    const NAME: &'static str;

    fn sample() -> Self;
}

/// Three small fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Small {
    id: u64,
    name: String,
    done: bool,
}

impl Small {
    fn numbered(id: u64) -> Self {
        Self {
            id,
            name: format!("task {id}"),
            done: id.is_multiple_of(2),
        }
    }
}

impl Sample for Small {
    const NAME: &'static str = "small";

    fn sample() -> Self {
        Self::numbered(4_711)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Status {
    Open,
    Paid { at: u64 },
}

/// Twenty fields, as a row of a business has them.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    id: u64,
    account: String,
    name: String,
    email: String,
    street: String,
    city: String,
    postal_code: String,
    country: String,
    currency: String,
    amount: i64,
    tax: i64,
    rate: f64,
    weight: f64,
    quantity: u32,
    active: bool,
    verified: bool,
    created: u64,
    updated: Option<u64>,
    note: Option<String>,
    status: Status,
}

impl Sample for Record {
    const NAME: &'static str = "record";

    fn sample() -> Self {
        Self {
            id: 81_234,
            account: "acct_1MqLf2LkdIwHu7ix".to_owned(),
            name: "Ada Lovelace".to_owned(),
            email: "ada@example.com".to_owned(),
            street: "12 St James's Square".to_owned(),
            city: "London".to_owned(),
            postal_code: "SW1Y 4JH".to_owned(),
            country: "GB".to_owned(),
            currency: "gbp".to_owned(),
            amount: 129_900,
            tax: -2_150,
            rate: 0.195,
            weight: 1.5,
            quantity: 3,
            active: true,
            verified: false,
            created: 1_764_273_600_000,
            updated: Some(1_764_277_200_000),
            note: None,
            status: Status::Paid {
                at: 1_764_277_200_000,
            },
        }
    }
}

impl Sample for Vec<Small> {
    const NAME: &'static str = "list";

    fn sample() -> Self {
        (0..LIST).map(Small::numbered).collect()
    }
}

impl Sample for ByteBuf {
    const NAME: &'static str = "bytes";

    fn sample() -> Self {
        Self::from(vec![0xa5; BYTES])
    }
}

impl Sample for String {
    const NAME: &'static str = "text";

    fn sample() -> Self {
        "a line of text; ".repeat(TEXT / 16)
    }
}

/// What is timed inside the object.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Calls of another object, one after the other.
    Call,
    /// Reads of one key.
    Get,
    /// Writes of one key, in one transaction.
    Put,
}

/// Returns values, and stores them.
#[durable_object]
pub(crate) struct Values {
    ctx: Ctx,
    env: Env,
}

impl DurableObject for Values {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self { ctx, env })
    }
}

#[rpc]
impl Values {
    pub(crate) async fn small(&self, value: Small) -> Small {
        value
    }

    pub(crate) async fn record(&self, value: Record) -> Record {
        value
    }

    pub(crate) async fn list(&self, value: Vec<Small>) -> Vec<Small> {
        value
    }

    pub(crate) async fn bytes(&self, value: ByteBuf) -> ByteBuf {
        value
    }

    pub(crate) async fn text(&self, value: String) -> String {
        value
    }

    /// The mean microseconds of one act with the value of this name.
    pub(crate) async fn measure(&self, name: String, act: Act, times: u32) -> Result<f64> {
        match name.as_str() {
            Small::NAME => self.mean::<Small>(act, times).await,
            Record::NAME => self.mean::<Record>(act, times).await,
            <Vec<Small>>::NAME => self.mean::<Vec<Small>>(act, times).await,
            ByteBuf::NAME => self.mean::<ByteBuf>(act, times).await,
            String::NAME => self.mean::<String>(act, times).await,
            _ => Err(Error::new(format!("no value is called {name}"))),
        }
    }
}

impl Values {
    async fn mean<T: Sample>(&self, act: Act, times: u32) -> Result<f64> {
        let (storage, value) = (self.ctx.storage(), T::sample());
        let other = self.env.object::<Self>().get_by_name(OTHER);
        storage.put(KEY, &value)?;
        let begun = Instant::now();
        for _ in 0..times {
            match act {
                Act::Call => {
                    black_box::<T>(other.untyped().call(T::NAME, &(&value,)).await?);
                }
                Act::Get => {
                    black_box::<Option<T>>(storage.get(KEY)?);
                }
                Act::Put => storage.put(KEY, &value)?,
            }
        }
        Ok(micros(begun.elapsed()) / f64::from(times.max(1)))
    }
}
