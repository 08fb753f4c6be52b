//! `export.json`, the listing of an export: it is written last, so an export without it is incomplete.

use std::{
    fs::{self, File},
    io::{BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use abide::{Bookmark, ObjectId};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};

use crate::node::segment;

/// Its name in the directory of the export.
pub(crate) const FILE: &str = "export.json";

/// Its name until it is complete.
const PART: &str = "export.json.part";

/// The version of the format.
const VERSION: u32 = 1;

/// A SHA-256, as 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum(pub(crate) [u8; 32]);

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex::encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut sum = [0; 32];
        hex::decode_to_slice(&text, &mut sum).map_err(D::Error::custom)?;
        Ok(Self(sum))
    }
}

/// Adds up what passes to or from a file.
pub(crate) struct Summing<F> {
    file: F,
    sum: Sha256,
    bytes: u64,
}

impl<F> Summing<F> {
    pub(crate) fn new(file: F) -> Self {
        Self {
            file,
            sum: Sha256::new(),
            bytes: 0,
        }
    }

    /// The file, the number of bytes that passed, and their checksum.
    pub(crate) fn finish(self) -> (F, u64, Sum) {
        (self.file, self.bytes, Sum(self.sum.finalize().into()))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sum.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<F: Write> Write for Summing<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Summing<F> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.add(&bytes[..read]);
        Ok(read)
    }
}

/// What an export is of.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Head {
    /// The position that no timeline of the objects is above.
    pub(crate) position: String,
    /// The moment, in milliseconds since 1970.
    pub(crate) time: u64,
}

/// An object of an export.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The unique key of its class.
    pub(crate) class: String,
    #[serde(with = "id_text")]
    pub(crate) id: ObjectId,
    pub(crate) name: Option<String>,
    /// Of its newest commit.
    pub(crate) bookmark: Bookmark,
    pub(crate) bytes: u64,
    pub(crate) sha256: Sum,
}

/// An object that could not be exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) class: String,
    #[serde(with = "id_text")]
    pub(crate) id: ObjectId,
    pub(crate) why: String,
}

mod id_text {
    use abide::ObjectId;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(
        id: &ObjectId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ObjectId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl Entry {
    /// How commands name it.
    pub(crate) fn object(&self) -> String {
        format!("{}/{}", self.class, self.id)
    }

    /// Its file in the directory of an export.
    pub(crate) fn file(&self, dir: &Path) -> PathBuf {
        file_of(dir, &self.class, &self.id)
    }
}

/// The file of an object in the directory of an export.
pub(crate) fn file_of(dir: &Path, class: &str, id: &ObjectId) -> PathBuf {
    let mut name = segment(class);
    // Neither hidden nor a way out of the directory.
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    dir.join(name).join(format!("{id}.sqlite"))
}

/// A listing that is being written. It has its name once it is complete.
pub(crate) struct Writer {
    dir: PathBuf,
    to: BufWriter<File>,
    count: u64,
}

impl Writer {
    pub(crate) fn create(dir: &Path, head: &Head) -> Result<Self> {
        let path = dir.join(PART);
        let file = File::create_new(&path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        let mut to = BufWriter::new(file);
        let head = serde_json::to_string(head)?;
        let fields = head.trim_matches(['{', '}']);
        write!(to, "{{\"version\":{VERSION},{fields},\"objects\":[")?;
        Ok(Self {
            dir: dir.to_owned(),
            to,
            count: 0,
        })
    }

    pub(crate) fn add(&mut self, entry: &Entry) -> Result<()> {
        let comma = if self.count == 0 { "" } else { "," };
        self.count += 1;
        write!(self.to, "{comma}\n{}", serde_json::to_string(entry)?)?;
        Ok(())
    }

    /// Completes it, durably. Everything that it lists is durable.
    pub(crate) fn finish(mut self, missing: &[Missing]) -> Result<()> {
        let missing = serde_json::to_string(missing)?;
        writeln!(self.to, "\n],\"missing\":{missing}}}")?;
        self.to.flush()?;
        self.to.get_ref().sync_all()?;
        fs::rename(self.dir.join(PART), self.dir.join(FILE))?;
        sync_dir(&self.dir)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir)
        .and_then(|dir| dir.sync_all())
        .with_context(|| format!("cannot sync {}", dir.display()))
}

/// A whole listing.
#[derive(Debug, Deserialize)]
pub(crate) struct Listing {
    version: u32,
    pub(crate) position: String,
    pub(crate) objects: Vec<Entry>,
    pub(crate) missing: Vec<Missing>,
}

impl Listing {
    /// Reads the listing of an export, and its own checksum, which stands for the export.
    pub(crate) fn read(dir: &Path) -> Result<(Self, Sum)> {
        let path = dir.join(FILE);
        let incomplete = || {
            format!(
                "cannot open {}: without it the directory is not a complete export; export again",
                path.display()
            )
        };
        let file = File::open(&path).with_context(incomplete)?;
        let mut summing = Summing::new(BufReader::new(file));
        let listing: Self = serde_json::from_reader(&mut summing)
            .with_context(|| format!("{} is not the listing of an export", path.display()))?;
        ensure!(
            listing.version == VERSION,
            "{} has version {} of the format, and this program reads version {VERSION}: use the release that wrote it, or a newer one",
            path.display(),
            listing.version
        );
        let (_, _, sum) = summing.finish();
        Ok((listing, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_as_it_was_written_and_has_its_name_last() {
        let dir = tempfile::tempdir().unwrap();
        let head = Head {
            position: "00000001-0000000000000040".to_owned(),
            time: 7,
        };
        let bookmark = "00000003-0000000000001a40-00000011-5e0c-4a988a7e";
        let entry = |name: &str| Entry {
            class: "Room".to_owned(),
            id: ObjectId::from_name("Room", name),
            name: Some(name.to_owned()),
            bookmark: bookmark.parse().unwrap(),
            bytes: 4096,
            sha256: Sum([9; 32]),
        };
        let mut writer = Writer::create(dir.path(), &head).unwrap();
        for name in ["a", "\"b\"\n"] {
            writer.add(&entry(name)).unwrap();
        }
        assert!(Listing::read(dir.path()).is_err());
        let missing = Missing {
            class: "Room".to_owned(),
            id: entry("c").id,
            why: "damaged".to_owned(),
        };
        writer.finish(&[missing]).unwrap();
        let (listing, sum) = Listing::read(dir.path()).unwrap();
        assert_eq!(listing.position, head.position);
        let names: Vec<_> = listing.objects.iter().map(|of| of.name.clone()).collect();
        assert_eq!(names, [Some("a".to_owned()), Some("\"b\"\n".to_owned())]);
        assert_eq!(listing.missing.len(), 1);
        let text = fs::read(dir.path().join(FILE)).unwrap();
        assert_eq!(sum, Sum(Sha256::digest(&text).into()));
    }

    #[test]
    fn no_class_leads_out_of_the_directory() {
        let id = ObjectId::from_name("a", "b");
        for class in ["..", ".", "/etc", "a/../../b", ".hidden"] {
            let file = file_of(Path::new("export"), class, &id);
            assert_eq!(file.components().count(), 3, "{}", file.display());
            let parent = file.parent().unwrap().file_name().unwrap();
            assert!(!parent.to_string_lossy().starts_with('.'), "{class}");
        }
    }
}
