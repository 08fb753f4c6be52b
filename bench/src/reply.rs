//! An HTTP/1.1 reply, parsed only as far as the load generators need it.

use anyhow::{Context, Result};

/// A complete reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> Reply<'a> {
    /// `None` while bytes are missing. A reply without a length is an error.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let (head, body) = (&bytes[..end], &bytes[end + 4..]);
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.trim().parse::<usize>().ok();
        let length = header(head, "content-length")
            .and_then(number)
            .context("the reply has no content-length")?;
        if body.len() < length {
            return Ok(None);
        }
        let status = head
            .strip_prefix(b"HTTP/1.1 ")
            .and_then(|rest| number(rest.get(..3)?))
            .and_then(|status| u16::try_from(status).ok())
            .context("the reply has no status")?;
        Ok(Some(Self {
            status,
            head,
            body: &body[..length],
        }))
    }

    /// A header's value; its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        header(self.head, name)
    }
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found
            .eq_ignore_ascii_case(name.as_bytes())
            .then_some(value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::Reply;

    #[test]
    fn a_reply_is_taken_only_when_it_is_complete() {
        let bytes = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n17";
        for cut in 0..bytes.len() {
            assert!(Reply::parse(&bytes[..cut]).unwrap().is_none());
        }
        let reply = Reply::parse(bytes).unwrap().unwrap();
        assert_eq!((reply.status, reply.body), (503, &b"17"[..]));
        assert_eq!(reply.header("retry-after"), Some(&b"1"[..]));
        assert_eq!(reply.header("retry"), None);
    }
}
