//! Says which mutant is on.
//!
//! Only a copy of the tree to which mutants were applied calls [`on`]: see the package `abide-mutants`. No mutant is on
//! until it is selected: for a process with the environment variable [`VARIABLE`], or for a thread with [`Selected`].

use std::{cell::RefCell, sync::OnceLock};

/// The environment variable with the name of a process's mutant.
pub const VARIABLE: &str = "ABIDE_MUTANT";

thread_local! {
    static OF_THREAD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether this mutant is on.
#[must_use]
pub fn on(name: &str) -> bool {
    static OF_PROCESS: OnceLock<Option<String>> = OnceLock::new();
    let of_process = OF_PROCESS.get_or_init(|| std::env::var(VARIABLE).ok());
    let of_thread = OF_THREAD.try_with(|selected| selected.borrow().iter().any(|one| one == name));
    // A thread that ends has none.
    of_thread.unwrap_or(false) || of_process.as_deref() == Some(name)
}

/// Mutants that are on for this thread until this is dropped.
#[derive(Debug)]
pub struct Selected(());

impl Selected {
    /// Selects mutants by their names, instead of those selected before.
    #[must_use = "the mutants are on until this is dropped"]
    pub fn begin<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        OF_THREAD.set(names.into_iter().map(str::to_owned).collect());
        Self(())
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        OF_THREAD.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_on_for_its_thread_while_it_is_selected() {
        let selected = Selected::begin(["First", "Second"]);
        assert!(on("First") && on("Second") && !on("Third"));
        let elsewhere = std::thread::spawn(|| on("First")).join();
        assert!(!elsewhere.expect("a thread"));
        drop(selected);
        assert!(!on("First"));
    }
}
