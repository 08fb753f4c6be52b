//! A modified data directory: opening it yields a working store, or an error without any change.
//!
//! The directory is a real one, on a simulated disk: objects, alarms, runs of the archive, and a log with a tail. The
//! input describes the modifications. Optionally, the checksums are recomputed afterwards, so that the modification
//! gets past them. No disk does that, but the guarantee holds nevertheless.

use crate::input::Input;
use abide_storage::fuzzing::seal;
use abide_storage::{AlarmRow, Disk, ErrorKind, ObjectKey, OpenMode, SimDisk, Store, StoreOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const DIR: &str = "/data";

/// The capacity of the disk: a damaged length must not allocate more.
const CAPACITY: u64 = 32 << 20;

/// Modifications taken from one input.
const MAX_CHANGES: usize = 64;

/// The files of a directory and those below it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The first byte of the input selects the directory and whether checksums are recomputed; modifications follow.
pub fn target(bytes: &[u8]) {
    let mut input = Input(bytes);
    let choice = input.byte();
    let disk = directories()[usize::from(choice >> 1) % 2].after_kill();
    disk.set_capacity(Some(CAPACITY));
    let before = files(&disk, Path::new(DIR));
    let mut after = before.clone();
    for _ in 0..MAX_CHANGES {
        if input.is_empty() {
            break;
        }
        change(&mut after, &mut input);
    }
    for (path, bytes) in &mut after {
        if choice & 1 == 1 && before.get(path) != Some(bytes) {
            seal(path, bytes);
        }
    }
    write(&disk, &before, &after);
    match open(&disk) {
        Ok(store) => works(&disk, &store),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if error.kind() == ErrorKind::Refused {
                let left = files(&disk, Path::new(DIR));
                assert!(left == after, "refused ({error}), and yet changed");
            }
        }
    }
}

fn open(disk: &SimDisk) -> abide_storage::Result<Store> {
    let options = StoreOptions::small()
        .manual(true)
        .unix_millis(Arc::new(|| 1_800_000_000_000));
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

/// An opened store accepts writes, closes, and can be reopened with everything acknowledged.
fn works(disk: &SimDisk, store: &Store) {
    for (namespace, _) in store.namespaces() {
        for key in store.objects(namespace).unwrap_or_default() {
            use_object(store, key);
        }
    }
    let _ = store.verify_archive();
    let acknowledged = write_anew(store);
    // Damage may prevent the write of an object's file, which is reported.
    let closed = store.close();
    if let Err(error) = &closed {
        assert!(!error.to_string().is_empty());
    }
    if !acknowledged {
        return;
    }
    let store = open(disk).unwrap_or_else(|error| panic!("closed {closed:?}, then: {error}"));
    let db = store.open_object(new_object(&store)).expect("the object");
    let value = db.kv_get("kept").expect("a get");
    assert_eq!(value.as_deref(), Some(&b"for good"[..]), "a write is lost");
    drop(db);
    let _ = store.close();
}

/// A damaged object reports an error and affects no other object.
fn use_object(store: &Store, key: ObjectKey) {
    let told = |error: &abide_storage::Error| assert!(!error.to_string().is_empty());
    let db = match store.open_object(key) {
        Ok(db) => db,
        Err(error) => return told(&error),
    };
    let done = db
        .kv_list(&abide_storage::ListOptions::default())
        .and_then(|_| db.alarm())
        .and_then(|_| db.kv_put("after", b"recovery"))
        .and_then(|()| db.commit());
    if let Err(error) = done {
        told(&error);
        db.rollback();
    }
}

/// Writes to a new object. Returns false if the disk is full or the log has failed.
fn write_anew(store: &Store) -> bool {
    let written = (|| {
        let db = store.open_object(new_object(store))?;
        db.kv_put("kept", b"for good")?;
        db.commit()
    })();
    match written {
        Ok(lsn) => {
            while store.write_group() {}
            let durable = lsn.is_some_and(|lsn| store.durable() >= lsn);
            assert!(durable || store.failed() || store.no_space(), "not durable");
            durable
        }
        Err(error) => {
            let excused = matches!(
                error.kind(),
                ErrorKind::NoSpace | ErrorKind::LogFailed | ErrorKind::Io
            );
            assert!(excused, "a new object was rejected: {error}");
            false
        }
    }
}

fn new_object(store: &Store) -> ObjectKey {
    let namespace = store.namespaces().first().map(|(number, _)| *number);
    ObjectKey {
        namespace: namespace.unwrap_or_else(|| store.namespace("new").expect("a namespace")),
        id: [77; 32],
    }
}

/// Changes one file.
fn change(files: &mut Files, input: &mut Input<'_>) {
    let choice = input.byte();
    let place = usize::from(input.byte()) % files.len().max(1);
    let Some(path) = files.keys().nth(place).cloned() else {
        return;
    };
    let (at, other) = (input.number(), usize::from(input.byte()));
    let bytes = input.bytes();
    let Some(file) = files.get_mut(&path) else {
        return;
    };
    let at = at % (file.len() + 1);
    match choice % 8 {
        0 | 1 => {
            let end = file.len().min(at + bytes.len());
            file[at..end].copy_from_slice(&bytes[..end - at]);
        }
        2 => file.truncate(at),
        3 => file.extend_from_slice(bytes),
        4 => *file = bytes.to_vec(),
        5 => {
            files.remove(&path);
        }
        6 => {
            let source = files.values().nth(other % files.len()).cloned();
            files.insert(path, source.unwrap_or_default());
        }
        _ => {
            let end = file.len().min(at + other);
            file.splice(at..at, bytes.iter().copied());
            file.drain(at + bytes.len()..end + bytes.len());
        }
    }
}

/// Directories to modify: one that was killed before its first checkpoint, and one with a history.
fn directories() -> &'static [SimDisk; 2] {
    static DIRECTORIES: OnceLock<[SimDisk; 2]> = OnceLock::new();
    DIRECTORIES.get_or_init(|| [killed(false), killed(true)])
}

fn killed(with_past: bool) -> SimDisk {
    let disk = SimDisk::new();
    let store = open(&disk).expect("an empty disk");
    let namespace = store.namespace("objects").expect("a namespace");
    let rounds = if with_past { 3 } else { 1 };
    for round in 0..rounds {
        for id in 0..3 {
            let db = store.open_object(ObjectKey {
                namespace,
                id: [id; 32],
            });
            let db = db.expect("an object");
            for commit in 0..3_u8 {
                let value = [round * 16 + commit; 40];
                db.kv_put(&format!("key {commit}"), &value).expect("a put");
                let alarm = (id > 0).then(|| AlarmRow::at(1_900_000_000_000 + i64::from(commit)));
                db.set_alarm(alarm.as_ref()).expect("an alarm");
                db.commit().expect("a commit");
                while store.write_group() {}
            }
        }
        if round + 1 < rounds {
            store.checkpoint().expect("a checkpoint");
            store.run_maintenance().expect("maintenance");
        }
    }
    disk.after_kill()
}

/// Pieces of the files of a directory with a history, each prefixed with the number of its decoder, by name: the seeds
/// for the decoders.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let files = files(&directories()[1], Path::new(DIR));
    let mut samples = Vec::new();
    for (path, bytes) in &files {
        let dir = path.parent().and_then(Path::file_name).unwrap_or_default();
        let pieces: &[(u8, usize, usize)] = match dir.to_str() {
            Some("data") => &[(3, 0, 4096)],
            // A segment's header, a record's header, its page entries.
            Some("log") => &[(2, 0, 48), (0, 4096, 104), (1, 4200, 2048)],
            // A block of a run; its last 176 bytes are an index block of one object and the footer.
            Some("archive") => &[(5, 64, 2048)],
            _ => &[],
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for (decoder, from, length) in pieces {
            let from = bytes.get(*from..).unwrap_or_default();
            let piece = &from[..from.len().min(*length)];
            let sample = [&[*decoder], piece].concat();
            samples.push((format!("{decoder}-{name}"), sample));
        }
    }
    for (decoder, length) in [(4, 76), (6, 136)] {
        let mut sample = vec![decoder];
        sample.extend(if decoder == 4 {
            [length, 0, 0, 0]
        } else {
            [0; 4]
        });
        sample.extend(if decoder == 4 {
            [3, 0, 0, 0]
        } else {
            [1, 0, 0, 0]
        });
        sample.resize(1 + usize::from(length), 1);
        samples.push((format!("{decoder}-made"), sample));
    }
    let store = open(&directories()[1].after_kill()).expect("it is whole");
    let part = store.log_part(None, 1000).expect("the log is whole");
    let part = part.expect("the log has a tail").bytes;
    samples.push(("7-part".to_owned(), [&[7], &part[..]].concat()));
    samples
}

fn files(disk: &SimDisk, dir: &Path) -> Files {
    let mut found = Files::new();
    for name in disk.list(dir).expect("a directory") {
        let path = dir.join(name);
        match disk.open(&path, OpenMode::Existing) {
            Ok(file) => {
                let mut bytes = vec![0; file.len().expect("a length") as usize];
                file.read_at(&mut bytes, 0).expect("the bytes");
                found.insert(path, bytes);
            }
            Err(_) => found.extend(files(disk, &path)),
        }
    }
    found
}

fn write(disk: &SimDisk, before: &Files, after: &Files) {
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        disk.remove(path).expect("the file");
    }
    for (path, bytes) in after {
        if before.get(path) == Some(bytes) {
            continue;
        }
        let file = disk.open(path, OpenMode::Create).expect("a file");
        file.set_len(0).expect("room");
        file.write_at(bytes, 0).expect("room");
        file.sync().expect("a sync");
    }
}
