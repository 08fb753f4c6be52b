//! A statement that is given its parameters: the only place where they become rusqlite's values.

use super::{Param, ToSql};
use crate::error::Error;
use rusqlite::Statement;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Display;

/// A statement that is given its parameters.
#[derive(Debug)]
pub struct Binder<'a, 'c> {
    statement: &'a mut Statement<'c>,
}

/// Why the parameters were not bound.
#[derive(Debug)]
pub enum Unbound {
    /// They do not fit the statement.
    Misfit(Error),
    /// SQLite refused one.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Unbound {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl<'a, 'c> Binder<'a, 'c> {
    pub(crate) fn new(statement: &'a mut Statement<'c>) -> Self {
        Self { statement }
    }

    /// An error, unless the statement has this many parameters.
    #[inline]
    pub(super) fn expect(&self, given: usize) -> Result<(), Unbound> {
        match self.statement.parameter_count() {
            wanted if wanted == given => Ok(()),
            wanted => Err(miscounted(given, wanted)),
        }
    }

    /// Binds the parameter with this number, the first of which is 1.
    #[inline]
    pub(super) fn bind(
        &mut self,
        number: usize,
        value: &(impl ToSql + ?Sized),
    ) -> Result<(), Unbound> {
        match value.to_sql() {
            Ok(value) => Ok(self.statement.raw_bind_parameter(number, Raw(&value))?),
            Err(error) => Err(misfit(format_args!("parameter {number}: {error}"))),
        }
    }

    /// Binds values in turn.
    #[inline]
    pub(super) fn bind_all(&mut self, values: &[impl ToSql]) -> Result<(), Unbound> {
        self.expect(values.len())?;
        for (at, value) in values.iter().enumerate() {
            self.bind(at + 1, value)?;
        }
        Ok(())
    }

    /// Binds values in turn whose number is not known.
    #[inline]
    pub(super) fn bind_iter<T: ToSql>(
        &mut self,
        values: impl IntoIterator<Item = T>,
    ) -> Result<(), Unbound> {
        let wanted = self.statement.parameter_count();
        let mut given = 0;
        for value in values {
            if given == wanted {
                return Err(misfit(format_args!(
                    "more than {wanted} parameters were passed, but the statement has {wanted}"
                )));
            }
            given += 1;
            self.bind(given, &value)?;
        }
        self.expect(given)
    }

    /// Binds parameters by their names. Each has to have a value.
    pub(super) fn bind_named<T: ToSql>(&mut self, values: &[(&str, T)]) -> Result<(), Unbound> {
        for (name, value) in values {
            let Some(number) = self.statement.parameter_index(name)? else {
                return Err(misfit(format_args!(
                    "the statement has no parameter {name}"
                )));
            };
            match value.to_sql() {
                Ok(value) => self.statement.raw_bind_parameter(number, Raw(&value))?,
                Err(error) => return Err(misfit(format_args!("parameter {name}: {error}"))),
            }
        }
        for number in 1..=self.statement.parameter_count() {
            match self.statement.parameter_name(number) {
                Some(name) if values.iter().any(|(given, _)| *given == name) => {}
                Some(name) => return Err(misfit(format_args!("no value was passed for {name}"))),
                None => {
                    return Err(misfit(format_args!(
                        "parameter {number} has no name: pass all values by position"
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cold]
fn misfit(why: impl Display) -> Unbound {
    Unbound::Misfit(Error::input(why.to_string()))
}

#[cold]
fn miscounted(given: usize, wanted: usize) -> Unbound {
    misfit(format_args!(
        "{given} parameters were passed, but the statement has {wanted}"
    ))
}

/// A value as rusqlite's, by reference. SQLite copies texts and blobs when they are bound.
struct Raw<'a>(&'a Param<'a>);

impl rusqlite::ToSql for Raw<'_> {
    #[inline]
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Param::Null => ValueRef::Null,
            Param::Integer(value) => ValueRef::Integer(*value),
            Param::Real(value) => ValueRef::Real(*value),
            Param::Text(value) => ValueRef::Text(value.as_bytes()),
            Param::Blob(value) => ValueRef::Blob(value),
        }))
    }
}
