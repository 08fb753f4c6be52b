//! Codes that people read from one screen and type on another.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// Characters that are not mixed up with each other: 0, 1, 8, B, C, I and O are missing.
const ALPHABET: &[u8; 29] = b"2345679ADEFGHJKLMNPQRSTUVWXYZ";

/// Characters of a code. There are 707,281 codes.
const LENGTH: usize = 4;

/// A code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code([u8; LENGTH]);

/// A text is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("A code has 4 of the characters 2345679ADEFGHJKLMNPQRSTUVWXYZ.")]
pub struct NoCode;

impl Code {
    /// An unpredictable code; each is as likely as any other.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut code = [0; LENGTH];
        for place in &mut code {
            *place = loop {
                let mut byte = [0];
                getrandom::fill(&mut byte)?;
                // Five bits have 32 values: three are drawn again.
                if let Some(character) = ALPHABET.get(usize::from(byte[0] & 31)) {
                    break *character;
                }
            };
        }
        Ok(Self(code))
    }
}

impl FromStr for Code {
    type Err = NoCode;

    /// Lower case will do, as phones write it.
    fn from_str(text: &str) -> Result<Self, NoCode> {
        let code = text.trim().to_ascii_uppercase();
        let code: [u8; LENGTH] = code.as_bytes().try_into().map_err(|_| NoCode)?;
        if code.iter().all(|character| ALPHABET.contains(character)) {
            return Ok(Self(code));
        }
        Err(NoCode)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|character| write!(f, "{}", char::from(*character)))
    }
}

/// Where the hub has codes from: [`Code::random`], unless a test says otherwise.
pub struct Codes(Box<dyn Fn() -> Result<Code, getrandom::Error> + Send + Sync>);

impl Codes {
    /// Another source.
    pub fn new(source: impl Fn() -> Code + Send + Sync + 'static) -> Self {
        Self(Box::new(move || Ok(source())))
    }

    pub(crate) fn next(&self) -> Result<Code, getrandom::Error> {
        (self.0)()
    }
}

impl Default for Codes {
    fn default() -> Self {
        Self(Box::new(Code::random))
    }
}

impl fmt::Debug for Codes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Codes(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_four_characters_of_the_alphabet_in_either_case() {
        assert_eq!(
            "a2Zy".parse::<Code>().map(|code| code.to_string()),
            Ok("A2ZY".to_owned())
        );
        for bad in [
            "", "A2Z", "A2ZYY", "A0ZY", "AOZY", "A1ZY", "AIZY", "A8ZY", "ABZY", "ACZY", "äZY",
        ] {
            assert_eq!(bad.parse::<Code>(), Err(NoCode), "{bad}");
        }
    }

    #[test]
    fn random_codes_use_the_whole_alphabet_in_every_place() {
        let codes: Vec<_> = (0..4_000)
            .map(|_| Code::random().expect("randomness"))
            .collect();
        for place in 0..LENGTH {
            for character in ALPHABET {
                assert!(codes.iter().any(|code| code.0[place] == *character));
            }
        }
        assert!(
            codes
                .iter()
                .all(|code| code.to_string().parse() == Ok(*code))
        );
    }
}
