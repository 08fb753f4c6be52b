//! Formats values for a line of a listing.

use abide::Timestamp;

/// Texts come from clients; a control character must not reach a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, letter| {
        match letter {
            '"' | '\'' => shown.push(letter),
            _ => shown.extend(letter.escape_debug()),
        }
        shown
    })
}

/// A time in milliseconds since 1970, formatted as RFC 3339.
pub(crate) fn time(millis: Option<i64>) -> String {
    millis.map_or_else(
        || "-".to_owned(),
        |millis| Timestamp::from_unix_millis(millis).to_string(),
    )
}
