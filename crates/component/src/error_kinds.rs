//! From a component's error to the errors of all.

/// Makes a component's error an [`Error`](abide::Error) and a [`Failure`](crate::Failure): names the
/// [`ErrorKind`](abide::ErrorKind) of each variant but `Object`, which is such an error already. A state in which the
/// component takes no more until some work is done is `Overloaded`, so that callers wait; one that an operator or another
/// program must end is `Limit`.
///
/// ```
/// # use abide::Error;
/// # #[derive(Debug, Clone)]
/// # enum DeskError { Invalid, Full, NotFound, Closed, Object(Error) }
/// # impl std::fmt::Display for DeskError {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") }
/// # }
/// abide::component::error_kinds!(DeskError {
///     Invalid => Input,
///     Full => Overloaded,
///     NotFound | Closed => NotFound,
/// });
/// # fn main() { assert_eq!(Error::from(DeskError::Full).kind(), abide::ErrorKind::Overloaded); }
/// ```
#[macro_export]
macro_rules! error_kinds {
    ($error:ident { $($($variant:ident)|+ => $kind:ident),+ $(,)? }) => {
        impl From<$error> for ::abide::Error {
            fn from(error: $error) -> Self {
                let kind = match &error {
                    $error::Object(error) => return error.clone(),
                    $($($error::$variant { .. })|+ => ::abide::ErrorKind::$kind,)+
                };
                Self::with_kind(kind, error.to_string())
            }
        }

        impl From<$error> for $crate::Failure {
            fn from(error: $error) -> Self {
                ::abide::Error::from(error).into()
            }
        }
    };
}
