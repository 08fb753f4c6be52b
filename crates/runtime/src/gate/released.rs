//! Proof that a value has passed an output gate.

use std::fmt;

/// A value that has passed an output gate.
///
/// Only the gate can create one, so a channel of `Released<T>` cannot carry anything that is not durable yet:
///
/// ```compile_fail
/// let forged = abide_runtime::Released("not durable");
/// ```
/// ```compile_fail
/// let forged = abide_runtime::Released::new("not durable");
/// ```
/// ```compile_fail
/// let forged: abide_runtime::Released<&str> = "not durable".into();
/// ```
/// ```compile_fail
/// fn copy(one: &abide_runtime::Released<&str>) -> abide_runtime::Released<&str> { one.clone() }
/// ```
pub struct Released<T>(T);

impl<T> Released<T> {
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }

    /// The value, which may now go anywhere.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Released<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Released").field(&self.0).finish()
    }
}
