//! The parameters of a statement.

mod binder;
mod error;
mod param;
mod to_sql;
mod value;

pub(crate) use binder::{Binder, Unbound};
pub use error::ToSqlError;
pub use param::Param;
pub use to_sql::ToSql;
pub use value::Value;

/// The parameters of a statement: as many values as it has parameters.
///
/// | to pass | write |
/// |---|---|
/// | none | `()` |
/// | up to 16 values | a tuple: `(7, "ada")`, `(name,)` |
/// | up to 32 values of one type | an array: `[name]`, `[1, 2, 3]` |
/// | any number of values | [`params![7, "ada"]`](crate::params!) |
/// | values that an iterator yields | [`params_from_iter(ids)`](params_from_iter) |
/// | values from elsewhere | a slice: `&[&dyn ToSql]` |
/// | values by name | `&[(":id", 7), (":parent", 8)]`, or `&[(&str, &dyn ToSql)]` |
///
/// A value is anything that implements [`ToSql`]. A parameter without a value is an error.
///
/// ```
/// # use abide_storage as abide;
/// use abide::{ToSql, params, params_from_iter};
///
/// # use abide_storage::{ObjectKey, SimDisk, Store, StoreOptions};
/// # let store = Store::open(std::sync::Arc::new(SimDisk::new()), "/data".as_ref(), StoreOptions::small())?;
/// # let namespace = store.namespace("people")?;
/// # let sql = store.open_object(ObjectKey { namespace, id: [7; 32] })?;
/// sql.exec("CREATE TABLE people (name TEXT, born INTEGER)", ())?;
/// let insert = "INSERT INTO people VALUES (?1, ?2)";
/// sql.exec(insert, ("ada", 1815))?;
/// sql.exec(insert, params!["grace", 1906])?;
///
/// let names = vec!["ada", "alan", "grace"];
/// let places = vec!["?"; names.len()].join(", ");
/// let known = format!("SELECT count(*) FROM people WHERE name IN ({places})");
/// assert_eq!(sql.exec(&known, params_from_iter(names))?.one::<i64>()?, 2);
///
/// let between = "SELECT name FROM people WHERE born BETWEEN :first AND :last";
/// let found = sql.exec(between, &[(":first", 1900), (":last", 1999)])?;
/// assert_eq!(found.one::<String>()?, "grace");
///
/// let named: [(&str, &dyn ToSql); 2] = [(":name", &"ada"), (":born", &1815)];
/// sql.exec("DELETE FROM people WHERE name = :name AND born = :born", &named)?;
/// # drop(sql); store.close()?;
/// # Ok::<(), abide_storage::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of parameters",
    note = "pass `()` for none, a tuple such as `(value,)`, an array such as `[value]`, `params![…]` or `params_from_iter(…)`"
)]
pub trait Params {
    #[doc(hidden)]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound>;
}

/// Parameters of different types, in any number: a `&[&dyn ToSql]`.
///
/// ```
/// # use abide_storage as abide;
/// # let (name, age) = ("ada", Some(36));
/// let params: &[&dyn abide::ToSql] = abide::params![name, age, 7];
/// assert_eq!(params.len(), 3);
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::ToSql),*] as &[&dyn $crate::ToSql]
    };
}

/// The values of an iterator as parameters: see [`params_from_iter`].
#[derive(Clone, Debug)]
pub struct ParamsFromIter<I>(I);

/// The values of an iterator as parameters, such as those of a `Vec` whose length is only known at run time. The text has
/// as many `?`, up to [`MAX_BOUND_PARAMETERS`](crate::limits::MAX_BOUND_PARAMETERS) by default.
pub fn params_from_iter<I: IntoIterator>(values: I) -> ParamsFromIter<I>
where
    I::Item: ToSql,
{
    ParamsFromIter(values)
}

impl<I: IntoIterator> Params for ParamsFromIter<I>
where
    I::Item: ToSql,
{
    #[inline]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.bind_iter(self.0)
    }
}

impl Params for &[&dyn ToSql] {
    #[inline]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.bind_all(self)
    }
}

impl<T: ToSql + ?Sized, const N: usize> Params for &[&T; N] {
    #[inline]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.bind_all(self)
    }
}

impl<T: ToSql> Params for &[(&str, T)] {
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.bind_named(self)
    }
}

impl<T: ToSql, const N: usize> Params for &[(&str, T); N] {
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.bind_named(self)
    }
}

/// `[]`. It is the only array without elements that implements the trait, so the type of the elements is inferred.
impl Params for [&(dyn ToSql + Send + Sync); 0] {
    #[inline]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.expect(0)
    }
}

macro_rules! arrays {
    ($($count:literal)*) => {$(
        impl<T: ToSql> Params for [T; $count] {
            #[inline]
            fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
                binder.bind_all(&self)
            }
        }
    )*};
}

arrays! { 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 }

impl Params for () {
    #[inline]
    fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
        binder.expect(0)
    }
}

macro_rules! tuples {
    ($($count:literal: $($field:tt $of:ident),*;)*) => {$(
        impl<$($of: ToSql),*> Params for ($($of,)*) {
            #[inline]
            fn bind_to(self, binder: &mut Binder<'_, '_>) -> Result<(), Unbound> {
                binder.expect($count)?;
                $(binder.bind($field + 1, &self.$field)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! {
    1: 0 A;
    2: 0 A, 1 B;
    3: 0 A, 1 B, 2 C;
    4: 0 A, 1 B, 2 C, 3 D;
    5: 0 A, 1 B, 2 C, 3 D, 4 E;
    6: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F;
    7: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G;
    8: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H;
    9: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I;
    10: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J;
    11: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K;
    12: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L;
    13: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L, 12 M;
    14: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L, 12 M, 13 N;
    15: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L, 12 M, 13 N, 14 O;
    16: 0 A, 1 B, 2 C, 3 D, 4 E, 5 F, 6 G, 7 H, 8 I, 9 J, 10 K, 11 L, 12 M, 13 N, 14 O, 15 P;
}
