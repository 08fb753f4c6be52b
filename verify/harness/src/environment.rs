//! The environment of child processes: that of the test, without what a developer's machine adds.

use std::{env, path::Path, process::Command};

/// Variables that change what programs and tools do.
const VARIABLES: &[&str] = &[
    "ABIDE_TOKEN",
    "ALL_PROXY",
    "BASH_ENV",
    "CURL_HOME",
    "ENV",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "PGPASSWORD",
    "RUST_LOG",
    "XDG_CONFIG_HOME",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Runs a command without this machine's settings, proxies and locale, and with another home directory, so that
/// tools find no settings of the developer there, such as `.curlrc`.
pub fn neutral<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    for (name, _) in env::vars_os() {
        let is_setting = name.to_string_lossy().starts_with("ABIDE__");
        if is_setting || VARIABLES.iter().any(|known| name == *known) {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", home)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
}
