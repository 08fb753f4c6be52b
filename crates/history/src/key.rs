//! The names of objects in the store.

use crate::{Session, Writer, identity::digits};

/// What the keys of manifests begin with.
pub(crate) const MANIFESTS: &str = "manifests";

/// What the keys of the tail begin with.
pub(crate) const TAIL: &str = "tail";

/// What the keys of the catalogues of a cluster begin with.
pub(crate) const CATALOGUES: &str = "catalogues";

/// The key of a catalogue.
pub(crate) fn catalogue(number: u64) -> String {
    numbered(CATALOGUES, number)
}

/// The key of a manifest.
pub(crate) fn manifest(number: u64) -> String {
    numbered(MANIFESTS, number)
}

/// The key of a piece of the tail.
pub(crate) fn piece(number: u64) -> String {
    numbered(TAIL, number)
}

fn numbered(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}")
}

/// The number of an object in a folder, from its key.
pub(crate) fn number_in(folder: &str, key: &str) -> Option<u64> {
    let name = key.strip_prefix(folder)?.strip_prefix('/')?;
    digits(name, 16)?;
    let number = u64::from_str_radix(name, 16).ok()?;
    (number > 0).then_some(number)
}

/// What the keys of a writer's runs begin with.
pub(crate) fn runs(writer: Writer) -> String {
    format!("runs/{writer}")
}

/// Where one session writes its runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub writer: Writer,
    /// The manifest in force when the session looked first; 0 if there was none.
    pub base: u64,
    pub session: Session,
}

impl Folder {
    /// The key of a run.
    pub(crate) fn run(&self, number: u64) -> String {
        let Self {
            writer,
            base,
            session,
        } = self;
        format!("runs/{writer}/{base:016x}-{session}/{number:016x}.run")
    }

    /// The folder that a key is in.
    pub(crate) fn of(key: &str) -> Option<Self> {
        let mut parts = key.split('/');
        if parts.next()? != "runs" {
            return None;
        }
        let writer = parts.next()?.parse().ok()?;
        let (base, session) = parts.next()?.split_once('-')?;
        digits(base, 16)?;
        let base = u64::from_str_radix(base, 16).ok()?;
        let session = session.parse().ok()?;
        parts.next()?;
        parts.next().is_none().then_some(Self {
            writer,
            base,
            session,
        })
    }
}

/// The keys of the parts of a run, with their lengths.
pub(crate) fn parts(
    key: &str,
    bytes: u64,
    part: u64,
) -> impl Iterator<Item = (String, u64)> + use<> {
    let count = bytes.div_ceil(part).max(1);
    let key = key.to_owned();
    (0..count).map(move |index| {
        let length = part.min(bytes - index * part);
        if count == 1 {
            (key.clone(), length)
        } else {
            (format!("{key}.{index:04x}"), length)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_folder_and_each_manifest_has_one_key() {
        let folder = Folder {
            writer: "00000000000000ab".parse().unwrap(),
            base: 7,
            session: "000000000000000000000000000000cd".parse().unwrap(),
        };
        let key = folder.run(9);
        assert_eq!(Folder::of(&key), Some(folder));
        assert_eq!(Folder::of(&format!("{key}.0001")), Some(folder));
        assert_eq!(Folder::of(&format!("{key}/x")), None);
        assert_eq!(Folder::of(&key.replace("ab/", "AB/")), None);
        assert_eq!(number_in(MANIFESTS, &manifest(300)), Some(300));
        assert_eq!(number_in(TAIL, &piece(300)), Some(300));
        for wrong in [
            "manifests/1",
            "manifests/0000000000000000",
            "runs/0000000000000001",
        ] {
            assert_eq!(number_in(MANIFESTS, wrong), None);
        }
    }

    #[test]
    fn parts_are_as_long_as_their_run() {
        let of = |bytes| parts("k", bytes, 10).collect::<Vec<_>>();
        assert_eq!(of(0), [("k".to_owned(), 0)]);
        assert_eq!(of(10), [("k".to_owned(), 10)]);
        assert_eq!(
            of(11),
            [("k.0000".to_owned(), 10), ("k.0001".to_owned(), 1)]
        );
    }
}
