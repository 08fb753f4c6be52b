//! Entry points for the fuzzers. Not part of the public API: the feature `fuzzing` exposes them and changes nothing else.

use bytes::Bytes;

use crate::{CopyKey, Manifest, cipher, cipher::Header, piece::Piece};

/// The name under which objects are encrypted here.
const NAME: &str = "runs/a";

fn key() -> CopyKey {
    CopyKey::new(&[7; 32])
}

/// Reads bytes as a piece of the tail. One that is read is written as the same bytes.
pub fn decode_piece(bytes: &[u8]) {
    let number = bytes.get(16..24).and_then(|bytes| bytes.try_into().ok());
    let number = number.map_or(1, u64::from_le_bytes);
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(piece) = Piece::decode(number, &bytes) {
        assert_eq!(piece.encode(), bytes);
    }
}

/// Reads a text as the content of manifest 1, in an envelope with the right checksum. One that is read is written so that it is
/// read as the same.
pub fn decode_manifest(text: &[u8]) {
    let crc = crc32c::crc32c(text);
    let head = format!(r#"{{"version":1,"crc32c":{crc},"manifest":"#);
    let envelope = [head.as_bytes(), text, b"}"].concat();
    if let Ok(manifest) = Manifest::decode(1, &envelope) {
        let encoded = manifest.encode();
        let again = encoded.and_then(|encoded| Manifest::decode(1, &encoded));
        assert!(again.is_ok_and(|again| again == manifest));
    }
}

/// Reads bytes as an encrypted object, whole and from each of its blocks on. None is: no one else has the key.
pub fn decrypt(stored: &[u8]) {
    assert!(cipher::decrypt(&key(), NAME, stored).is_err());
    let length = stored.len() as u64;
    if let Some(content) = cipher::content_length(length) {
        assert!(cipher::stored_range(&(0..content)).end >= length);
    }
    if let Ok(header) = Header::read(&key(), stored) {
        let blocks = &stored[cipher::HEADER_BYTES..];
        let decrypted = header.decrypt(&key(), NAME, length, u64::from(u32::MAX), blocks);
        assert!(blocks.is_empty() || decrypted.is_err());
    }
}

/// Encrypts a content, and decrypts what a change leaves of it: that is an error, unless nothing has changed.
pub fn decrypt_changed(content: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    let Ok(stored) = cipher::encrypt(&key(), NAME, content) else {
        return; // without random numbers
    };
    let mut changed = stored.to_vec();
    change(&mut changed);
    match cipher::decrypt(&key(), NAME, &changed) {
        Ok(read) => assert!(changed == stored && read == content),
        Err(why) => assert!(changed != stored, "{why:?}"),
    }
}
