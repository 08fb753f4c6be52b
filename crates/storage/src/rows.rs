//! The rows of a statement, and their conversion to a user's types through serde.

use crate::error::{Error, ErrorKind, Result};
use crate::params::Value;
use rusqlite::types::ValueRef;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a statement, all in memory.
///
/// A row deserializes into a struct by column names, into a tuple by position, and into a scalar if it has one column.
/// Integers are exact 64-bit integers, blobs are bytes (`serde_bytes`), NULL is `None`.
///
/// `E` is the caller's error type: this crate's, or one that converts from it.
pub struct Rows<E = Error> {
    gathered: Gathered,
    errors: PhantomData<fn() -> E>,
}

/// The collected result of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) columns: Arc<[String]>,
    pub(crate) cells: Cells,
    pub(crate) count: usize,
    pub(crate) written: u64,
}

impl<E> From<Gathered> for Rows<E> {
    fn from(gathered: Gathered) -> Self {
        Self {
            gathered,
            errors: PhantomData,
        }
    }
}

impl<E> Clone for Rows<E> {
    fn clone(&self) -> Self {
        self.gathered.clone().into()
    }
}

impl<E> std::fmt::Debug for Rows<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.gathered.fmt(f)
    }
}

impl<E: From<Error>> Rows<E> {
    /// The same rows, with another error type.
    pub fn with_errors<F>(self) -> Rows<F> {
        self.gathered.into()
    }

    /// The only row. An error if there is none, or more than one.
    pub fn one<T: DeserializeOwned>(&self) -> Result<T, E> {
        match self.gathered.count {
            1 => self.row(0).get(),
            count => Err(Error::input(format!(
                "expected one row, but the statement returned {count}"
            ))
            .into()),
        }
    }

    /// The only row, or `None` if there is none. An error if there are more.
    pub fn optional<T: DeserializeOwned>(&self) -> Result<Option<T>, E> {
        if self.gathered.count == 0 {
            Ok(None)
        } else {
            self.one().map(Some)
        }
    }

    /// All rows.
    pub fn all<T: DeserializeOwned>(&self) -> Result<Vec<T>, E> {
        self.iter().collect()
    }

    /// Iterates over the rows.
    pub fn iter<'a, T: DeserializeOwned + 'a>(&'a self) -> impl Iterator<Item = Result<T, E>> + 'a {
        (0..self.gathered.count).map(|at| self.row(at).get())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.gathered.count
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.gathered.count == 0
    }

    /// The values in SQLite's types.
    pub fn raw(&self) -> Vec<Vec<Value>> {
        (0..self.gathered.count)
            .map(|at| self.row(at).raw())
            .collect()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.gathered.columns
    }

    /// Rows that the statements inserted, changed or deleted, including those changed by triggers and foreign keys.
    pub fn rows_written(&self) -> u64 {
        self.gathered.written
    }

    fn row(&self, at: usize) -> Row<'_, E> {
        let Gathered { columns, cells, .. } = &self.gathered;
        Row::new(columns, Source::Gathered(cells, at * columns.len()))
    }
}

/// The values of many rows in sequence, with all texts and blobs in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cells {
    cells: Vec<Cell>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text { start: usize, end: usize },
    Blob { start: usize, end: usize },
}

impl Cells {
    #[inline]
    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        let cell = match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(i) => Cell::Integer(i),
            ValueRef::Real(r) => Cell::Real(r),
            ValueRef::Text(text) => {
                let (start, end) = self.keep(text);
                Cell::Text { start, end }
            }
            ValueRef::Blob(blob) => {
                let (start, end) = self.keep(blob);
                Cell::Blob { start, end }
            }
        };
        self.cells.push(cell);
    }

    #[inline]
    fn keep(&mut self, bytes: &[u8]) -> (usize, usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (start, self.bytes.len())
    }

    #[inline]
    fn get(&self, at: usize) -> ValueRef<'_> {
        match self.cells[at] {
            Cell::Null => ValueRef::Null,
            Cell::Integer(i) => ValueRef::Integer(i),
            Cell::Real(r) => ValueRef::Real(r),
            Cell::Text { start, end } => ValueRef::Text(&self.bytes[start..end]),
            Cell::Blob { start, end } => ValueRef::Blob(&self.bytes[start..end]),
        }
    }

    /// The memory they occupy.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + size_of_val(&self.cells[..])
    }
}

/// One row, as [`crate::ObjectDb::for_each`] passes it.
pub struct Row<'a, E = Error> {
    columns: &'a [String],
    source: Source<'a>,
    errors: PhantomData<fn() -> E>,
}

/// Where a row's values are stored.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Collected, starting at this cell.
    Gathered(&'a Cells, usize),
    /// In SQLite, until the statement's next step.
    Live(&'a rusqlite::Row<'a>),
}

impl<'a> Source<'a> {
    #[inline]
    fn get(self, column: usize) -> ValueRef<'a> {
        match self {
            Self::Gathered(cells, first) => cells.get(first + column),
            // The column exists: rows are as wide as their statement.
            Self::Live(row) => row.get_ref(column).unwrap_or(ValueRef::Null),
        }
    }
}

impl<'a, E> Row<'a, E> {
    pub(crate) fn new(columns: &'a [String], source: Source<'a>) -> Self {
        Self {
            columns,
            source,
            errors: PhantomData,
        }
    }

    /// The row as a struct, tuple or scalar; see [`Rows`].
    pub fn get<T: DeserializeOwned>(&self) -> Result<T, E>
    where
        E: From<Error>,
    {
        let row = RowDe {
            columns: self.columns,
            source: self.source,
        };
        T::deserialize(row)
            .map_err(|error| not_a(std::any::type_name::<T>(), self.columns, &error).into())
    }

    /// The values in SQLite's types. Text that is not UTF-8 is returned as bytes.
    pub fn raw(&self) -> Vec<Value> {
        let owned = |value: ValueRef<'_>| match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(i) => Value::Integer(i),
            ValueRef::Real(r) => Value::Real(r),
            ValueRef::Text(t) => match std::str::from_utf8(t) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::Blob(t.to_vec()),
            },
            ValueRef::Blob(b) => Value::Blob(b.to_vec()),
        };
        (0..self.columns.len())
            .map(|column| owned(self.source.get(column)))
            .collect()
    }
}

impl<E> std::fmt::Debug for Row<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.columns.iter().zip(self.raw()))
            .finish()
    }
}

type DeError = serde::de::value::Error;

#[cold]
fn not_a(name: &str, columns: &[String], error: &DeError) -> Error {
    let columns = columns.join(", ");
    Error::new(
        ErrorKind::Decode,
        format!("the row ({columns}) is not a {name}: {error}"),
    )
}

struct RowDe<'a> {
    columns: &'a [String],
    source: Source<'a>,
}

impl<'a> RowDe<'a> {
    fn scalar(&self) -> Result<ValueDe<'a>, DeError> {
        match self.columns.len() {
            1 => Ok(ValueDe(self.source.get(0))),
            count => Err(serde::de::Error::custom(format!(
                "{count} columns for one value"
            ))),
        }
    }

    /// The columns' names and values.
    fn pairs(&self) -> impl Iterator<Item = (&'a str, ValueDe<'a>)> + use<'a> {
        let (columns, source) = (self.columns, self.source);
        let value = move |column| ValueDe(source.get(column));
        let names = columns.iter().map(String::as_str);
        names.zip((0..columns.len()).map(value))
    }
}

/// The values of a row in sequence. Short rows are read by the million, so each step is plain.
struct Columns<'a> {
    source: Source<'a>,
    rest: Range<usize>,
}

impl<'de> SeqAccess<'de> for Columns<'_> {
    type Error = DeError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DeError> {
        let Some(column) = self.rest.next() else {
            return Ok(None);
        };
        seed.deserialize(ValueDe(self.source.get(column))).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
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
        visitor.visit_map(MapDeserializer::new(self.pairs()))
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
        visitor.visit_seq(Columns {
            source: self.source,
            rest: 0..self.columns.len(),
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if len != self.columns.len() {
            return Err(serde::de::Error::custom(format!(
                "{} columns for a tuple of {len}",
                self.columns.len()
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
struct ValueDe<'a>(ValueRef<'a>);

impl<'a> ValueDe<'a> {
    fn text(self) -> Result<&'a str, DeError> {
        self.0.as_str().map_err(|_| {
            serde::de::Error::custom("a text is not UTF-8: read it as a BLOB with CAST")
        })
    }
}

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
            ValueRef::Null => visitor.visit_unit(),
            ValueRef::Integer(i) => visitor.visit_i64(i),
            ValueRef::Real(r) => visitor.visit_f64(r),
            ValueRef::Text(_) => visitor.visit_str(self.text()?),
            ValueRef::Blob(b) => visitor.visit_bytes(b),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            ValueRef::Integer(i @ (0 | 1)) => visitor.visit_bool(i == 1),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            ValueRef::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A blob can be read as a sequence of bytes, so `Vec<u8>` works as well as `serde_bytes`.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            ValueRef::Blob(b) => visitor.visit_seq(SeqDeserializer::new(b.iter().copied())),
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
            ValueRef::Text(_) => self
                .text()?
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
