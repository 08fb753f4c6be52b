//! The end of a lost node's tail.

use crate::{Error, Probe, Session, Store, Writer, key, piece::Piece, sequence, store::Creation};

/// What ends the tail of a lost node, made by a restore that is to continue its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    pub(crate) writer: Writer,
    pub(crate) session: Session,
}

impl Seal {
    /// Ends the tail in a store: the node that owned it can add nothing to it from now on, and stops when it notices.
    ///
    /// # Errors
    /// What the store says, if the store has another key, or if there are no random numbers.
    pub async fn make(store: &Store) -> Result<Self, Error> {
        Probe::run(store).await?;
        let seal = Self {
            writer: Writer::random(store.machine())?,
            session: Session::random(store.machine())?,
        };
        let pieces = sequence::all(store).await?;
        let mut number = pieces.last_key_value().map_or(0, |(number, _)| *number);
        if number > 0 {
            must_fit(sequence::piece(store, number).await)?;
        }
        loop {
            // At once after a refusal: the owner that was faster creates the next as soon as it can.
            number += 1;
            let piece = Piece {
                number,
                writer: seal.writer,
                session: seal.session,
                manifest: 0,
                part: None,
            };
            let key = key::piece(number);
            match store.create(&key, piece.encode()).await? {
                Creation::Made => {}
                Creation::Refused => {
                    // It may be this one, if a response was lost.
                    let there = sequence::piece(store, number).await?;
                    if there.is_none_or(|there| there.session != seal.session) {
                        continue;
                    }
                }
                Creation::Unknown => {
                    let why = "the store cannot create it";
                    return Err(Error::store(format!("creating {key}"), why));
                }
            }
            // The number may have been free because its piece was deleted since the listing.
            let newer = sequence::from(store, number + 1).await?;
            match newer.last_key_value() {
                None => return Ok(seal),
                Some((newest, _)) => number = *newest,
            }
        }
    }
}

/// Refuses to write where the key is another. A damaged piece is sealed like others.
fn must_fit(newest: Result<Option<Piece>, Error>) -> Result<(), Error> {
    match newest {
        Err(error) if error.is_refusal() => Err(error),
        _ => Ok(()),
    }
}
