//! What a restore refuses of the tail of a log, before it has written anything.

use std::path::Path;

use abide_storage::{Disk as _, ErrorKind, LogPart, Store};

use super::{
    life::{Life, object_files, restore, write_file},
    refused::refusal,
    shipped::{Shipped, file, small, tail},
};
use crate::common::{DIR, read_file};

#[test]
fn s23_any_damaged_byte_of_any_part_is_refused() {
    let (life, shipped) = small(100_000);
    let disk = shipped.disk();
    for (number, part) in shipped.parts.iter().enumerate() {
        let path = file(number);
        let step = if part.bytes.len() > 5_000 { 211 } else { 1 };
        for at in (0..part.bytes.len() as u64).step_by(step) {
            disk.flip(&path, at);
            // The version is told from damage.
            let kind = match at {
                8..12 => ErrorKind::Refused,
                _ => ErrorKind::Damaged,
            };
            let why = refusal(&life, &disk, &shipped.manifest, kind);
            assert!(why.contains(&*path.to_string_lossy()), "{why}");
            disk.flip(&path, at);
        }
    }
    restore(&disk, &shipped.manifest, None, &life.options()).unwrap();
}

#[test]
fn s23_a_short_or_long_part_is_refused() {
    let (life, shipped) = small(100_000);
    for (number, part) in shipped.parts.iter().enumerate() {
        let bytes = &part.bytes;
        let longer = [bytes, &b"12345678"[..]].concat();
        let twice = [bytes, &bytes[..]].concat();
        for other in [
            &bytes[8..],
            &bytes[..bytes.len() - 8],
            &bytes[..30],
            &[],
            &longer,
            &twice,
        ] {
            let disk = shipped.disk();
            write_file(&disk, &file(number), other);
            let why = refusal(&life, &disk, &shipped.manifest, ErrorKind::Damaged);
            assert!(why.contains(&*file(number).to_string_lossy()), "{why}");
        }
    }
}

#[test]
fn parts_that_do_not_continue_each_other_are_refused() {
    let (life, shipped) = small(1);
    assert!(shipped.parts.len() > 4);
    for number in 0..shipped.parts.len() - 1 {
        let disk = shipped.disk();
        disk.remove(&file(number)).unwrap();
        let why = refusal(&life, &disk, &shipped.manifest, ErrorKind::Refused);
        let told = if number == 0 {
            "but the archive ends at"
        } else {
            "but the part before it ends at"
        };
        assert!(why.contains(told), "{why}");
        let disk = shipped.disk();
        write_file(&disk, &file(number), &shipped.parts[number + 1].bytes);
        refusal(&life, &disk, &shipped.manifest, ErrorKind::Refused);
    }
}

#[test]
fn a_tail_that_names_other_classes_is_refused() {
    let (life, shipped) = small(100_000);
    let text = String::from_utf8(shipped.manifest.clone()).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let other = body.replace("\"Third\"", "\"Other\"");
    assert_ne!(other, body);
    let crc = crc32c::crc32c(other.as_bytes());
    let other = format!("abide manifest 1 {crc:08x}\n{other}");
    let why = refusal(&life, &shipped.disk(), other.as_bytes(), ErrorKind::Refused);
    assert!(why.contains("they do not belong together"), "{why}");
}

#[test]
fn files_beside_the_parts_are_not_read() {
    let (life, shipped) = small(100_000);
    let (whole, _) = shipped.restore_at(&life, None).unwrap();
    let disk = shipped.disk();
    for name in [
        "1.part",
        "0000000000000001.part.new",
        "000000000000000A.part",
        "notes",
    ] {
        write_file(&disk, &tail().join(name), b"not a part");
    }
    restore(&disk, &shipped.manifest, None, &life.options()).unwrap();
    assert_eq!(object_files(&disk), object_files(&whole));
}

#[test]
fn a_downloaded_tail_is_not_taken_for_an_empty_directory() {
    let mut life = Life::new(std::time::Duration::from_hours(1));
    let mut shipped = Shipped::of(&life);
    let key = life.key("First", 1);
    life.put(key, "value");
    shipped.ship(&life, || usize::MAX);
    let disk = shipped.disk();
    let opened = Store::open(
        std::sync::Arc::new(disk.clone()),
        Path::new(DIR),
        life.options(),
    );
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let LogPart { bytes, .. } = &shipped.parts[0];
    assert_eq!(read_file(&disk, &file(0)), *bytes);
}
