//! What can be a parameter.

use super::{Param, ToSqlError, Value};
use std::borrow::Cow;
use std::fmt::Display;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

/// A type whose values can be parameters of SQL.
///
/// | Rust | SQLite |
/// |---|---|
/// | `bool` | INTEGER, 0 or 1 |
/// | integers, `NonZero` | INTEGER; a `u64` or `usize` above `i64::MAX` is an error |
/// | `f32`, `f64` | REAL; NaN is NULL |
/// | `str`, `String` | TEXT |
/// | `[u8]`, `[u8; N]`, `Vec<u8>` | BLOB |
/// | `Option` | NULL for `None` |
/// | [`Value`], [`Param`] | the type of their variant |
/// | references, `Cow`, `Box`, `Rc`, `Arc` | the type of what they refer to |
///
/// Implement it for a type that is stored in one column. Return a borrowed text or blob if there is one; it is not copied
/// before SQLite takes it. Rows become values through `serde`, so a type that is also read from the column implements
/// `Deserialize`.
///
/// ```
/// # use abide_storage as abide;
/// use abide::{Param, ToSql, ToSqlError};
///
/// /// The number of a seat, such as `14C`.
/// #[derive(serde::Deserialize)]
/// struct Seat(String);
///
/// impl ToSql for Seat {
///     fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
///         Ok(self.0.as_str().into())
///     }
/// }
///
/// /// An amount in cents.
/// struct Cents(u128);
///
/// impl ToSql for Cents {
///     fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
///         let too_many = |_| ToSqlError::new("more cents than SQLite can store");
///         Ok(i64::try_from(self.0).map_err(too_many)?.into())
///     }
/// }
/// # use abide_storage::{ObjectKey, SimDisk, Store, StoreOptions};
/// # let store = Store::open(std::sync::Arc::new(SimDisk::new()), "/data".as_ref(), StoreOptions::small())?;
/// # let namespace = store.namespace("flights")?;
/// # let sql = store.open_object(ObjectKey { namespace, id: [7; 32] })?;
/// sql.exec("CREATE TABLE seats (seat TEXT PRIMARY KEY, price INTEGER)", ())?;
/// sql.exec("INSERT INTO seats VALUES (?1, ?2)", (Seat("14C".to_owned()), Cents(8_900)))?;
/// let seat: Seat = sql.exec("SELECT seat FROM seats", ())?.one()?;
/// assert_eq!(seat.0, "14C");
///
/// let refused = sql.exec("UPDATE seats SET price = ?1", [Cents(u128::MAX)]).unwrap_err();
/// assert_eq!(refused.to_string(), "parameter 1: more cents than SQLite can store");
/// # drop(sql); store.close()?;
/// # Ok::<(), abide_storage::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of SQL",
    note = "implement `ToSql` for it, or pass what it consists of: a number, a text, bytes, or an `Option` of these"
)]
pub trait ToSql {
    /// The value as SQLite's.
    ///
    /// # Errors
    /// If SQLite cannot represent it. The statement then does not run, and the caller gets an error of kind
    /// [`Input`](crate::ErrorKind::Input) with this text and the parameter.
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError>;
}

/// An integer of SQLite, if the number is small enough.
#[inline]
pub(super) fn integer<T: TryInto<i64> + Display + Copy>(value: T) -> Result<i64, ToSqlError> {
    value.try_into().map_err(|_| too_large(value))
}

#[cold]
fn too_large(value: impl Display) -> ToSqlError {
    ToSqlError::new(format_args!(
        "{value} exceeds {}, the largest SQLite integer: bind it as text or a blob",
        i64::MAX
    ))
}

macro_rules! copies {
    ($($of:ty)*) => {$(
        impl ToSql for $of {
            #[inline]
            fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
                Ok(Param::from(*self))
            }
        }
    )*};
}

macro_rules! non_zero {
    ($($of:ty)*) => {$(
        impl ToSql for NonZero<$of> {
            #[inline]
            fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
                integer(self.get()).map(Param::Integer)
            }
        }
    )*};
}

copies! { bool i8 i16 i32 i64 isize u8 u16 u32 f32 f64 }
non_zero! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

impl ToSql for u64 {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        integer(*self).map(Param::Integer)
    }
}

impl ToSql for usize {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        integer(*self).map(Param::Integer)
    }
}

macro_rules! borrows {
    ($($of:ty)*) => {$(
        impl ToSql for $of {
            #[inline]
            fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
                Ok(Param::from(self))
            }
        }
    )*};
}

borrows! { str String [u8] Vec<u8> Value }

impl<const N: usize> ToSql for [u8; N] {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        Ok(Param::from(self))
    }
}

impl ToSql for Param<'_> {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        Ok(match self {
            Self::Null => Param::Null,
            Self::Integer(value) => Param::Integer(*value),
            Self::Real(value) => Param::Real(*value),
            Self::Text(value) => Param::Text(Cow::Borrowed(value)),
            Self::Blob(value) => Param::Blob(Cow::Borrowed(value)),
        })
    }
}

impl<T: ToSql> ToSql for Option<T> {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        self.as_ref().map_or(Ok(Param::Null), T::to_sql)
    }
}

macro_rules! refer {
    ($($of:ty)*) => {$(
        impl<T: ToSql + ?Sized> ToSql for $of {
            #[inline]
            fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
                (**self).to_sql()
            }
        }
    )*};
}

refer! { &T Box<T> Rc<T> Arc<T> }

impl<T: ToSql + ToOwned + ?Sized> ToSql for Cow<'_, T> {
    #[inline]
    fn to_sql(&self) -> Result<Param<'_>, ToSqlError> {
        (**self).to_sql()
    }
}
