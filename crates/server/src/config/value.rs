//! Parses one value.
//!
//! Every function takes the text from the file, variable or option and returns the value, or what is allowed, as the
//! end of the sentence "expected …".

use std::{ops::RangeInclusive, time::Duration};

use abide_runtime::socket::SlowReader;
use tracing_subscriber::filter::Targets;

use super::{
    ClusterAddress, ConnectionsPerClient, ListenAddress, LogFormat, Replication, StoreAccess,
};
use crate::{
    AddressBlock, AllowPrivate, ForwardedHeader, RequestHost, limits,
    site::{Hosts, Origin, Origins},
};

/// The end of the sentence "expected …".
pub(super) type Expected = String;

pub(super) fn listen(text: &str) -> Result<ListenAddress, Expected> {
    let fits = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
    });
    if fits {
        Ok(ListenAddress(text.to_owned()))
    } else {
        Err("an address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\" (port 0: any free port)".to_owned())
    }
}

pub(super) fn listen_or_off(text: &str) -> Result<Option<ListenAddress>, Expected> {
    if text == "off" {
        return Ok(None);
    }
    listen(text)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"off\""))
}

/// A duration with its unit, such as `500ms`, `30s`, `5m`, `1h` or `7d`.
pub fn duration(text: &str, allowed: RangeInclusive<Duration>) -> Result<Duration, Expected> {
    let parsed = split_unit(text).and_then(|(number, unit)| {
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        number.checked_mul(millis).map(Duration::from_millis)
    });
    parsed
        .filter(|value| allowed.contains(value))
        .ok_or_else(|| {
            format!(
                "a duration from {} to {}, such as \"500ms\", \"30s\", \"5m\" or \"1h\"",
                show_duration(*allowed.start()),
                show_duration(*allowed.end())
            )
        })
}

/// A [`duration`], or `off`.
pub fn duration_or_off(
    text: &str,
    allowed: RangeInclusive<Duration>,
) -> Result<Option<Duration>, Expected> {
    if text == "off" {
        return Ok(None);
    }
    duration(text, allowed)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"off\""))
}

pub(super) fn hosts(text: &str) -> Result<Hosts, Expected> {
    if text == "any" {
        return Ok(Hosts::Any);
    }
    words_or_off(text)
        .filter(|names| names.iter().all(|name| is_host(name)))
        .map(Hosts::Named)
        .ok_or_else(|| {
            "\"off\", \"any\", or host names without ports, such as \"abide.example.com\" or \"*.example.com\"".to_owned()
        })
}

fn is_host(name: &str) -> bool {
    let name = name.strip_prefix("*.").unwrap_or(name);
    let host = name.parse::<RequestHost>();
    host.is_ok_and(|host| host.port().is_none() && host.name().eq_ignore_ascii_case(name))
}

pub(super) fn origins(text: &str) -> Result<Origins, Expected> {
    if text == "any" {
        return Ok(Origins::Any);
    }
    words_or_off(text)
        .filter(|origins| origins.iter().all(|origin| Origin::parse(origin).is_some()))
        .map(Origins::Named)
        .ok_or_else(|| {
            "\"off\", \"any\", or origins, such as \"https://app.example.com\"".to_owned()
        })
}

/// Words separated by spaces; none for `off`.
fn words_or_off(text: &str) -> Option<Vec<String>> {
    if text == "off" {
        return Some(Vec::new());
    }
    let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

/// Whether it is the URL of a store that can be reached is checked at the start.
pub(super) fn url_or_off(text: &str) -> Result<Option<String>, Expected> {
    match text {
        "off" => Ok(None),
        _ if text.contains("://") => Ok(Some(text.to_owned())),
        _ => Err(
            "\"off\", or a URL such as \"s3://bucket/prefix\" or \"file:///mnt/backup\"".to_owned(),
        ),
    }
}

pub(super) fn url_or_auto(text: &str) -> Result<Option<String>, Expected> {
    match text {
        "auto" => Ok(None),
        _ if is_base(text) => Ok(Some(text.trim_end_matches('/').to_owned())),
        _ => Err("\"auto\", or a URL such as \"https://node1.example.com\"".to_owned()),
    }
}

/// Whether requests can be sent below it.
fn is_base(text: &str) -> bool {
    let parsed: Result<http::Uri, _> = text.parse();
    parsed.is_ok_and(|uri| {
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority().map_or("", |of| of.as_str());
        is_http && !authority.contains('@') && uri.query().is_none()
    })
}

pub(super) fn address_or_off(text: &str) -> Result<Option<ClusterAddress>, Expected> {
    match text {
        "off" => Ok(None),
        "" => Err(
            "\"off\", or an address such as \"host=db1,db2 user=abide dbname=abide\"".to_owned(),
        ),
        _ => Ok(Some(ClusterAddress(text.to_owned()))),
    }
}

pub(super) fn replication(text: &str) -> Result<Replication, Expected> {
    match text {
        "standby" => Ok(Replication::Standby),
        "none" => Ok(Replication::None),
        _ => Err("\"standby\" or \"none\"".to_owned()),
    }
}

pub(super) fn store_access(text: &str) -> Result<StoreAccess, Expected> {
    let options = words_or_off(text).and_then(|words| {
        let pairs = words.iter().map(|word| word.split_once('='));
        let pairs = pairs.map(|pair| pair.map(|(name, value)| (name.to_owned(), value.to_owned())));
        pairs.collect::<Option<_>>()
    });
    options.map(StoreAccess).ok_or_else(|| {
        "\"off\", or names and values with spaces between, such as \"region=eu-central-1 \
         endpoint=https://s3.example.com\""
            .to_owned()
    })
}

pub(super) fn slow_reader(text: &str) -> Result<SlowReader, Expected> {
    match text {
        "close" => Ok(SlowReader::Close),
        "drop-newest" => Ok(SlowReader::DropNewest),
        _ => Err("\"close\" or \"drop-newest\"".to_owned()),
    }
}

/// A number of bytes, with or without a unit: `512KiB`, `64MiB`, `1GiB`.
pub fn bytes(text: &str, allowed: RangeInclusive<u64>) -> Result<u64, Expected> {
    let parsed = split_unit(text).and_then(|(number, unit)| {
        let factor = match unit {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        number.checked_mul(factor)
    });
    parsed
        .filter(|value| allowed.contains(value))
        .ok_or_else(|| {
            format!(
                "a size from {} to {}, such as 1048576, \"512KiB\", \"64MiB\" or \"1GiB\"",
                show_bytes(*allowed.start()),
                show_bytes(*allowed.end())
            )
        })
}

pub(super) fn bytes_or_auto(
    text: &str,
    allowed: RangeInclusive<u64>,
) -> Result<Option<u64>, Expected> {
    if text == "auto" {
        return Ok(None);
    }
    bytes(text, allowed)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"auto\""))
}

pub(super) fn bytes_or_off(
    text: &str,
    allowed: RangeInclusive<u64>,
) -> Result<Option<u64>, Expected> {
    if text == "off" {
        return Ok(None);
    }
    bytes(text, allowed)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"off\""))
}

/// `true` or `false`.
pub fn switch(text: &str) -> Result<bool, Expected> {
    text.parse().map_err(|_| "true or false".to_owned())
}

/// A whole number.
pub fn count(text: &str, allowed: RangeInclusive<usize>) -> Result<usize, Expected> {
    text.parse()
        .ok()
        .filter(|value| allowed.contains(value))
        .ok_or_else(|| {
            format!(
                "a whole number from {} to {}",
                allowed.start(),
                allowed.end()
            )
        })
}

pub(super) fn count_or_auto(
    text: &str,
    allowed: RangeInclusive<usize>,
) -> Result<Option<usize>, Expected> {
    if text == "auto" {
        return Ok(None);
    }
    count(text, allowed)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"auto\""))
}

pub(super) fn count_or_off(
    text: &str,
    allowed: RangeInclusive<usize>,
) -> Result<Option<usize>, Expected> {
    if text == "off" {
        return Ok(None);
    }
    count(text, allowed)
        .map(Some)
        .map_err(|expected| format!("{expected}, or \"off\""))
}

pub(super) fn connections_per_client(text: &str) -> Result<ConnectionsPerClient, Expected> {
    match text {
        "auto" => Ok(ConnectionsPerClient::Auto),
        "off" => Ok(ConnectionsPerClient::Unlimited),
        number => count(number, 1..=limits::MAX_CONNECTIONS_CEILING)
            .map(ConnectionsPerClient::AtMost)
            .map_err(|expected| format!("{expected}, \"auto\" or \"off\"")),
    }
}

pub(super) fn proxies(text: &str) -> Result<Vec<AddressBlock>, Expected> {
    let blocks = words_or_off(text).unwrap_or_default();
    let read: Result<Vec<_>, _> = blocks.iter().map(|block| block.parse()).collect();
    read.ok()
        .filter(|read| !read.is_empty() || text == "off")
        .ok_or_else(|| {
            "\"off\", or addresses and blocks of addresses with spaces between, such as \"127.0.0.1 10.0.0.0/8\""
                .to_owned()
        })
}

pub(super) fn forwarded_header(text: &str) -> Result<ForwardedHeader, Expected> {
    match text.to_ascii_lowercase().as_str() {
        "x-forwarded-for" => Ok(ForwardedHeader::XForwardedFor),
        "forwarded" => Ok(ForwardedHeader::Forwarded),
        _ => Err("\"x-forwarded-for\" or \"forwarded\"".to_owned()),
    }
}

pub(super) fn private_addresses(text: &str) -> Result<AllowPrivate, Expected> {
    text.parse().map_err(|()| {
        "true, false, or addresses and blocks of addresses, such as \"10.0.0.0/8, 127.0.0.1\""
            .to_owned()
    })
}

pub(super) fn log_level(text: &str) -> Result<String, Expected> {
    if !text.trim().is_empty() && text.parse::<Targets>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err(
            "\"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or directives such as \
             \"warn,abide_runtime=debug\""
                .to_owned(),
        )
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Expected> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("\"text\" or \"json\"".to_owned()),
    }
}

pub(super) fn file_or_off(text: &str) -> Result<Option<std::path::PathBuf>, Expected> {
    match text {
        "" => Err("the path of a file, or \"off\"".to_owned()),
        "off" => Ok(None),
        path => Ok(Some(path.into())),
    }
}

pub(super) fn directory(text: &str) -> Result<std::path::PathBuf, Expected> {
    if text.is_empty() {
        Err("the path of a directory".to_owned())
    } else {
        Ok(text.into())
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

fn show_duration(value: Duration) -> String {
    let millis = value.as_millis();
    match millis {
        _ if millis != 0 && millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis != 0 && millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        _ => format!("{millis}ms"),
    }
}

fn show_bytes(value: u64) -> String {
    match value {
        _ if value != 0 && value.is_multiple_of(1 << 30) => format!("{}GiB", value >> 30),
        _ if value != 0 && value.is_multiple_of(1 << 20) => format!("{}MiB", value >> 20),
        _ if value != 0 && value.is_multiple_of(1 << 10) => format!("{}KiB", value >> 10),
        _ => format!("{value} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_read_their_units() {
        let any_time = Duration::ZERO..=Duration::from_hours(10);
        assert_eq!(
            duration("1500ms", any_time.clone()),
            Ok(Duration::from_millis(1_500))
        );
        assert_eq!(duration("5m", any_time.clone()), Ok(Duration::from_mins(5)));
        assert!(
            duration("5", any_time.clone()).is_err(),
            "a duration without a unit is a guess"
        );
        assert!(duration("99999999999999999999h", any_time).is_err());
        assert_eq!(bytes("64MiB", 0..=1 << 40), Ok(64 << 20));
        assert_eq!(bytes("4096", 0..=1 << 40), Ok(4096));
        assert!(bytes("64MB", 0..=1 << 40).is_err(), "MB means two things");
    }

    #[test]
    fn a_value_out_of_range_is_told_the_range() {
        let told = duration("0s", Duration::from_millis(100)..=Duration::from_hours(1));
        assert_eq!(
            told,
            Err(
                "a duration from 100ms to 1h, such as \"500ms\", \"30s\", \"5m\" or \"1h\""
                    .to_owned()
            )
        );
        assert_eq!(
            count("0", 1..=8),
            Err("a whole number from 1 to 8".to_owned())
        );
    }

    #[test]
    fn addresses_need_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "[::1]:8080", "localhost:80"] {
            assert!(listen(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "8080",
            ":8080",
            "localhost",
            "localhost:http",
            "http://localhost:80",
            "127.0.0.1:70000",
        ] {
            assert!(listen(bad).is_err(), "{bad}");
        }
        assert_eq!(listen_or_off("off"), Ok(None));
    }
}
