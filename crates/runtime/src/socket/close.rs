//! Why a socket ends: RFC 6455, section 7.4.

use bytestring::ByteString;

use crate::{Error, ErrorKind, Result, limits::MAX_CLOSE_REASON};

/// Close codes (RFC 6455, section 7.4.1, and IANA's WebSocket Close Code Number Registry).
pub mod code {
    /// Normal closure.
    pub const NORMAL: u16 = 1000;
    /// The server is stopping, or a browser has left the page.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer violated the protocol.
    pub const PROTOCOL_ERROR: u16 = 1002;
    /// The close frame had no code. Never sent.
    pub const NO_STATUS: u16 = 1005;
    /// The connection ended without a close frame. Never sent.
    pub const ABNORMAL: u16 = 1006;
    /// Text that is not UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// The peer violated a policy, for example by not finishing a message.
    pub const POLICY_VIOLATION: u16 = 1008;
    /// The message is too big.
    pub const TOO_BIG: u16 = 1009;
    /// The server encountered an unexpected condition.
    pub const INTERNAL_ERROR: u16 = 1011;
    /// The server is restarting.
    pub const SERVICE_RESTART: u16 = 1012;
    /// The server is overloaded, or the reader too slow: try again later.
    pub const TRY_AGAIN_LATER: u16 = 1013;

    /// Returns whether a code may be sent in a close frame: registered ones, and those for libraries and programs.
    pub const fn may_be_sent(code: u16) -> bool {
        matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

/// How a WebSocket ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// The peer's close code; [`code::NO_STATUS`] if it gave none, [`code::ABNORMAL`] if the connection broke without a
    /// close frame.
    pub code: u16,
    /// The peer's reason.
    pub reason: String,
    /// Whether both sides completed the closing handshake.
    pub was_clean: bool,
}

/// The content of a close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseFrame {
    /// The code; [`code::NO_STATUS`] if there is none.
    pub code: u16,
    /// The reason, for people: at most 123 bytes.
    pub reason: ByteString,
}

impl CloseFrame {
    /// A close frame sent by an object. Rejects codes that must not be sent and a reason that is too long.
    pub(crate) fn new(code: u16, reason: &str) -> Result<Self> {
        if !code::may_be_sent(code) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                format!(
                    "a WebSocket cannot be closed with code {code}: use 1000, another code of RFC 6455 that may be \
                     sent, or 3000 to 4999"
                ),
            ));
        }
        if reason.len() > MAX_CLOSE_REASON {
            return Err(Error::with_kind(
                ErrorKind::Limit,
                format!(
                    "the reason for closing a WebSocket has {} bytes, but the limit is {MAX_CLOSE_REASON}",
                    reason.len()
                ),
            ));
        }
        Ok(Self {
            code,
            reason: reason.into(),
        })
    }

    /// A close frame with a code and a fixed reason.
    pub const fn of(code: u16, reason: &'static str) -> Self {
        Self {
            code,
            reason: ByteString::from_static(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_the_protocol_reserves_are_refused() {
        for good in [1000, 1001, 1003, 1007, 1013, 3000, 4999] {
            assert!(CloseFrame::new(good, "").is_ok(), "{good}");
        }
        for bad in [0, 999, 1004, 1005, 1006, 1015, 2999, 5000, u16::MAX] {
            assert_eq!(
                CloseFrame::new(bad, "").unwrap_err().kind(),
                ErrorKind::Input
            );
        }
    }

    #[test]
    fn a_reason_has_at_most_123_bytes() {
        assert!(CloseFrame::new(1000, &"x".repeat(123)).is_ok());
        let error = CloseFrame::new(1000, &"é".repeat(62)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
