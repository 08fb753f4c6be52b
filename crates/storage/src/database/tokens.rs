//! The tokens of an SQL text, where SQLite's tokenizer finds them, as far as the ends of statements and their first words
//! depend on them.

/// A token. Blanks and comments are none, and neither is a byte order mark, which SQLite takes for a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Semicolon,
    /// A keyword, or a name without quotes.
    Word(&'a str),
    /// Stands for a value that is bound.
    Parameter,
    Other,
}

/// The tokens of a text that has no NUL character, with their places.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.bytes()[self.at..];
            self.at += match rest {
                // A vertical tab is a blank only behind another one.
                [b' ' | b'\t' | b'\n' | b'\x0C' | b'\r', ..] => {
                    rest.iter().take_while(|byte| is_space(**byte)).count()
                }
                [b'-', b'-', ..] => rest.iter().take_while(|byte| **byte != b'\n').count(),
                // At the end of the text, SQLite takes `/*` for a division.
                [b'/', b'*', _, ..] => past(rest, 2, b"*/"),
                _ if rest.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
                _ => return,
            };
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    /// The token, and where it begins and ends.
    type Item = (Token<'a>, usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_blanks();
        let rest = &self.bytes()[self.at..];
        let (token, length) = match *rest.first()? {
            b';' => (Token::Semicolon, 1),
            // A quote in quotes is doubled: to find the end, two tokens are as good as one.
            quote @ (b'\'' | b'"' | b'`') => (Token::Other, past(rest, 1, &[quote])),
            b'[' => (Token::Other, past(rest, 1, b"]")),
            b'?' => (Token::Parameter, 1),
            b'$' | b'@' | b':' | b'#' => (Token::Parameter, parameter(rest)),
            byte if is_of_word(byte) => {
                let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
                let word = self.text.get(self.at..self.at + length);
                (Token::Word(word.unwrap_or_default()), length)
            }
            _ => (Token::Other, 1),
        };
        let begin = self.at;
        self.at += length;
        Some((token, begin, self.at))
    }
}

/// The length up to the end of `last`, which is looked for from `from` on, or to the end of the text.
fn past(text: &[u8], from: usize, last: &[u8]) -> usize {
    let found = text[from..]
        .windows(last.len())
        .position(|place| place == last);
    found.map_or(text.len(), |found| from + found + last.len())
}

/// The length of a named parameter. SQLite lets the name have parts, `$a::b`, and end with anything in parentheses.
fn parameter(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match text[at..] {
            [byte, ..] if is_of_word(byte) => at += 1,
            [b':', b':', ..] => at += 2,
            [b'(', ..] if at > 1 => {
                let ends = |byte: &u8| *byte == b')' || is_space(*byte);
                let within = text[at..].iter().position(ends);
                return within.map_or(text.len(), |within| at + within + 1);
            }
            _ => return at,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns whether a byte can be part of a name without quotes.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}
