//! Conversions of texts from other sources.

use std::{any::Any, fmt::Display};

/// The message of a panic.
pub fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// An error as a sentence.
pub fn sentence(error: &impl Display) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first
        .into_iter()
        .flatten()
        .chain(chars)
        .chain(['.'])
        .collect()
}

/// Truncates the text to a number of bytes.
pub fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_begins_with_a_capital_and_ends_with_a_full_stop() {
        assert_eq!(sentence(&"there is no timer `a`"), "There is no timer `a`.");
        assert_eq!(sentence(&"über"), "Über.");
        assert_eq!(sentence(&""), ".");
    }
}
