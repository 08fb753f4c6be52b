//! Loads settings from a file, the environment and the command line.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use thiserror::Error;
use toml::{Table, Value};

use super::{
    Config, secret,
    section::{Section, Setting},
    settings::{SECRETS, SETTINGS},
};

/// The file that is read if no other is given and it exists.
const DEFAULT_FILE: &str = "abide.toml";
const VARIABLE_PREFIX: &str = "ABIDE";
const SEPARATOR: &str = "__";
/// The suffix of a setting that names the file with a secret.
const FILE_SUFFIX: &str = "_file";

/// The sources of settings besides the defaults and the environment, from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The file to read (`--config`); without it `./abide.toml`, if there is one.
    pub file: Option<PathBuf>,
    /// `server.listen` from the command line (`--listen`).
    pub listen: Option<String>,
    /// `data.dir` from the command line (`--data`).
    pub data: Option<PathBuf>,
    /// `memory.budget` from the command line (`--memory`).
    pub memory: Option<String>,
    /// `server.access` is `"open"` (`--insecure`).
    pub insecure: bool,
    /// The history at `archive.url` is taken over (`--take-over`).
    pub take_over: bool,
}

/// Why the settings were rejected. The message names the key, its source and the allowed values.
#[derive(Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);

impl ConfigError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The source of a value.
enum Origin<'a> {
    File(&'a Path),
    Environment,
    Option(&'static str),
}

impl Origin<'_> {
    /// The source, in the terms of the user.
    fn describe(&self, key: &str) -> String {
        match self {
            Self::File(path) => format!("`{key}` in {}", path.display()),
            Self::Environment => format!("the environment variable {}", variable(key)),
            Self::Option(name) => format!("the option {name}"),
        }
    }
}

impl Config {
    /// Loads the settings from a file, the environment and the command line, over the defaults.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        Self::load_with::<()>(sources).map(|(config, ())| config)
    }

    /// Also loads a program's own section.
    pub fn load_with<S: Section>(sources: &Sources) -> Result<(Self, S), ConfigError> {
        let default = Path::new(DEFAULT_FILE);
        let file = match &sources.file {
            Some(path) => Some(path.as_path()),
            None => default.exists().then_some(default),
        };
        // Variables whose names or values are not valid Unicode cannot be settings.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        gather(file, variables, sources)
    }

    /// Checks constraints between settings.
    fn check(&self) -> Result<(), ConfigError> {
        if self.storage.checkpoint_bytes < self.storage.segment_bytes {
            return Err(ConfigError(format!(
                "`storage.checkpoint_bytes` is {} and `storage.segment_bytes` is {}; \
                 a checkpoint needs at least one segment of log: raise the first or lower the second",
                self.storage.checkpoint_bytes, self.storage.segment_bytes
            )));
        }
        for (section, tls) in [("server", &self.server.tls), ("admin", &self.admin.tls)] {
            let is_half = tls.certificate.is_some() != tls.key.is_some();
            if is_half || (tls.client_ca.is_some() && tls.key.is_none()) {
                return Err(ConfigError(format!(
                    "`{section}.tls_certificate` and `{section}.tls_key` must be set together, and `{section}.tls_client_ca` needs both"
                )));
            }
        }
        if self.cluster.postgres.is_some() {
            self.check_cluster()?;
        }
        let speaks = self.server.proxy_protocol || self.admin.proxy_protocol;
        if speaks && self.server.trusted_proxies.is_empty() {
            return Err(ConfigError(
                "`server.proxy_protocol` and `admin.proxy_protocol` are for the proxies in `server.trusted_proxies`, which is \
                 empty"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// What a node of a cluster needs and cannot have.
    fn check_cluster(&self) -> Result<(), ConfigError> {
        let wrong = if self.archive.url.is_none() {
            "`cluster.postgres` needs `archive.url`: the nodes share the history of objects in an object store"
        } else if self.archive.sync {
            "`archive.sync` is not for a node of a cluster: it acknowledges what the database of `cluster.postgres` has"
        } else if self.storage.max_bytes.is_some() {
            "`storage.max_bytes` is not for a node of a cluster: its files are a cache"
        } else {
            return Ok(());
        };
        Err(ConfigError(wrong.to_owned()))
    }
}

/// The settings that a file with this text and these variables produce.
#[cfg(feature = "fuzzing")]
pub(crate) fn load_text(
    text: &str,
    variables: BTreeMap<String, String>,
) -> Result<Config, ConfigError> {
    let path = Path::new(DEFAULT_FILE);
    let mut gathered = Gathered::<()>::default();
    gathered.apply(&Origin::File(path), read_text(text, path)?)?;
    gathered.apply(&Origin::Environment, read_variables(variables)?)?;
    gathered.config.check()?;
    Ok(gathered.config)
}

fn gather<S: Section>(
    file: Option<&Path>,
    variables: BTreeMap<String, String>,
    sources: &Sources,
) -> Result<(Config, S), ConfigError> {
    let mut gathered = Gathered::<S>::default();
    if let Some(path) = file {
        gathered.apply(&Origin::File(path), read_file(path)?)?;
    }
    gathered.apply(&Origin::Environment, read_variables(variables)?)?;
    if let Some(listen) = &sources.listen {
        gathered.set("server.listen", listen, &Origin::Option("--listen"))?;
    }
    if sources.insecure {
        gathered.set("server.access", "open", &Origin::Option("--insecure"))?;
    }
    if let Some(memory) = &sources.memory {
        gathered.set("memory.budget", memory, &Origin::Option("--memory"))?;
    }
    let Gathered {
        mut config,
        section,
    } = gathered;
    if let Some(data) = &sources.data {
        config.data.dir.clone_from(data);
    }
    config.archive.take_over = sources.take_over;
    config.check()?;
    section.check().map_err(ConfigError)?;
    Ok((config, section))
}

/// The settings found so far.
#[derive(Default)]
struct Gathered<S> {
    config: Config,
    section: S,
}

impl<S: Section> Gathered<S> {
    fn apply(&mut self, origin: &Origin<'_>, settings: Table) -> Result<(), ConfigError> {
        for (section, value) in settings {
            let Value::Table(entries) = value else {
                return Err(unknown::<S>(&section, origin));
            };
            if !keys::<S>().any(|key| key.split('.').next() == Some(section.as_str())) {
                // An empty section has no key to report.
                let key = entries
                    .keys()
                    .next()
                    .map_or_else(|| section.clone(), |key| format!("{section}.{key}"));
                return Err(unknown::<S>(&key, origin));
            }
            let both = secrets::<S>().find(|secret| {
                let name = secret.split_once('.').filter(|of| of.0 == section);
                name.is_some_and(|(_, name)| {
                    entries.contains_key(name)
                        && entries.contains_key(&format!("{name}{FILE_SUFFIX}"))
                })
            });
            if let Some(secret) = both {
                return Err(ConfigError(format!(
                    "{} and {} are both set; remove one",
                    origin.describe(secret),
                    origin.describe(&format!("{secret}{FILE_SUFFIX}"))
                )));
            }
            for (name, value) in entries {
                let key = format!("{section}.{name}");
                let text = match value {
                    Value::Table(_) => return Err(unknown::<S>(&key, origin)),
                    Value::Array(_) => String::new(),
                    Value::String(text) => text,
                    Value::Integer(number) => number.to_string(),
                    Value::Float(number) => number.to_string(),
                    Value::Boolean(truth) => truth.to_string(),
                    Value::Datetime(time) => time.to_string(),
                };
                self.set(&key, &text, origin)?;
            }
        }
        Ok(())
    }

    /// Sets a secret to the content of a file, without trailing line breaks.
    fn set_from_file(
        &mut self,
        key: &str,
        path: &str,
        origin: &Origin<'_>,
    ) -> Result<(), ConfigError> {
        let named = format!("{key}{FILE_SUFFIX}");
        let text = secret::read(Path::new(path), &origin.describe(&named))?;
        self.set(key, &text, origin)
    }

    fn set(&mut self, key: &str, text: &str, origin: &Origin<'_>) -> Result<(), ConfigError> {
        if let Some(secret) = key.strip_suffix(FILE_SUFFIX)
            && is_secret::<S>(secret)
        {
            return self.set_from_file(secret, text, origin);
        }
        let set = if let Some(setting) = find(SETTINGS, key) {
            (setting.set)(&mut self.config, text)
        } else if let Some(setting) = find(S::SETTINGS, key) {
            (setting.set)(&mut self.section, text)
        } else {
            return Err(unknown::<S>(key, origin));
        };
        set.map_err(|expected| {
            let place = origin.describe(key);
            ConfigError(if is_secret::<S>(key) {
                format!("{place} is not valid; expected {expected}")
            } else {
                format!("{place} is \"{text}\"; expected {expected}")
            })
        })
    }
}

fn secrets<S: Section>() -> impl Iterator<Item = &'static str> {
    SECRETS.iter().chain(S::SECRETS).copied()
}

fn is_secret<S: Section>(key: &str) -> bool {
    secrets::<S>().any(|secret| secret == key)
}

fn find<T>(settings: &'static [Setting<T>], key: &str) -> Option<&'static Setting<T>> {
    settings.iter().find(|setting| setting.key == key)
}

/// The key of every setting.
fn keys<S: Section>() -> impl Iterator<Item = &'static str> {
    let own = S::SETTINGS.iter().map(|setting| setting.key);
    SETTINGS.iter().map(|setting| setting.key).chain(own)
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError(format!(
            "cannot read the configuration file {}: {error}; correct the path after --config, or create the file",
            path.display()
        ))
    })?;
    read_text(&text, path)
}

fn read_text(text: &str, path: &Path) -> Result<Table, ConfigError> {
    text.parse::<Table>().map_err(|error| {
        let why = without_lines(&error.to_string());
        ConfigError(format!("{} is not valid TOML: {why}", path.display()))
    })
}

/// The message of a TOML error, without values and quoted lines of the file (`2 | password = …`): they may contain secrets.
fn without_lines(error: &str) -> String {
    let is_shown = |line: &str| {
        let digit_or_space = |letter: char| letter.is_ascii_digit() || letter == ' ';
        line.trim_start_matches(digit_or_space).starts_with('|')
    };
    // The message of an integer beyond 64 bits quotes the integer.
    let without_value = |line| match line {
        text if str::starts_with(text, "invalid type: integer") => "the integer is too large",
        text => text,
    };
    let said = error.lines().filter(|line| !is_shown(line));
    said.map(without_value).collect::<Vec<_>>().join("; ")
}

fn read_variables(variables: BTreeMap<String, String>) -> Result<Table, ConfigError> {
    let prefix = format!("{VARIABLE_PREFIX}{SEPARATOR}");
    let mut sections = Table::new();
    for (variable_name, value) in variables {
        let Some(path) = variable_name.strip_prefix(&prefix) else {
            continue;
        };
        let (section, key) = path
            .split_once(SEPARATOR)
            .filter(|(_, key)| !key.contains(SEPARATOR))
            .ok_or_else(|| {
                ConfigError(format!(
                    "the environment variable {variable_name} is not a setting; expected \
                     {prefix}SECTION{SEPARATOR}KEY, such as {}",
                    variable("server.listen")
                ))
            })?;
        let entries = sections
            .entry(section.to_lowercase())
            .or_insert_with(|| Table::new().into());
        if let Value::Table(entries) = entries {
            entries.insert(key.to_lowercase(), value.into());
        }
    }
    Ok(sections)
}

/// The environment variable of a setting.
fn variable(key: &str) -> String {
    format!(
        "{VARIABLE_PREFIX}{SEPARATOR}{}",
        key.replace('.', SEPARATOR).to_ascii_uppercase()
    )
}

fn unknown<S: Section>(key: &str, origin: &Origin<'_>) -> ConfigError {
    let section = key.split('.').next().unwrap_or(key);
    let near = keys::<S>().filter(|known| known.split('.').next() == Some(section));
    let mut known = near.collect::<Vec<_>>();
    if known.is_empty() {
        known = keys::<S>().collect();
    }
    let known = match origin {
        Origin::Environment => known
            .into_iter()
            .map(variable)
            .collect::<Vec<_>>()
            .join(", "),
        Origin::File(_) | Origin::Option(_) => known.join(", "),
    };
    ConfigError(format!(
        "{} is not a setting; expected one of: {known}",
        origin.describe(key)
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn from_file(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abide.toml");
        std::fs::write(&path, text).unwrap();
        load(Some(&path), BTreeMap::new(), &Sources::default()).map_err(|error| {
            error
                .to_string()
                .replace(&path.display().to_string(), "abide.toml")
        })
    }

    fn load(
        file: Option<&Path>,
        variables: BTreeMap<String, String>,
        sources: &Sources,
    ) -> Result<Config, ConfigError> {
        gather::<()>(file, variables, sources).map(|(config, ())| config)
    }

    fn from_variable(name: &str, value: &str) -> Result<Config, String> {
        let variables = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        load(None, variables, &Sources::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_any_source_the_defaults_hold() {
        let config = load(None, BTreeMap::new(), &Sources::default()).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(
            config.admin.listen.unwrap().as_str(),
            "127.0.0.1:8081",
            "the admin listener is private"
        );
    }

    #[test]
    fn the_command_line_beats_the_environment_beats_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        std::fs::write(
            &path,
            "[server]\nlisten = \"0.0.0.0:1\"\nmax_connections = 7\nrequest_timeout = \"5s\"\n[data]\ndir = \"a\"\n",
        )
        .unwrap();
        let variables = BTreeMap::from([
            ("ABIDE__SERVER__LISTEN".to_owned(), "0.0.0.0:2".to_owned()),
            ("ABIDE__SERVER__MAX_CONNECTIONS".to_owned(), "8".to_owned()),
            ("HOME".to_owned(), "/root".to_owned()),
        ]);
        let sources = Sources {
            insecure: false,
            take_over: false,
            listen: Some("0.0.0.0:3".to_owned()),
            data: Some("b".into()),
            memory: Some("3GiB".to_owned()),
            file: None,
        };
        let config = load(Some(&path), variables, &sources).unwrap();
        assert_eq!(config.server.listen.as_str(), "0.0.0.0:3");
        assert_eq!(config.server.max_connections, 8);
        assert_eq!(config.server.request_timeout, Duration::from_secs(5));
        assert_eq!(config.data.dir, PathBuf::from("b"));
    }

    #[test]
    fn an_unknown_key_is_refused_and_told_its_neighbours() {
        assert_eq!(
            from_file("[data]\npath = \"x\"\n").unwrap_err(),
            "`data.path` in abide.toml is not a setting; expected one of: data.dir"
        );
        assert!(
            from_file("[sever]\nlisten = \"x\"\n")
                .unwrap_err()
                .starts_with("`sever.listen` in abide.toml")
        );
        assert!(
            from_file("listen = \"x\"\n")
                .unwrap_err()
                .starts_with("`listen` in abide.toml")
        );
        assert!(
            from_file("[server.listen]\nport = 1\n")
                .unwrap_err()
                .contains("`server.listen`")
        );
        assert_eq!(
            from_variable("ABIDE__DATA__PATH", "x").unwrap_err(),
            "the environment variable ABIDE__DATA__PATH is not a setting; expected one of: ABIDE__DATA__DIR"
        );
        assert!(
            from_variable("ABIDE__LISTEN", "1")
                .unwrap_err()
                .contains("ABIDE__SECTION__KEY")
        );
    }

    #[test]
    fn a_bad_value_is_refused_and_told_what_is_allowed() {
        assert_eq!(
            from_variable("ABIDE__SERVER__LISTEN", "8080").unwrap_err(),
            "the environment variable ABIDE__SERVER__LISTEN is \"8080\"; expected an address and a port, such as \
             \"127.0.0.1:8080\" or \"[::]:8080\" (port 0: any free port)"
        );
        assert_eq!(
            from_file("[log]\nformat = \"xml\"\n").unwrap_err(),
            "`log.format` in abide.toml is \"xml\"; expected \"text\" or \"json\""
        );
        assert!(
            from_file("[server]\nmax_connections = [1]\n")
                .unwrap_err()
                .contains("a whole number from 1")
        );
        assert!(
            from_file("[server]\nmax_connections = -1\n")
                .unwrap_err()
                .contains("a whole number from 1")
        );
    }

    #[test]
    fn values_need_no_quotes_and_variables_any_case() {
        assert!(from_file("[log]\naccess = true\n").unwrap().log.access);
        let lower = from_variable("ABIDE__log__Access", "true").unwrap();
        assert!(lower.log.access);
        for value in ["1.5", "1979-05-27"] {
            let told = from_file(&format!("[server]\nmax_connections = {value}\n")).unwrap_err();
            assert!(told.contains(&format!("is \"{value}\"")), "{told}");
        }
    }

    #[test]
    fn a_variable_with_too_many_parts_is_refused() {
        let told = from_variable("ABIDE__SERVER__TLS__KEY", "x").unwrap_err();
        assert!(told.contains("ABIDE__SECTION__KEY"), "{told}");
    }

    #[test]
    fn text_that_is_not_toml_is_refused_with_its_line() {
        let told = from_file("[server]\nlisten = \n").unwrap_err();
        assert!(
            told.starts_with("abide.toml is not valid TOML") && told.contains("line 2"),
            "{told}"
        );
    }

    #[test]
    fn a_named_file_that_is_missing_is_refused() {
        let told = load(
            Some(Path::new("/nowhere/abide.toml")),
            BTreeMap::new(),
            &Sources::default(),
        );
        assert!(
            told.unwrap_err()
                .to_string()
                .contains("cannot read the configuration file /nowhere/abide.toml")
        );
    }

    #[derive(Default, Debug, PartialEq)]
    struct Mail {
        retries: usize,
        password: String,
    }

    impl Section for Mail {
        const SETTINGS: &'static [Setting<Self>] = &[
            Setting {
                key: "mail.retries",
                set: |mail, text| {
                    mail.retries = super::super::value::count(text, 0..=9)?;
                    Ok(())
                },
            },
            Setting {
                key: "mail.password",
                set: |mail, text| {
                    text.clone_into(&mut mail.password);
                    (text.len() > 3).then_some(()).ok_or("more".to_owned())
                },
            },
        ];
        const SECRETS: &'static [&'static str] = &["mail.password"];

        fn check(&self) -> Result<(), String> {
            (self.retries != 7).then_some(()).ok_or("not 7".to_owned())
        }
    }

    #[test]
    fn a_program_s_own_section_is_found_and_refused_like_the_others() {
        let own = |name: &str, value: &str| {
            let variables = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            gather::<Mail>(None, variables, &Sources::default())
                .map(|(_, mail)| mail)
                .map_err(|error| error.to_string())
        };
        assert_eq!(own("ABIDE__MAIL__RETRIES", "3").unwrap().retries, 3);
        assert_eq!(
            own("ABIDE__MAIL__RETRIES", "10").unwrap_err(),
            "the environment variable ABIDE__MAIL__RETRIES is \"10\"; expected a whole number from 0 to 9"
        );
        assert_eq!(
            own("ABIDE__MAIL__RETRY", "3").unwrap_err(),
            "the environment variable ABIDE__MAIL__RETRY is not a setting; \
             expected one of: ABIDE__MAIL__RETRIES, ABIDE__MAIL__PASSWORD"
        );
        assert_eq!(own("ABIDE__MAIL__RETRIES", "7").unwrap_err(), "not 7");
        let told = own("ABIDE__MAIL__PASSWORD", "abc").unwrap_err();
        assert!(
            told.contains("PASSWORD is not valid") && !told.contains("abc"),
            "{told}"
        );
        assert!(
            from_variable("ABIDE__MAIL__RETRIES", "3").is_err(),
            "without the section"
        );
    }

    #[test]
    fn a_secret_can_be_a_file_and_is_in_no_message() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let load = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|(name, value)| (format!("ABIDE__MAIL__{name}"), (*value).to_owned()));
            gather::<Mail>(None, variables.collect(), &Sources::default())
                .map(|(_, mail)| mail.password)
                .map_err(|error| error.to_string())
        };
        let good = file("good", "hunter2\n");
        assert_eq!(load(&[("PASSWORD_FILE", &good)]).unwrap(), "hunter2");
        for (variables, said) in [
            (
                &[("PASSWORD_FILE", &*good), ("PASSWORD", "hunter3")][..],
                "remove one",
            ),
            (&[("PASSWORD_FILE", "/nowhere/x")], "/nowhere/x"),
            (&[("PASSWORD_FILE", &file("short", "abc"))], "is not valid"),
            (
                &[("PASSWORD_FILE", &file("long", &"x".repeat(70_000)))],
                "65536",
            ),
            (&[("RETRIES_FILE", &good)], "is not a setting"),
        ] {
            let told = load(variables).unwrap_err();
            assert!(told.contains(said), "{told}");
            for secret in ["hunter", "abc", "xxx"] {
                assert!(!told.contains(secret), "{told}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_toml_is_refused_without_its_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abide.toml");
        let secrets = ["hunter2", "99999999999999999999"];
        for text in ["\"hunter2", "99999999999999999999"] {
            std::fs::write(&path, format!("[mail]\npassword = {text}\n")).unwrap();
            let refused = gather::<Mail>(Some(&path), BTreeMap::new(), &Sources::default());
            let told = refused.map(drop).unwrap_err().to_string();
            let shows_secret = secrets.iter().any(|secret| told.contains(secret));
            assert!(told.contains("line 2") && !shows_secret, "{told}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let told =
            from_file("[storage]\nsegment_bytes = \"64MiB\"\ncheckpoint_bytes = \"32MiB\"\n")
                .unwrap_err();
        assert!(
            told.contains("raise the first or lower the second"),
            "{told}"
        );
    }

    #[test]
    fn every_setting_is_in_the_manual_with_its_default() {
        let manual = include_str!("../../../../docs/configuration.md");
        for setting in SETTINGS {
            assert!(
                manual.contains(&format!("| `{}`", setting.key)),
                "{} is not in the manual",
                setting.key
            );
            assert!(
                manual.contains(&variable(setting.key)),
                "{} is not in the manual",
                variable(setting.key)
            );
        }
    }

    #[test]
    fn the_manual_s_example_file_loads() {
        let manual = include_str!("../../../../docs/configuration.md");
        let (_, rest) = manual.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let config = from_file(example).unwrap();
        assert_eq!(config, Config::default(), "the example shows the defaults");
    }
}
