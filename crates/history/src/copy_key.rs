//! The key with which copies are encrypted.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
};

use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::Error;

/// Bytes of a key.
const BYTES: usize = 32;

/// More than a file with a key has.
const LONGEST: u64 = 1024;

/// The key with which everything in a store is encrypted. Clones share it; it is overwritten in memory when the last is dropped.
///
/// Who loses it loses the copies. `openssl rand -hex 32` makes one.
#[derive(Clone)]
pub struct CopyKey {
    pub(crate) aead: Arc<XChaCha20Poly1305>,
    pub(crate) id: KeyId,
    is_exposed: bool,
}

/// Names a key, and says nothing about it: the beginning of its hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for CopyKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopyKey").field(&self.id).finish()
    }
}

impl CopyKey {
    /// Reads a file with a key: 32 random bytes as 64 hex digits, and nothing else but white space around them.
    ///
    /// # Errors
    /// [`Error::Configuration`] if the file cannot be read or has anything else. It does not say what.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let failed = |error: io::Error| {
            Error::Configuration(format!(
                "the key file {shown} cannot be read: {error}. Give the path of the file with the key of these copies; for a new \
                 place, `openssl rand -hex 32` makes one"
            ))
        };
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        // Never grown, so that no part of it is left in memory.
        let mut text = Zeroizing::new(Vec::with_capacity(LONGEST as usize + 1));
        file.take(LONGEST).read_to_end(&mut text).map_err(failed)?;
        let digits = text.trim_ascii();
        let key = decoded(digits).ok_or_else(|| {
            let length = digits.len();
            Error::Configuration(format!(
                "the key file {shown} does not have a key, which is 64 hex digits: it has {length} characters. \
                 `openssl rand -hex 32` makes one, for a new place"
            ))
        })?;
        Ok(Self {
            is_exposed: mode & 0o004 != 0,
            ..Self::new(&key)
        })
    }

    /// A key of 32 random bytes.
    pub fn new(key: &[u8; BYTES]) -> Self {
        let hash = Sha256::new()
            .chain_update(b"abide copy key")
            .chain_update(key)
            .finalize();
        let mut id = [0; 8];
        id.copy_from_slice(&hash[..8]);
        Self {
            aead: Arc::new(XChaCha20Poly1305::new(key.into())),
            id: KeyId(id),
            is_exposed: false,
        }
    }

    /// True if every user of the machine could read the file when the key was read.
    pub fn is_exposed(&self) -> bool {
        self.is_exposed
    }
}

fn decoded(digits: &[u8]) -> Option<Zeroizing<[u8; BYTES]>> {
    if digits.len() != 2 * BYTES {
        return None;
    }
    let mut key = Zeroizing::new([0; BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | value as u8;
        }
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    const DIGITS: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";

    fn read(text: &str, mode: u32) -> Result<CopyKey, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        CopyKey::read(&path)
    }

    #[test]
    fn a_key_is_read_with_its_newline_and_never_shown() {
        let key = read(&format!("{DIGITS}\n"), 0o600).unwrap();
        assert!(!key.is_exposed());
        assert!(read(DIGITS, 0o644).unwrap().is_exposed());
        let mut bytes = [0; BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (index % 16 * 17) as u8;
        }
        assert_eq!(key.id, CopyKey::new(&bytes).id);
        bytes[31] ^= 1;
        assert_ne!(key.id, CopyKey::new(&bytes).id);
        let shown = format!("{key:?}");
        assert!(shown.len() < 30 && !shown.contains("0011"), "{shown}");
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_shown() {
        let long = format!("{DIGITS}{DIGITS}");
        let odd = DIGITS.replace('3', "x");
        let signed = format!("+{}", &DIGITS[1..]);
        for wrong in ["", "0011223344", &DIGITS[..63], &long, &odd, &signed] {
            let error = read(wrong, 0o600).unwrap_err();
            assert!(error.is_refusal());
            let error = error.to_string();
            assert!(error.contains("64 hex digits"), "{error}");
            assert!(error.contains("openssl rand -hex 32"), "{error}");
            assert!(wrong.is_empty() || !error.contains(&wrong[..10]), "{error}");
        }
        let error = CopyKey::read(Path::new("/no/file")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("the key file /no/file cannot be read"),
            "{error}"
        );
    }
}
