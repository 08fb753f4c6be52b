//! Secrets of a program's own options.
//!
//! Contract: a secret can be an option, a variable, or a file that another option or variable names, since other users
//! can see a program's arguments. Errors never show it.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use super::ConfigError;
use crate::limits;

/// The suffix of the variable that names the file with a secret.
const FILE_SUFFIX: &str = "_FILE";

/// The sources of a program's secret: an option, the file of `OPTION-file`, the variable, or the file of
/// `VARIABLE_FILE`. Options take precedence.
///
/// ```
/// use abide_server::SecretOption;
///
/// const KEY: SecretOption = SecretOption::new("--gateway-key", "SHOP_GATEWAY_KEY");
///
/// # fn find(key: Option<String>, key_file: Option<std::path::PathBuf>) -> Result<(), abide_server::ConfigError> {
/// let key: Option<String> = KEY.find(key, key_file.as_deref())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SecretOption {
    option: &'static str,
    variable: &'static str,
}

impl SecretOption {
    /// The option, with its dashes, and the variable.
    pub const fn new(option: &'static str, variable: &'static str) -> Self {
        Self { option, variable }
    }

    /// The secret, if it was given. `given` and `file` are the values of the options.
    ///
    /// # Errors
    /// If a file cannot be read, has more than 64 KiB or is empty, or if the secret and its file are both given as
    /// options, or both as variables.
    pub fn find(
        &self,
        given: Option<String>,
        file: Option<&Path>,
    ) -> Result<Option<String>, ConfigError> {
        let option = format!("the option {}-file", self.option);
        let variable = format!("{}{FILE_SUFFIX}", self.variable);
        let found = one_of(given, file.map(Path::to_owned), self.option, &option)?;
        if found.is_some() {
            return Ok(found);
        }
        let of_variable = std::env::var(self.variable).ok();
        let of_file = std::env::var_os(&variable).map(PathBuf::from);
        let place = format!("the environment variable {variable}");
        one_of(of_variable, of_file, self.variable, &place)
    }

    /// Like [`Self::find`], for a secret without which the program cannot start.
    ///
    /// # Errors
    /// Also if it was not given.
    pub fn require(
        &self,
        given: Option<String>,
        file: Option<&Path>,
    ) -> Result<String, ConfigError> {
        self.find(given, file)?.ok_or_else(|| {
            let Self { option, variable } = self;
            ConfigError(format!(
                "pass {option} or {option}-file, or set {variable} or {variable}{FILE_SUFFIX}"
            ))
        })
    }

    /// Rejects variables that would have no effect, as `clap` does for options that do not fit: `without` is what the
    /// secret belongs to, and was not given, such as `--gateway`.
    ///
    /// # Errors
    /// If the variable, or the one that names a file, is set.
    pub fn refuse_without(&self, without: &str) -> Result<(), ConfigError> {
        self.refuse(
            &format!("there is no {without}"),
            &format!("pass {without}"),
        )
    }

    /// The same, if another option takes its place: `beside`, such as `--acs`.
    ///
    /// # Errors
    /// If the variable, or the one that names a file, is set.
    pub fn refuse_beside(&self, beside: &str) -> Result<(), ConfigError> {
        self.refuse(&format!("{beside} is given"), &format!("drop {beside}"))
    }

    fn refuse(&self, why: &str, instead: &str) -> Result<(), ConfigError> {
        let file = format!("{}{FILE_SUFFIX}", self.variable);
        let is_set =
            |variable: &&str| std::env::var_os(variable).is_some_and(|set| !set.is_empty());
        let mut variables = [self.variable, &file].into_iter();
        match variables.find(is_set) {
            None => Ok(()),
            Some(variable) => Err(ConfigError(format!(
                "{variable} is set, but has no effect, because {why}: {instead}, or unset {variable}"
            ))),
        }
    }
}

fn one_of(
    given: Option<String>,
    file: Option<PathBuf>,
    name: &str,
    place: &str,
) -> Result<Option<String>, ConfigError> {
    match (given, file) {
        (Some(_), Some(_)) => Err(ConfigError(format!(
            "{name} and {place} are both given; remove one"
        ))),
        (None, Some(path)) => read(&path, place).map(Some),
        (given, None) => Ok(given),
    }
}

/// Reads a file's content, without trailing line breaks. `place` is the source that names the file.
pub(super) fn read(path: &Path, place: &str) -> Result<String, ConfigError> {
    let failed = |why: String| {
        let path = path.display();
        ConfigError(format!("{place} names the file {path}: {why}"))
    };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(limits::MAX_SECRET_FILE + 1)
        .read_to_string(&mut text)
        .map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > limits::MAX_SECRET_FILE {
        let most = limits::MAX_SECRET_FILE;
        return Err(failed(format!("it has more than {most} bytes")));
    }
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(failed("it is empty".to_owned()));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SecretOption = SecretOption::new("--key", "ABIDE_TEST_NO_SUCH_KEY");

    fn told(found: Result<Option<String>, ConfigError>) -> String {
        found.expect_err("it is refused").to_string()
    }

    #[test]
    fn a_secret_comes_from_the_option_or_its_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("key");
        std::fs::write(&file, "hunter2 \r\n").expect("a file");
        let given = Some("hunter3".to_owned());
        assert_eq!(KEY.find(None, None).expect("none"), None);
        assert_eq!(KEY.find(given.clone(), None).expect("one"), given);
        let found = KEY.find(None, Some(&file)).expect("one");
        assert_eq!(found.as_deref(), Some("hunter2 "));
        let both = told(KEY.find(given, Some(&file)));
        assert!(both.contains("both") && !both.contains("hunter"), "{both}");
        let missing = told(KEY.require(None, None).map(Some));
        assert!(
            missing.contains("--key-file") && missing.contains("KEY_FILE"),
            "{missing}"
        );
        for (bytes, why) in [
            (vec![b'x'; (64 << 10) + 1], "more than 65536 bytes"),
            (b"\n".to_vec(), "empty"),
            (vec![b'h', 0xff], "UTF-8"),
        ] {
            std::fs::write(&file, bytes).expect("a file");
            let refused = told(KEY.find(None, Some(&file)));
            assert!(
                refused.contains(why) && refused.contains("--key-file"),
                "{refused}"
            );
        }
        let absent = told(KEY.find(None, Some(&dir.path().join("absent"))));
        assert!(absent.contains("absent"), "{absent}");
    }
}
