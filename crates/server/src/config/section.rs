//! Sections of settings that a program adds to those of the node.
//!
//! They are found in the same places and refused with the same messages:
//!
//! ```
//! use abide_server::setting::{self, Section, Setting};
//!
//! #[derive(Default)]
//! struct Mail {
//!     retries: usize,
//! }
//!
//! impl Section for Mail {
//!     const SETTINGS: &'static [Setting<Self>] = &[Setting {
//!         key: "mail.retries",
//!         set: |mail, text| {
//!             mail.retries = setting::count(text, 0..=9)?;
//!             Ok(())
//!         },
//!     }];
//! }
//!
//! # fn load() -> Result<(), abide_server::ConfigError> {
//! let (config, mail) = abide_server::Config::load_with::<Mail>(&abide_server::Sources::default())?;
//! # Ok(())
//! # }
//! ```

pub use super::value::{bytes, count, duration, duration_or_off, switch};

/// One setting of a section.
#[derive(Debug)]
pub struct Setting<T> {
    /// `section.key`, as in the file.
    pub key: &'static str,
    /// Reads a value, as the file or the variable holds it; `Err` is what is allowed, as the end of the sentence
    /// "expected …".
    pub set: fn(&mut T, &str) -> Result<(), String>,
}

/// Settings of a program's own. Made with the defaults, then given what the file and the environment say.
pub trait Section: Default + 'static {
    /// Every setting there is. Their sections are not among those of [`Config`](crate::Config).
    const SETTINGS: &'static [Setting<Self>];

    /// The keys of those that no message may show. Each can be a file, too: `section.key_file` names it.
    const SECRETS: &'static [&'static str] = &[];

    /// What must hold between settings; `Err` says what does not, and what to do.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// None.
impl Section for () {
    const SETTINGS: &'static [Setting<Self>] = &[];
}
