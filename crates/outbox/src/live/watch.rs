//! What a watcher wants to be told.

use serde::{Deserialize, Serialize};

use super::log::Position;

/// What a watcher wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watch {
    pub(super) format: Format,
    /// One message alone.
    pub(super) message: Option<i64>,
}

/// The state in a watcher's socket, which survives a reset of the object.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Watcher {
    pub(super) watch: Watch,
    /// True if it has missed a change.
    pub(super) behind: bool,
}

/// Its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Format {
    Json,
    Turbo,
}

impl Watch {
    /// Parses the query of a request, with the place after which a watcher continues; the error says what is valid.
    pub(super) fn of(query: &str) -> Result<(Self, Option<Position>), &'static str> {
        let mut after = None;
        let mut watch = Self {
            format: Format::Json,
            message: None,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("format", "json")) => watch.format = Format::Json,
                Some(("format", "turbo")) => watch.format = Format::Turbo,
                Some(("format", _)) => return Err("`format` is `json` or `turbo`."),
                Some(("message", id)) => {
                    let id = id
                        .parse()
                        .map_err(|_| "`message` is the id of a message.")?;
                    watch.message = Some(id);
                }
                Some(("after", place)) => {
                    let place =
                        Position::parse(place).ok_or("`after` is the `position` of an update.")?;
                    after = Some(place);
                }
                // Proxies and clients may add parameters.
                _ => {}
            }
        }
        Ok((watch, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_which_format_and_which_message() {
        let watch = |format, message| Ok((Watch { format, message }, None));
        assert_eq!(Watch::of(""), watch(Format::Json, None));
        assert_eq!(
            Watch::of("message=7&format=turbo&other"),
            watch(Format::Turbo, Some(7))
        );
        let (_, after) = Watch::of("after=7-3").unwrap();
        assert_eq!(after, Position::parse("7-3"));
        assert!(Watch::of("after=seven").is_err());
        assert!(Watch::of("format=xml").is_err());
        assert!(Watch::of("message=seven").is_err());
    }
}
