//! The value of one parameter.

use super::Value;
use std::borrow::Cow;

/// The value of one parameter, borrowed if possible: what [`ToSql::to_sql`](crate::ToSql::to_sql) returns.
///
/// Converts from numbers, `bool` (0 or 1), texts, bytes, [`Value`], and `Option` of these (`None` is NULL).
#[derive(Clone, Debug, PartialEq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// An integer of 64 bits.
    Integer(i64),
    /// A floating point number. NaN is stored as NULL.
    Real(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(Cow<'a, [u8]>),
}

macro_rules! from {
    ($($from:ty => |$value:ident| $to:expr,)*) => {$(
        impl<'a> From<$from> for Param<'a> {
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
    &'a str => |value| Self::Text(Cow::Borrowed(value)),
    &'a String => |value| Self::Text(Cow::Borrowed(value)),
    String => |value| Self::Text(Cow::Owned(value)),
    Cow<'a, str> => |value| Self::Text(value),
    &'a [u8] => |value| Self::Blob(Cow::Borrowed(value)),
    &'a Vec<u8> => |value| Self::Blob(Cow::Borrowed(value)),
    Vec<u8> => |value| Self::Blob(Cow::Owned(value)),
    Cow<'a, [u8]> => |value| Self::Blob(value),
}

impl<'a, const N: usize> From<&'a [u8; N]> for Param<'a> {
    #[inline]
    fn from(value: &'a [u8; N]) -> Self {
        Self::Blob(Cow::Borrowed(value))
    }
}

impl<T: Into<Self>> From<Option<T>> for Param<'_> {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<'a> From<&'a Value> for Param<'a> {
    #[inline]
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(*value),
            Value::Real(value) => Self::Real(*value),
            Value::Text(value) => value.into(),
            Value::Blob(value) => value.into(),
        }
    }
}

impl From<Value> for Param<'_> {
    #[inline]
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(value),
            Value::Real(value) => Self::Real(value),
            Value::Text(value) => value.into(),
            Value::Blob(value) => value.into(),
        }
    }
}

impl From<Param<'_>> for Value {
    fn from(value: Param<'_>) -> Self {
        match value {
            Param::Null => Self::Null,
            Param::Integer(value) => Self::Integer(value),
            Param::Real(value) => Self::Real(value),
            Param::Text(value) => value.into(),
            Param::Blob(value) => value.into(),
        }
    }
}
