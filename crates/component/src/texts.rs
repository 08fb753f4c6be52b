//! Conversions of texts from other sources.

use std::{any::Any, fmt::Display};

use sha2::{Digest, Sha256};

/// A panic of a program's code, in two forms.
#[derive(Debug)]
pub struct Panicked<'a> {
    /// Its message, for the log alone: it may contain anything.
    pub text: &'a str,
    /// What is stored and may reach clients: a sentence with a mark of the message. The log line contains it, so that an
    /// operator who reads it in a record finds the message.
    pub shown: String,
}

impl<'a> Panicked<'a> {
    /// A panic of this part of a program, such as "the handler".
    pub fn new(what: &str, panic: &'a (dyn Any + Send)) -> Self {
        let text = text_of(panic);
        let digest = Sha256::digest(text);
        let mark = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        Self {
            text,
            shown: format!("{what} panicked; the log has its message, as panic {mark:08x}"),
        }
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
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
        .chain((!text.ends_with('.')).then_some('.'))
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
    fn a_panic_is_shown_without_its_message() {
        let shown = |panic: Box<dyn Any + Send>| Panicked::new("the handler", &*panic).shown;
        let secret = shown(Box::new("a secret"));
        assert!(secret.starts_with("the handler panicked; "), "{secret}");
        assert!(!secret.contains("secret"), "{secret}");
        assert_eq!(secret, shown(Box::new("a secret".to_owned())));
        assert_ne!(secret, shown(Box::new("another")));
        let panic: Box<dyn Any + Send> = Box::new("a secret");
        assert_eq!(Panicked::new("it", &*panic).text, "a secret");
    }

    #[test]
    fn a_sentence_begins_with_a_capital_and_ends_with_a_full_stop() {
        assert_eq!(sentence(&"there is no timer `a`"), "There is no timer `a`.");
        assert_eq!(sentence(&"über"), "Über.");
        assert_eq!(
            sentence(&"it is full. Try later."),
            "It is full. Try later."
        );
        assert_eq!(sentence(&""), ".");
    }
}
