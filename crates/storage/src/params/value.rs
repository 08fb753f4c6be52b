//! A value in one of SQLite's types.

use super::ToSqlError;
use super::to_sql::integer;
use std::borrow::Cow;

/// A value in one of SQLite's five types, owned: what [`Row::raw`](crate::Row::raw) returns, and a parameter whose type is
/// only known at run time.
///
/// Converts from numbers, `bool` (0 or 1), texts, bytes, and `Option` of these (`None` is NULL). `u64` and `usize` convert
/// with `try_from`: SQLite's largest integer is `i64::MAX`.
///
/// ```
/// # use abide_storage as abide;
/// use abide::Value;
///
/// assert_eq!(Value::from("ada"), Value::Text("ada".to_owned()));
/// assert_eq!(Value::from(Some(7)), Value::Integer(7));
/// assert_eq!(Value::from(None::<f64>), Value::Null);
/// assert!(Value::try_from(u64::MAX).is_err());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// An integer of 64 bits.
    Integer(i64),
    /// A floating point number. NaN is stored as NULL.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr,)*) => {$(
        impl From<$from> for Value {
            #[inline]
            fn from($value: $from) -> Self {
                $to
            }
        }
    )*};
}

from! {
    bool => |value| Self::Integer(value.into()),
    i8 => |value| Self::Integer(value.into()),
    i16 => |value| Self::Integer(value.into()),
    i32 => |value| Self::Integer(value.into()),
    i64 => |value| Self::Integer(value),
    isize => |value| Self::Integer(value as i64),
    u8 => |value| Self::Integer(value.into()),
    u16 => |value| Self::Integer(value.into()),
    u32 => |value| Self::Integer(value.into()),
    f32 => |value| Self::Real(value.into()),
    f64 => |value| Self::Real(value),
    &str => |value| Self::Text(value.to_owned()),
    String => |value| Self::Text(value),
    Cow<'_, str> => |value| Self::Text(value.into_owned()),
    &[u8] => |value| Self::Blob(value.to_owned()),
    Vec<u8> => |value| Self::Blob(value),
    Cow<'_, [u8]> => |value| Self::Blob(value.into_owned()),
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Self::Blob(value.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl TryFrom<u64> for Value {
    type Error = ToSqlError;

    #[inline]
    fn try_from(value: u64) -> Result<Self, ToSqlError> {
        integer(value).map(Self::Integer)
    }
}

impl TryFrom<usize> for Value {
    type Error = ToSqlError;

    #[inline]
    fn try_from(value: usize) -> Result<Self, ToSqlError> {
        integer(value).map(Self::Integer)
    }
}
