//! Sections of settings that a program adds to those of the node.
//!
//! They have the same sources and the same error messages:
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
    /// Parses a value from the file or the variable; `Err` is what is allowed, as the end of the sentence "expected …".
    pub set: fn(&mut T, &str) -> Result<(), String>,
}

/// A program's own settings. Created with the defaults, then updated from the file and the environment.
pub trait Section: Default + 'static {
    /// All settings. Their sections must differ from those of [`Config`](crate::Config).
    const SETTINGS: &'static [Setting<Self>];

    /// The keys whose values must never appear in a message. Each can also be read from a file: `section.key_file`
    /// names it.
    const SECRETS: &'static [&'static str] = &[];

    /// Checks constraints between settings; `Err` says which one is violated, and what to do.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// No settings.
impl Section for () {
    const SETTINGS: &'static [Setting<Self>] = &[];
}
