//! The encoding of lib0: numbers of variable length, and bytes and texts with their length before them.

/// The bytes end too early, or a number is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads from the front of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was read between here and a later place of the same bytes.
    pub(super) fn until(&self, later: &Self) -> &'a [u8] {
        &self.0[..self.0.len() - later.0.len()]
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An unsigned number, seven bits a byte, the lowest first.
    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub(super) fn small(&mut self) -> Result<u32, Malformed> {
        self.number()?.try_into().map_err(|_| Malformed)
    }

    /// The id of a client: JavaScript has 53 bits for it, and so has `yrs`.
    pub(super) fn client(&mut self) -> Result<u64, Malformed> {
        let client = self.number()?;
        if client < 1 << 53 {
            Ok(client)
        } else {
            Err(Malformed)
        }
    }

    /// A number of items that follow, each of at least `least` bytes. A number that the remaining bytes cannot hold
    /// is malformed, so nothing is allocated for items that are not there.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.0.len() / least {
            return Err(Malformed);
        }
        Ok(count)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count(1)?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }
}

/// Appends an unsigned number.
pub(super) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes, with their length before them.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(number));
            assert!(reader.is_empty());
            for short in 0..bytes.len() {
                assert_eq!(Reader::new(&bytes[..short]).number(), Err(Malformed));
            }
        }
        assert_eq!(Reader::new(&[0xff; 10]).number(), Err(Malformed));
        assert_eq!(Reader::new(&[0xff; 11]).number(), Err(Malformed));
    }

    #[test]
    fn a_count_of_more_than_there_is_is_malformed() {
        assert_eq!(Reader::new(&[2, 0, 0, 0]).count(2), Err(Malformed));
        assert_eq!(Reader::new(&[2, 0, 0, 0, 0]).count(2), Ok(2));
        assert_eq!(Reader::new(&[3, b'a', b'b']).text(), Err(Malformed));
        assert_eq!(Reader::new(&[1, 0xff]).text(), Err(Malformed));
        assert_eq!(Reader::new(&[2, b'a', b'b']).text(), Ok("ab"));
    }
}
