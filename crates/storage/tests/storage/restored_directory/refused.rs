//! What a restore of a directory refuses, before it has written anything.

use std::path::Path;

use abide_storage::{Disk as _, ErrorKind, SimDisk};

use super::life::{Copy, Life, restore, write_file};
use crate::{
    common::{DIR, read_file},
    recovery_points::world::{noise, off},
};

fn runs(copy: &Copy) -> Vec<std::path::PathBuf> {
    let dir = Path::new(DIR).join("archive");
    let names = copy.disk.list(&dir).unwrap().into_iter();
    names.map(|name| dir.join(name)).collect()
}

/// Expects that a restore is refused and changes nothing; returns why.
pub(super) fn refusal(life: &Life, disk: &SimDisk, manifest: &[u8], kind: ErrorKind) -> String {
    let before = disk.digest();
    let error = restore(disk, manifest, None, &life.options()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(disk.digest(), before, "{error}");
    error.to_string()
}

#[test]
fn s23_any_damaged_byte_of_any_run_is_refused() {
    let mut life = Life::small();
    // The runs of a base, of a merge, and of the log.
    life.pass(25 * 3_600_000);
    for step in 0..9 {
        let key = life.key("First", step % 4);
        life.put(key, "more");
        life.checkpoint();
    }
    life.store.run_maintenance().unwrap();
    // Of several blocks.
    let (first, second) = (life.key("First", 0), life.key("Second", 1));
    life.put(first, &hex::encode(noise(5, 60_000)));
    life.put(second, "newest");
    let copy = life.copy();
    let runs = runs(&copy);
    assert!(runs.len() >= 2, "{runs:?}");
    for run in runs {
        let bytes = read_file(&copy.disk, &run).len() as u64;
        let step = if bytes > 20_000 { 7 } else { 1 };
        for at in (0..bytes).step_by(step) {
            copy.disk.flip(&run, at);
            let why = refusal(&life, &copy.disk, &copy.manifest, ErrorKind::Damaged);
            assert!(why.contains(&*run.to_string_lossy()), "{why}");
            copy.disk.flip(&run, at);
        }
    }
    copy.restore(&life);
}

#[test]
fn s23_a_missing_short_or_long_run_is_refused() {
    let life = Life::small();
    let copy = life.copy();
    for run in runs(&copy) {
        let bytes = read_file(&copy.disk, &run);
        let longer = [&bytes[..], b"x"].concat();
        for other in [
            None,
            Some(&bytes[1..]),
            Some(&bytes[..bytes.len() - 1]),
            Some(&longer[..]),
        ] {
            let disk = copy.disk.after_kill();
            match other {
                None => disk.remove(&run).unwrap(),
                Some(other) => write_file(&disk, &run, other),
            }
            let why = refusal(&life, &disk, &copy.manifest, ErrorKind::Damaged);
            assert!(why.contains(&*run.to_string_lossy()), "{why}");
        }
    }
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let life = Life::small();
    let copy = life.copy();
    let data = Path::new(DIR);
    let cases = [
        (
            "MANIFEST",
            "/data is a data directory already: choose an empty directory; nothing was changed",
        ),
        (
            "letter.txt",
            "/data is not empty: it has letter.txt. Choose an empty directory; nothing was changed",
        ),
    ];
    for (name, told) in cases {
        let disk = copy.disk.after_kill();
        write_file(&disk, &data.join(name), b"of someone else");
        let why = refusal(&life, &disk, &copy.manifest, ErrorKind::Refused);
        assert_eq!(why, told);
    }
    let restored = copy.restore(&life);
    let why = refusal(&life, &restored, &copy.manifest, ErrorKind::Refused);
    assert!(why.contains("is a data directory already"), "{why}");
    // One on the root of a volume.
    let disk = copy.disk.after_kill();
    disk.create_dir_all(&data.join("lost+found")).unwrap();
    restore(&disk, &copy.manifest, None, &life.options()).unwrap();
}

#[test]
fn a_manifest_that_cannot_be_used_is_refused() {
    let mut life = Life::small();
    life.checkpoint();
    let manifest = |life: &Life| read_file(&life.disk, &Path::new(DIR).join("MANIFEST"));
    let whole = manifest(&life);
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let copy = life.copy();
    let why = refusal(&life, &copy.disk, &damaged, ErrorKind::Refused);
    assert!(why.contains("the copy of the manifest is damaged"), "{why}");
    // Without an archive nothing tells whether it is complete.
    let options = life.options().archive(off());
    let disk = std::sync::Arc::new(life.disk.after_kill());
    life.disk = (*disk).clone();
    life.store = abide_storage::Store::open(disk, Path::new(DIR), options).unwrap();
    let why = refusal(&life, &copy.disk, &manifest(&life), ErrorKind::Refused);
    assert!(why.contains("the archive was not complete"), "{why}");
}

#[test]
fn a_downloaded_archive_is_not_taken_for_an_empty_directory() {
    let life = Life::small();
    let copy = life.copy();
    let disk = copy.disk.after_kill();
    let opened = abide_storage::Store::open(
        std::sync::Arc::new(disk.clone()),
        Path::new(DIR),
        life.options(),
    );
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(
        disk.list(&Path::new(DIR).join("archive")).unwrap().len(),
        runs(&copy).len()
    );
}

#[test]
fn a_manifest_of_another_directory_is_refused() {
    let life = Life::small();
    let copy = life.copy();
    let text = String::from_utf8(copy.manifest.clone()).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let other = body.replace(",\n    \"Third\"", "");
    assert_ne!(other, body);
    let crc = crc32c::crc32c(other.as_bytes());
    let other = format!("abide manifest 1 {crc:08x}\n{other}");
    let why = refusal(&life, &copy.disk, other.as_bytes(), ErrorKind::Refused);
    assert!(why.contains("they do not belong together"), "{why}");
}
