//! A manifest: the runs of one moment, in an envelope with a version and a checksum.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Error, Session, Writer, directory::Mark, key, key::Folder};

/// Of the envelope and of what is in it.
const VERSION: u32 = 1;

/// A run in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StoredRun {
    /// Its number in the node's history.
    pub number: u64,
    /// Its key. That of a run of several parts is followed by `.` and the part's number, four hex digits.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of the whole file.
    pub crc32c: u32,
    /// The length of its parts, except the last.
    pub part: u64,
}

impl StoredRun {
    /// What a directory writes down of a run that stays in the store, for [`Self::at`].
    ///
    /// # Errors
    /// None that is known.
    pub fn place(&self) -> Result<String, Error> {
        let text = serde_json::to_string(self);
        text.map_err(|error| Error::store(format!("run {}", self.number), error))
    }

    /// The run of a [`Self::place`].
    ///
    /// # Errors
    /// If it is none.
    pub fn at(place: &str) -> Result<Self, Error> {
        let damaged = |how: String| Error::damaged(place, how);
        let run: Self = serde_json::from_str(place).map_err(|error| damaged(error.to_string()))?;
        if run.part == 0 || Folder::of(&run.key).is_none() {
            return Err(damaged("it is no run".to_owned()));
        }
        Ok(run)
    }

    /// The keys of its parts, with their lengths.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (String, u64)> + use<> {
        key::parts(&self.key, self.bytes, self.part)
    }
}

/// A run that earlier manifests list, or that was written and is listed by none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dropped {
    pub key: String,
    pub bytes: u64,
    pub part: u64,
    /// The last manifest that may list it.
    pub last: u64,
}

impl Dropped {
    pub(crate) fn parts(&self) -> impl Iterator<Item = (String, u64)> + use<> {
        key::parts(&self.key, self.bytes, self.part)
    }
}

/// The state of a node's history at one moment, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manifest {
    /// Its number; the highest is in force.
    pub number: u64,
    /// The data directory that wrote it.
    pub writer: Writer,
    /// The start of a process that wrote it.
    pub session: Session,
    /// Everything that was acknowledged before this time is in the copy, by the writer's clock.
    pub time: SystemTime,
    /// The runs, each number once.
    pub runs: Vec<StoredRun>,
    /// What the source said of these runs. None until the first copy is complete.
    pub content: Option<Vec<u8>>,
    /// The position up to which the log is in the runs.
    pub end: u64,
    /// What continues the runs: pieces of one session, from this number on.
    pub(crate) tail: Option<Mark>,
    /// Runs that are in the store and belong to a copy that is not complete.
    pub(crate) staged: Vec<StoredRun>,
    pub(crate) dropped: Vec<Dropped>,
    /// `runs` are those of an owner from which the writer took over: its own may have the same numbers.
    pub(crate) is_foreign: bool,
    /// Whose leftovers may be deleted: the writer, and those from which it took over.
    pub(crate) writers: BTreeSet<Writer>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    version: u32,
    /// Of the text of `manifest`.
    crc32c: u32,
    manifest: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    number: u64,
    writer: Writer,
    session: Session,
    unix_millis: u64,
    runs: Vec<StoredRun>,
    staged: Vec<StoredRun>,
    dropped: Vec<Dropped>,
    foreign: bool,
    writers: BTreeSet<Writer>,
    /// Base 64.
    content: Option<String>,
    end: u64,
    tail: Option<Mark>,
}

impl Manifest {
    /// The length of its runs.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// What a directory remembers of it.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            number: self.number,
            session: self.session,
        }
    }

    /// Every run that it lists.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &StoredRun> {
        self.runs.iter().chain(&self.staged)
    }

    /// True if it lists what it has dropped.
    pub(crate) fn contradicts_itself(&self) -> bool {
        let listed: BTreeSet<&str> = self.listed().map(|run| &*run.key).collect();
        self.dropped.iter().any(|run| listed.contains(&*run.key))
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let since = self.time.duration_since(SystemTime::UNIX_EPOCH);
        let body = Body {
            number: self.number,
            writer: self.writer,
            session: self.session,
            unix_millis: since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0)),
            runs: self.runs.clone(),
            staged: self.staged.clone(),
            dropped: self.dropped.clone(),
            foreign: self.is_foreign,
            writers: self.writers.clone(),
            content: self
                .content
                .as_ref()
                .map(|bytes| BASE64_STANDARD.encode(bytes)),
            end: self.end,
            tail: self.tail,
        };
        let fault = |error: serde_json::Error| Error::store("a manifest".to_owned(), error);
        let manifest = serde_json::value::to_raw_value(&body).map_err(fault)?;
        let envelope = Envelope {
            version: VERSION,
            crc32c: crc32c::crc32c(manifest.get().as_bytes()),
            manifest,
        };
        serde_json::to_vec(&envelope).map_err(fault)
    }

    /// Reads the manifest of a number.
    pub(crate) fn decode(number: u64, bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |how: String| Error::damaged(key::manifest(number), how);
        let envelope: Envelope =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if envelope.version != VERSION {
            let version = envelope.version;
            return Err(damaged(format!("it has the unknown version {version}")));
        }
        let text = envelope.manifest.get();
        if crc32c::crc32c(text.as_bytes()) != envelope.crc32c {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        let body: Body = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let content = body.content.map(|text| BASE64_STANDARD.decode(text));
        let content = content
            .transpose()
            .map_err(|error| damaged(error.to_string()))?;
        if body.number != number {
            return Err(damaged(format!("it is manifest {}", body.number)));
        }
        let manifest = Self {
            number,
            writer: body.writer,
            session: body.session,
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(body.unix_millis),
            runs: body.runs,
            content,
            end: body.end,
            tail: body.tail,
            staged: body.staged,
            dropped: body.dropped,
            is_foreign: body.foreign,
            writers: body.writers,
        };
        manifest.check().map_err(damaged)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        let mut numbers = BTreeSet::new();
        for run in &self.runs {
            if !numbers.insert(run.number) {
                return Err(format!("it lists run {} twice", run.number));
            }
        }
        let listed = self.listed().map(|run| (&run.key, run.part));
        let dropped = self.dropped.iter().map(|run| (&run.key, run.part));
        for (key, part) in listed.chain(dropped) {
            if part == 0 || Folder::of(key).is_none() {
                return Err(format!("{key} in parts of {part} bytes is no run"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let folder = Folder {
            writer: "00000000000000ab".parse().unwrap(),
            base: 7,
            session: "000000000000000000000000000000cd".parse().unwrap(),
        };
        let run = |number| StoredRun {
            number,
            key: folder.run(number),
            bytes: 10,
            crc32c: 77,
            part: 4,
        };
        Manifest {
            number: 8,
            writer: folder.writer,
            session: folder.session,
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1234),
            runs: vec![run(1), run(2)],
            content: Some(b"opaque".to_vec()),
            end: 4096,
            tail: Some(Mark {
                number: 12,
                session: folder.session,
            }),
            staged: vec![run(3)],
            dropped: vec![Dropped {
                key: folder.run(4),
                bytes: 1,
                part: 4,
                last: 7,
            }],
            is_foreign: false,
            writers: [folder.writer].into(),
        }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let manifest = sample();
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(8, &bytes).unwrap(), manifest);
        let error = Manifest::decode(9, &bytes).unwrap_err().to_string();
        assert!(error.contains("it is manifest 8"), "{error}");
    }

    #[test]
    fn any_flipped_bit_of_a_manifest_is_found() {
        let manifest = sample();
        let bytes = manifest.encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(8, &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_manifest_that_lists_a_number_twice_is_refused() {
        let mut manifest = sample();
        manifest.runs[1].number = 1;
        let error = Manifest::decode(8, &manifest.encode().unwrap()).unwrap_err();
        assert!(error.to_string().contains("lists run 1 twice"), "{error}");
    }
}
