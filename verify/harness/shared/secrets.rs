//! Checks a program's secrets: from whatever source they come, and whatever is wrong with them, they never appear in
//! its output or log.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path, process::Output};

use abide_harness::{Program, Server, refused};

/// A marker in every secret value, which must not be shown.
pub(crate) const MARK: &str = "hunter2";
/// The same in base64, for keys in base64.
pub(crate) const MARK_BASE64: &str = "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==";

/// A secret of a program, and its sources.
#[derive(Clone, Copy)]
pub(crate) struct Secret {
    /// The option, with its dashes. The option of its file ends with `-file`. None for a setting without an option.
    pub(crate) option: Option<&'static str>,
    /// The variable. The variable of its file ends with `_FILE`.
    pub(crate) variable: &'static str,
    /// A valid value.
    pub(crate) good: &'static str,
    /// Invalid values; none if any text is valid.
    pub(crate) bad: &'static [&'static str],
    /// Other arguments that the program then needs.
    pub(crate) beside: &'static [&'static str],
}

/// A source of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Option,
    OptionFile,
    Variable,
    VariableFile,
}

impl Secret {
    fn places(&self) -> Vec<Place> {
        let options = self.option.map(|_| [Place::Option, Place::OptionFile]);
        let mut places = options.map_or_else(Vec::new, Vec::from);
        places.extend([Place::Variable, Place::VariableFile]);
        places
    }

    /// The program with this value of the secret.
    fn given(&self, program: Program, place: Place, value: &str) -> Program {
        let beside = program.data().parent().unwrap().to_owned();
        let file = beside.join("secret");
        let mut made = OpenOptions::new();
        let made = made.write(true).create(true).truncate(true).mode(0o600);
        let mut made = made.open(&file).unwrap();
        writeln!(made, "{value}").unwrap();
        let file = file.to_str().unwrap();
        let option = self.option.unwrap_or_default();
        let program = self
            .beside
            .iter()
            .fold(program, |program, text| program.arg(text));
        match place {
            Place::Option => program.arg(&format!("{option}={value}")),
            Place::OptionFile => program.arg(&format!("{option}-file")).arg(file),
            Place::Variable => program.env(self.variable, value),
            Place::VariableFile => program.env(&format!("{}_FILE", self.variable), file),
        }
    }
}

/// Checks the secrets of a program. `program` creates it with a data directory, and `used` makes a server use each of
/// its secrets.
pub(crate) async fn walk(
    program: impl Fn(&Path) -> Program,
    secrets: &[Secret],
    used: impl AsyncFn(&Server),
) {
    for secret in secrets {
        for place in secret.places() {
            let told = format!("{} {place:?}", secret.variable);
            let dir = tempfile::tempdir().unwrap();
            let fresh = || program(&dir.path().join("data"));
            let given = |value: &str| secret.given(fresh(), place, value);
            for help in ["--help", "-h"] {
                let shown = text(&given(secret.good).arg(help).command().output().unwrap());
                assert!(shown.contains("Usage"), "{told}: {shown}");
                must_hide(&shown, &format!("{told} {help}"));
                if let Some(option) = secret.option {
                    let file = format!("{option}-file");
                    assert!(shown.contains(&file), "{told}: {shown}");
                }
            }
            for bad in secret.bad {
                let (status, said) = refused(given(bad).command());
                assert!(!status.success(), "{told} takes {bad}");
                must_hide(&said, &told);
            }
            if matches!(place, Place::OptionFile | Place::VariableFile) {
                let absent = dir.path().join("absent");
                let program = match place {
                    Place::OptionFile => secret.given(fresh(), Place::Option, secret.good),
                    _ => secret.given(fresh(), Place::Variable, secret.good),
                };
                let absent = absent.to_str().unwrap();
                let program = match place {
                    Place::OptionFile => {
                        let option = secret.option.unwrap_or_default();
                        program.arg(&format!("{option}-file")).arg(absent)
                    }
                    _ => program.env(&format!("{}_FILE", secret.variable), absent),
                };
                // Both sources at once, or a missing one.
                let (status, said) = refused(program.command());
                assert!(!status.success(), "{told} was given twice");
                must_hide(&said, &told);
            }
            let log = dir.path().join("log");
            let program = given(secret.good)
                .env("ABIDE__LOG__LEVEL", "trace")
                .env("ABIDE__LOG__ACCESS", "true")
                .env("RUST_BACKTRACE", "1")
                .log_to(&log);
            let server = program.start();
            used(&server).await;
            server.stop();
            let logged = std::fs::read_to_string(&log).unwrap();
            assert!(logged.contains("TRACE"), "{told}: the log says too little");
            must_hide(&logged, &told);
        }
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(both).unwrap()
}

/// Panics if the text contains a secret, or a part of one.
fn must_hide(text: &str, whose: &str) {
    for mark in [MARK, &MARK_BASE64[..12]] {
        let line = text.lines().find(|line| line.contains(mark));
        assert_eq!(line, None, "{whose} is shown");
    }
}
