//! Texts that others have written.

use std::any::Any;

/// What a panic says.
pub fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The text without what is beyond so many bytes.
pub fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}
