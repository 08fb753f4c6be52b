//! Types of all kinds that bytes are decoded into.

use std::{collections::BTreeMap, fmt};

use proptest::{collection, option, prelude::*, strategy::Union};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_bytes::ByteBuf;

use super::node::{bytes, magnitude, text};

/// What a self-describing decode shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Bool(bool),
    Signed(i128),
    Unsigned(u128),
    Float(u64),
    Text(String),
    Bytes(Vec<u8>),
    Null,
    Seq(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Seen, E> {
        Ok(Seen::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Seen, E> {
        Ok(Seen::Signed(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Seen, E> {
        Ok(Seen::Signed(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Seen, E> {
        Ok(Seen::Unsigned(value.into()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Seen, E> {
        Ok(Seen::Unsigned(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Seen, E> {
        // The quiet bit of a NaN may be lost on the way.
        let quiet = if value.is_nan() { 1 << 51 } else { 0 };
        Ok(Seen::Float(value.to_bits() | quiet))
    }

    fn visit_str<E>(self, value: &str) -> Result<Seen, E> {
        Ok(Seen::Text(value.to_owned()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Seen, E> {
        Ok(Seen::Bytes(value.to_vec()))
    }

    fn visit_none<E>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }

    fn visit_unit<E>(self) -> Result<Seen, E> {
        Ok(Seen::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Seen, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Seen::Seq(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Seen::Map(entries))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Unit;

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed")]
pub(crate) struct Newtype(Option<Seen>);

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed")]
pub(crate) struct Fields {
    a: Seen,
    b: Option<Seen>,
    #[serde(default)]
    c: u64,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed")]
pub(crate) struct Flat {
    a: Seen,
    #[serde(flatten)]
    rest: BTreeMap<String, Seen>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "printed")]
pub(crate) struct Strict {
    a: Seen,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "printed")]
pub(crate) enum Enum {
    Unit,
    New(Seen),
    Tuple(Seen, Option<Seen>),
    Fields { a: Seen, b: Option<Seen> },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "printed")]
pub(crate) enum Untagged {
    Number(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    Bytes(ByteBuf),
    List(Vec<Self>),
    Fields { a: Box<Self> },
    Other(BTreeMap<String, Self>),
    Nothing,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "printed")]
pub(crate) enum Internal {
    Unit,
    Fields {
        a: Seen,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", content = "a")]
#[expect(dead_code, reason = "printed")]
pub(crate) enum Adjacent {
    Unit,
    New(Seen),
    Fields { a: Seen },
}

/// A type whose values are generated, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Value {
    Unit,
    Flag(bool),
    Small(i8, u8, i16, u16),
    Middle { signed: i64, unsigned: u64 },
    Wide(i128, u128),
    Floats(f32, f64),
    Letter(char),
    Text(String),
    Bytes(ByteBuf),
    Numbers(Vec<u8>),
    Array([u16; 3]),
    Maybe(Option<Box<Self>>),
    List(Vec<Self>),
    Pair(Box<(Self, (), Option<Self>)>),
    ByNumber(BTreeMap<i64, Self>),
    ByPair(BTreeMap<(bool, u8), Self>),
    ByText(BTreeMap<String, Self>),
    Outcome(Result<Box<Self>, String>),
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = Union::new([
        Just(Value::Unit).boxed(),
        any::<bool>().prop_map(Value::Flag).boxed(),
        any::<(i8, u8, i16, u16)>()
            .prop_map(|(a, b, c, d)| Value::Small(a, b, c, d))
            .boxed(),
        (magnitude(), magnitude())
            .prop_map(|(a, b)| Value::Middle {
                signed: a.cast_signed() as i64,
                unsigned: b as u64,
            })
            .boxed(),
        (magnitude(), any::<bool>(), magnitude())
            .prop_map(|(a, negative, b)| {
                let a = a.cast_signed();
                Value::Wide(if negative { !a } else { a }, b)
            })
            .boxed(),
        any::<(f32, f64)>()
            .prop_map(|(a, b)| Value::Floats(a, b))
            .boxed(),
        any::<char>().prop_map(Value::Letter).boxed(),
        text().prop_map(Value::Text).boxed(),
        bytes()
            .prop_map(|bytes| Value::Bytes(ByteBuf::from(bytes)))
            .boxed(),
        bytes().prop_map(Value::Numbers).boxed(),
        any::<[u16; 3]>().prop_map(Value::Array).boxed(),
    ]);
    leaf.prop_recursive(4, 40, 5, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        Union::new([
            // `Some(Unit)` is not null, but a text: it differs from `None`.
            option::of(boxed()).prop_map(Value::Maybe).boxed(),
            collection::vec(inner.clone(), 0..5)
                .prop_map(Value::List)
                .boxed(),
            (inner.clone(), option::of(inner.clone()))
                .prop_map(|(a, b)| Value::Pair(Box::new((a, (), b))))
                .boxed(),
            collection::btree_map(any::<i64>(), inner.clone(), 0..5)
                .prop_map(Value::ByNumber)
                .boxed(),
            collection::btree_map(any::<(bool, u8)>(), inner.clone(), 0..5)
                .prop_map(Value::ByPair)
                .boxed(),
            collection::btree_map(text(), inner.clone(), 0..5)
                .prop_map(Value::ByText)
                .boxed(),
            boxed().prop_map(|value| Value::Outcome(Ok(value))).boxed(),
            text().prop_map(|text| Value::Outcome(Err(text))).boxed(),
        ])
    })
}
