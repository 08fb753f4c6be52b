//! The address of a server, and its connection options.

use std::{env, fs, path::Path, str::FromStr};

use percent_encoding::percent_decode_str;
use tokio_postgres::{Config, config::SslMode};

use crate::{Tls, tls::Trust};

/// Where a server is, and how to connect to it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "the caller takes it apart")]
pub struct Address {
    /// What the client knows of it.
    pub config: Config,
    /// The TLS that `config` asks for.
    pub tls: Tls,
}

/// Why a text is no address. Does not contain the text, which may have a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(String);

/// Parameters that are parsed here and not by the client: it knows neither `verify-full` nor files.
#[derive(Default)]
struct Own {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
    passfile: Option<String>,
}

impl Address {
    /// Parses a text of keys and values such as `host=db user=abide dbname=abide`, or a URL such as `postgresql://abide@db/abide`. Reads
    /// the files that it names, and the certificates that the machine trusts if they are needed.
    ///
    /// # Errors
    /// The text names no server, or has an unknown key or value; a file cannot be read.
    pub fn new(text: &str) -> Result<Self, AddressError> {
        Self::read(text, env::var("PGPASSWORD").ok())
    }

    /// The same. `password` is used if the text has none.
    fn read(text: &str, password: Option<String>) -> Result<Self, AddressError> {
        let mut own = Own::default();
        let rest = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            own.take_from_url(text)
        } else {
            own.take_from_pairs(text)
        };
        // The text may contain a password, and the parser's error may quote it.
        let config = rest.and_then(|rest| Config::from_str(&rest).ok());
        let mut config = config.ok_or_else(|| {
            AddressError(
                "the text says no server: one looks like `host=127.0.0.1 user=abide dbname=billing`, \
                 where a password with spaces or quotes stands in '…'"
                    .to_owned(),
            )
        })?;
        let file = own.sslrootcert.as_deref().map(Path::new);
        let authorities = file.map_or(Trust::Machine, Trust::File);
        let (mode, trust) = match own.sslmode.as_deref() {
            // Without a host name the client would make no TLS connection, and no other.
            None if config.get_hosts().is_empty() => (SslMode::Disable, Trust::Any),
            None | Some("prefer") => (SslMode::Prefer, Trust::Any),
            Some("disable") => (SslMode::Disable, Trust::Any),
            Some("require") => (SslMode::Require, Trust::Any),
            Some("verify-full") => (SslMode::Require, authorities),
            Some(_) => {
                return Err(AddressError(
                    "sslmode must be `disable`, `prefer`, `require` or `verify-full`".to_owned(),
                ));
            }
        };
        if file.is_some() && trust == Trust::Any {
            return Err(AddressError(
                "sslrootcert is only used with sslmode=verify-full: set that, or remove it"
                    .to_owned(),
            ));
        }
        config.ssl_mode(mode);
        if config.get_password().is_none() {
            let of_file = own.passfile.map(|file| {
                fs::read_to_string(&file).map_err(|error| {
                    AddressError(format!("the passfile {file} cannot be read: {error}"))
                })
            });
            let of_file = of_file.transpose()?;
            if let Some(password) = of_file.or(password) {
                config.password(password.trim_end_matches(['\n', '\r']));
            }
        }
        let tls = Tls::new(trust).map_err(AddressError)?;
        Ok(Self { config, tls })
    }
}

impl Own {
    /// True if it is a key that is parsed here.
    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.sslmode = Some(value.to_owned()),
            "sslrootcert" => self.sslrootcert = Some(value.to_owned()),
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
        for (mode, expected) in [
            ("", SslMode::Prefer),
            ("prefer", SslMode::Prefer),
            ("disable", SslMode::Disable),
            ("require", SslMode::Require),
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
                let Address { config, .. } = read(text);
                assert_eq!(config.get_ssl_mode(), expected, "{text}");
                assert_eq!(config.get_user(), Some("b"));
                assert_eq!(config.get_password(), Some(&b"c d"[..]));
            }
        }
        let refused = Address::read("host=a sslmode=verify-ca", None).map(|_| ());
        assert!(refused.unwrap_err().to_string().contains("verify-full"));
    }

    #[test]
    fn a_file_names_those_who_may_vouch_for_a_server() {
        let dir = tempfile::tempdir().unwrap();
        let [good, empty] = ["good", "empty"].map(|name| dir.path().join(name));
        let own = rcgen::generate_simple_self_signed(vec!["db".to_owned()]).unwrap();
        fs::write(&good, own.cert.pem()).unwrap();
        fs::write(&empty, "").unwrap();
        let verified = |file: &Path| {
            let file = file.display();
            format!("host=db sslmode=verify-full sslrootcert='{file}'")
        };
        let config = read(&verified(&good)).config;
        assert_eq!(config.get_ssl_mode(), SslMode::Require);
        for (text, part) in [
            (verified(&empty), "it has none in PEM"),
            (verified(&dir.path().join("missing")), "cannot be read"),
            (
                verified(&good).replace("verify-full", "require"),
                "verify-full",
            ),
        ] {
            let refused = Address::read(&text, None).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
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
