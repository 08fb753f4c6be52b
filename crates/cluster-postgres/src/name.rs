//! Names in the form of PostgreSQL.

/// 128 bits as text that can be cast to `uuid`.
pub(crate) fn uuid(bits: u128) -> String {
    format!("{bits:032x}")
}

/// The bits of a `uuid` that was read as text.
pub(crate) fn bits(uuid: &str) -> Option<u128> {
    u128::from_str_radix(&uuid.replace('-', ""), 16).ok()
}

/// The name of a table of a log: what `log_table` of `functions.sql` says.
pub(crate) fn log_table(nonce: u128, half: usize) -> String {
    format!("log_{nonce:032x}_{half}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive_their_text() {
        for of in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef << 32] {
            assert_eq!(bits(&uuid(of)), Some(of));
        }
        assert_eq!(bits("00000000-0000-0000-0000-0000000000ff"), Some(255));
        assert_eq!(bits("none"), None);
    }
}
