//! A file as the body of a request.

use std::{
    fs::File,
    io::{self, Read as _},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// The rest of a file, with its length. Reading it blocks: for a runtime that does nothing else.
pub(crate) struct FileBody {
    file: File,
    left: u64,
}

impl FileBody {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let left = file.metadata()?.len();
        Ok(Self { file, left })
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(this.left).unwrap_or(PIECE))];
        let read = this.file.read(&mut piece).and_then(|read| match read {
            0 => Err(io::Error::other("the file became shorter")),
            read => Ok(read),
        });
        Poll::Ready(Some(read.map(|read| {
            this.left -= read as u64;
            piece.truncate(read);
            Frame::data(piece.into())
        })))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
