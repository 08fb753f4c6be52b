//! `fetched.json` in a directory of downloaded runs: which files are known to be whole.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, StoredRun,
    replace::{replace, sync_dir},
};

const VERSION: u32 = 1;
const NAME: &str = "fetched.json";

/// The runs that were checked. A file is renamed to its name once it is whole, and never changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fetched {
    version: u32,
    runs: Vec<StoredRun>,
}

impl Fetched {
    /// What is known of a directory. Without the file, or if it cannot be read, that is nothing: every file is checked again.
    pub(crate) fn read(dir: &Path) -> Self {
        let text = fs::read(path(dir)).unwrap_or_default();
        let read = serde_json::from_slice(&text);
        let read = read.ok().filter(|read: &Self| read.version == VERSION);
        read.unwrap_or_default()
    }

    /// Returns whether the file of a run is known to be whole.
    pub(crate) fn has(&self, dir: &Path, run: &StoredRun) -> bool {
        let is_there = || fs::metadata(file(dir, run.number)).is_ok_and(|of| of.len() == run.bytes);
        self.runs.contains(run) && is_there()
    }

    /// Records that these runs are whole, and removes the files of all others, durably.
    pub(crate) fn write(dir: &Path, runs: &[StoredRun]) -> Result<(), Error> {
        let fetched = Self {
            version: VERSION,
            runs: runs.to_vec(),
        };
        let written = || {
            replace(dir, NAME, &serde_json::to_vec(&fetched)?)?;
            for found in fs::read_dir(dir)? {
                let found = found?;
                let name = found.file_name();
                let number = name.to_str().and_then(number_of);
                if number.is_some_and(|number| runs.iter().all(|run| run.number != number)) {
                    fs::remove_file(found.path())?;
                }
            }
            sync_dir(dir)
        };
        written().map_err(|error| Error::file(dir, error))
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// The file of a run.
pub(crate) fn file(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.run"))
}

/// Where the file of a run is downloaded.
pub(crate) fn unfinished(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.run.part"))
}

/// The number of the run to which a file belongs.
fn number_of(name: &str) -> Option<u64> {
    let digits = name
        .strip_suffix(".part")
        .unwrap_or(name)
        .strip_suffix(".run")?;
    let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_runs_that_are_there_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let run = |number| StoredRun {
            number,
            key: format!("runs/{number}"),
            bytes: 3,
            crc32c: 7,
            part: 4,
        };
        for number in 1..=3 {
            fs::write(file(dir, number), "abc").unwrap();
        }
        fs::write(unfinished(dir, 4), "ab").unwrap();
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        assert!(!Fetched::read(dir).has(dir, &run(1)));
        Fetched::write(dir, &[run(1), run(2)]).unwrap();
        let fetched = Fetched::read(dir);
        assert!(fetched.has(dir, &run(1)));
        assert!(!fetched.has(dir, &run(3)));
        let other = StoredRun {
            crc32c: 8,
            ..run(1)
        };
        assert!(!fetched.has(dir, &other), "another run of that number");
        fs::write(file(dir, 2), "ab").unwrap();
        assert!(!fetched.has(dir, &run(2)), "it is shorter");
        let mut left: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let [first, second] = [1, 2].map(|number| format!("{number:016x}.run"));
        assert_eq!(left, [&first, &second, "fetched.json", "notes.txt"]);
        fs::write(path(dir), "{").unwrap();
        assert!(!Fetched::read(dir).has(dir, &run(1)));
    }
}
