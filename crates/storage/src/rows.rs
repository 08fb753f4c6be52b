//! The rows of a statement, and how they become a user's types through serde.

use crate::error::{Error, ErrorKind, Result};
use rusqlite::types::{Value, ValueRef};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::sync::Arc;

/// The rows of a statement, all in memory.
///
/// A row becomes a struct by its columns' names, a tuple by their places, and a scalar if it has one column.
/// Integers are exact 64-bit integers, blobs are bytes (`serde_bytes`), NULL is `None`.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub(crate) columns: Arc<[String]>,
    pub(crate) values: Vec<Vec<Value>>,
    pub(crate) written: u64,
}

impl Rows {
    /// The only row. An error if there is none, or more than one.
    pub fn one<T: DeserializeOwned>(&self) -> Result<T> {
        match self.values.as_slice() {
            [row] => decode(&self.columns, row),
            rows => Err(Error::input(format!(
                "one row was expected, the statement gave {}",
                rows.len()
            ))),
        }
    }

    /// The only row, or `None` if there is none. An error if there are more.
    pub fn optional<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        if self.values.is_empty() {
            Ok(None)
        } else {
            self.one().map(Some)
        }
    }

    /// All rows.
    pub fn to_array<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        self.iter().collect()
    }

    /// One row after the other.
    pub fn iter<'a, T: DeserializeOwned + 'a>(&'a self) -> impl Iterator<Item = Result<T>> + 'a {
        self.values.iter().map(|row| decode(&self.columns, row))
    }

    /// The values as SQLite has them.
    pub fn raw(&self) -> &[Vec<Value>] {
        &self.values
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Rows that the statements inserted, changed or deleted, those by triggers and foreign keys included.
    pub fn rows_written(&self) -> u64 {
        self.written
    }
}

/// One row, as [`crate::ObjectDb::for_each`] hands it over.
#[derive(Debug)]
pub struct Row<'a> {
    pub(crate) columns: &'a [String],
    pub(crate) values: &'a [Value],
}

impl Row<'_> {
    /// The row as a struct, tuple or scalar; see [`Rows`].
    pub fn get<T: DeserializeOwned>(&self) -> Result<T> {
        decode(self.columns, self.values)
    }

    /// The values as SQLite has them.
    pub fn raw(&self) -> &[Value] {
        self.values
    }
}

pub(crate) fn owned(value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(t) => {
            let text = std::str::from_utf8(t).map_err(|_| {
                Error::new(
                    ErrorKind::Decode,
                    "a text column is not UTF-8: read it as a BLOB with CAST",
                )
            })?;
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(b) => Value::Blob(b.to_vec()),
    })
}

fn decode<T: DeserializeOwned>(columns: &[String], values: &[Value]) -> Result<T> {
    T::deserialize(RowDe { columns, values }).map_err(|error| {
        let name = std::any::type_name::<T>();
        Error::new(
            ErrorKind::Decode,
            format!("the row ({}) is not a {name}: {error}", columns.join(", ")),
        )
    })
}

type DeError = serde::de::value::Error;

struct RowDe<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl<'a> RowDe<'a> {
    fn scalar(&self) -> Result<ValueDe<'a>, DeError> {
        match self.values {
            [value] => Ok(ValueDe(value)),
            values => Err(serde::de::Error::custom(format!(
                "{} columns for one value",
                values.len()
            ))),
        }
    }
}

macro_rules! scalars {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
            self.scalar()?.$method(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for RowDe<'_> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        let pairs = self
            .columns
            .iter()
            .map(String::as_str)
            .zip(self.values.iter().map(ValueDe));
        visitor.visit_map(MapDeserializer::new(pairs))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_seq(SeqDeserializer::new(self.values.iter().map(ValueDe)))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if len != self.values.len() {
            return Err(serde::de::Error::custom(format!(
                "{} columns for a tuple of {len}",
                self.values.len()
            )));
        }
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        self.scalar()?.deserialize_enum(name, variants, visitor)
    }

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_identifier
    }
}

#[derive(Clone, Copy)]
struct ValueDe<'a>(&'a Value);

impl IntoDeserializer<'_, DeError> for ValueDe<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ValueDe<'_> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Integer(i) => visitor.visit_i64(*i),
            Value::Real(r) => visitor.visit_f64(*r),
            Value::Text(t) => visitor.visit_str(t),
            Value::Blob(b) => visitor.visit_bytes(b),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Integer(i @ (0 | 1)) => visitor.visit_bool(*i == 1),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A blob read as a sequence gives its bytes, so that `Vec<u8>` works as well as `serde_bytes`.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Blob(b) => visitor.visit_seq(SeqDeserializer::new(b.iter().copied())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Text(t) => t
                .as_str()
                .into_deserializer()
                .deserialize_enum(name, variants, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct map struct identifier ignored_any
    }
}
