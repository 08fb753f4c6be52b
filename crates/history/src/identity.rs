//! Who wrote a manifest: a data directory, and a start of a process in it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Machine};

/// A data directory: 64 random bits, made once. A copy of the directory has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Writer(u64);

/// One start of a process: 128 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Session(u128);

impl Writer {
    /// The data directory with this name.
    pub fn new(name: u64) -> Self {
        Self(name)
    }

    pub(crate) fn random(machine: &dyn Machine) -> Result<Self, Error> {
        machine.random().map(Self::from_bytes)
    }

    pub(crate) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_le_bytes(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

impl Session {
    /// The start with this name.
    pub fn new(name: u128) -> Self {
        Self(name)
    }

    pub(crate) fn random(machine: &dyn Machine) -> Result<Self, Error> {
        machine.random().map(Self::from_bytes)
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Writer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = digits(text, 16).and_then(|()| u64::from_str_radix(text, 16).ok());
        number
            .map(Self)
            .ok_or_else(|| format!("not a writer: {text}"))
    }
}

impl FromStr for Session {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = digits(text, 32).and_then(|()| u128::from_str_radix(text, 16).ok());
        number
            .map(Self)
            .ok_or_else(|| format!("not a session: {text}"))
    }
}

/// One text for each number.
pub(crate) fn digits(text: &str, length: usize) -> Option<()> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == length && text.bytes().all(is_digit)).then_some(())
}

impl From<Writer> for String {
    fn from(writer: Writer) -> Self {
        writer.to_string()
    }
}

impl From<Session> for String {
    fn from(session: Session) -> Self {
        session.to_string()
    }
}

impl TryFrom<String> for Writer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for Session {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
