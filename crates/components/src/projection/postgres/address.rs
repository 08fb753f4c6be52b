//! The address of a `PostgreSQL` server, and its connection options.

use std::{fs, str::FromStr};

use percent_encoding::percent_decode_str;
use tokio_postgres::{Config, config::SslMode};

use super::tls::Verify;
use crate::projection::ProjectionError;

/// A parsed connection string.
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) verify: Verify,
}

/// Parameters that are parsed here and not by the client: it knows neither `verify-full` nor files.
#[derive(Default)]
struct Own {
    sslmode: Option<String>,
    passfile: Option<String>,
}

impl Address {
    /// Parses a text of keys and values, or a URL. `password` is used if the text has none.
    pub(super) fn read(text: &str, password: Option<String>) -> Result<Self, ProjectionError> {
        let mut own = Own::default();
        let rest = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            own.take_from_url(text)
        } else {
            own.take_from_pairs(text)
        };
        // The text may contain a password, and the parser's error may quote it.
        let config = rest.and_then(|rest| Config::from_str(&rest).ok());
        let mut config = config.ok_or_else(|| {
            ProjectionError::Invalid(
                "the text says no server: one looks like `host=127.0.0.1 user=abide dbname=billing`, \
                 where a password with spaces or quotes stands in '…'"
                    .to_owned(),
            )
        })?;
        let (mode, verify) = match own.sslmode.as_deref() {
            // Without a host name the client would make no TLS connection, and no other.
            None if config.get_hosts().is_empty() => (SslMode::Disable, Verify::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Verify::Nothing),
            Some("disable") => (SslMode::Disable, Verify::Nothing),
            Some("require") => (SslMode::Require, Verify::Nothing),
            Some("verify-full") => (SslMode::Require, Verify::Full),
            Some(_) => {
                return Err(ProjectionError::Invalid(
                    "sslmode must be `disable`, `prefer`, `require` or `verify-full`".to_owned(),
                ));
            }
        };
        config.ssl_mode(mode);
        if config.get_password().is_none() {
            let of_file = own.passfile.map(|file| {
                fs::read_to_string(&file).map_err(|error| {
                    ProjectionError::Invalid(format!("the passfile {file} cannot be read: {error}"))
                })
            });
            let of_file = of_file.transpose()?;
            if let Some(password) = of_file.or(password) {
                config.password(password.trim_end_matches(['\n', '\r']));
            }
        }
        Ok(Self { config, verify })
    }
}

impl Own {
    /// True if it is a key that is parsed here.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "passfile" => self.passfile = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// The URL without the parameters that are parsed here.
    fn take_from_url(&mut self, url: &str) -> Option<String> {
        let Some((server, query)) = url.split_once('?') else {
            return Some(url.to_owned());
        };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8().ok()?;
            if !self.take(key, &value) {
                rest.push(pair);
            }
        }
        match rest.as_slice() {
            [] => Some(server.to_owned()),
            rest => Some(format!("{server}?{}", rest.join("&"))),
        }
    }

    /// The pairs without those that are parsed here. `None` if the text does not consist of pairs.
    fn take_from_pairs(&mut self, text: &str) -> Option<String> {
        let mut rest = String::new();
        let mut left = text.trim_start();
        while !left.is_empty() {
            let (key, after) = left.split_once('=')?;
            let after = after.trim_start();
            let (value, length) = value_of(after)?;
            let pair = &left[..left.len() - after.len() + length];
            if !self.take(key.trim(), &value) {
                rest.push_str(pair);
                rest.push(' ');
            }
            left = after[length..].trim_start();
        }
        Some(rest)
    }
}

/// The value at the beginning of a text, and its length in bytes.
fn value_of(text: &str) -> Option<(String, usize)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.push(characters.next()?.1),
            '\'' if quoted => return Some((value, at + 1)),
            space if !quoted && space.is_whitespace() => return Some((value, at)),
            other => value.push(other),
        }
    }
    (!quoted).then_some((value, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        Address::read(text, Some("of the environment".to_owned())).unwrap()
    }

    #[test]
    fn modes_are_read_from_pairs_and_from_urls() {
        for (mode, expected, verify) in [
            ("", SslMode::Prefer, Verify::Nothing),
            ("prefer", SslMode::Prefer, Verify::Nothing),
            ("disable", SslMode::Disable, Verify::Nothing),
            ("require", SslMode::Require, Verify::Nothing),
            ("verify-full", SslMode::Require, Verify::Full),
        ] {
            let pair = if mode.is_empty() {
                String::new()
            } else {
                format!("sslmode={mode}")
            };
            for text in [
                format!("host=a {pair} user=b password='c d'"),
                format!(
                    "host = a user=b password = 'c d' {}",
                    pair.replace('=', " = ")
                ),
                format!("postgresql://b:c%20d@a?{pair}"),
                format!("postgres://b:c%20d@a?connect_timeout=3&{pair}"),
            ] {
                let text = text.trim_end_matches(['&', '?']);
                let Address {
                    config,
                    verify: told,
                } = read(text);
                assert_eq!((config.get_ssl_mode(), told), (expected, verify), "{text}");
                assert_eq!(config.get_user(), Some("b"));
                assert_eq!(config.get_password(), Some(&b"c d"[..]));
            }
        }
        let refused = Address::read("host=a sslmode=verify-ca", None).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains("verify-full"));
    }

    #[test]
    fn a_password_comes_from_the_text_then_a_file_then_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        fs::write(&file, "of the file\n").unwrap();
        let file = file.display();
        for (text, expected) in [
            (format!("host=a password=x passfile={file}"), "x"),
            (format!("host=a passfile='{file}'"), "of the file"),
            (format!("postgres://a/b?passfile={file}"), "of the file"),
            ("host=a".to_owned(), "of the environment"),
        ] {
            let address = read(&text);
            assert_eq!(address.config.get_password(), Some(expected.as_bytes()));
            assert!(!format!("{:?}", address.config).contains(expected));
        }
        let refused = Address::read("host=a passfile=/nowhere/x", None).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains("/nowhere/x"));
    }
}
