//! Derives choices from bytes. When the bytes are used up, every choice is 0.

/// What is left of an input.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// True if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }

    /// A number of 24 bits.
    pub(crate) fn number(&mut self) -> usize {
        (0..3).fold(0, |number, _| number << 8 | usize::from(self.byte()))
    }

    /// As many bytes as the next one indicates, or the rest.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}
