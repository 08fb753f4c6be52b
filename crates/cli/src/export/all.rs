//! `abide export --class` and `--all`: the databases of many objects, as of one position of the log.
//!
//! From a running node, the objects are listed and read as of a cut, however long that takes. In a directory that no node serves
//! nothing is written meanwhile, so the objects' files are copied as they are.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use abide::{
    Bookmark, ObjectId,
    clock::{Clock as _, SystemClock},
};
use abide_storage::{ErrorKind, ObjectKey};
use anyhow::{Context, Result, bail, ensure};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde::{Deserialize, Serialize};

use super::{
    listing::{Entry, Head, Missing, Summing, Writer, file_of, sync_dir},
    write,
};
use crate::{
    data::Data,
    meter::Meter,
    node::{Node, NodeArgs, Source, code, segment},
};

/// Objects that are listed at a time.
const PAGE: usize = 1000;

/// The parts of all ids by their first two bytes: ids are uniform, so these show how far an export is.
const PARTS: u64 = 1 << 16;

/// Errors of a node that concern one object: its history lacks the state. All others end the export.
const OF_AN_OBJECT: [&str; 2] = ["bad_request", "object_damaged"];

#[derive(Deserialize)]
struct CutBody {
    cut: String,
    time: u64,
    position: String,
}

#[derive(Deserialize)]
struct Page {
    objects: Vec<Listed>,
    next: Option<Next>,
}

#[derive(Deserialize)]
struct Listed {
    class: String,
    id: String,
    bookmark: Option<Bookmark>,
}

#[derive(Deserialize)]
struct Next {
    after_class: String,
    after: String,
}

#[derive(Serialize)]
struct At {
    bookmark: Bookmark,
}

/// An export that is being written.
struct Export {
    dir: PathBuf,
    listing: Writer,
    class_dirs: BTreeSet<PathBuf>,
    objects: u64,
    bytes: u64,
    missing: Vec<Missing>,
    meter: Meter,
}

/// Writes all objects, of one class or of all, to a directory.
pub(super) fn run(
    class: Option<&str>,
    dir: &Path,
    node: &NodeArgs,
    out: &mut impl Write,
) -> Result<()> {
    must_be_empty(dir)?;
    let (export, time) = match node.source()? {
        Source::Node(node) => of_node(&node, class, dir)?,
        Source::Data(data) => {
            let export = of_data(&data, class, dir)?;
            data.close()?;
            export
        }
    };
    export.finish(time, out)
}

fn must_be_empty(dir: &Path) -> Result<()> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        entries => {
            let mut entries = entries.with_context(|| format!("cannot read {}", dir.display()))?;
            ensure!(
                entries.next().is_none(),
                "{} is not empty: choose another directory with --to",
                dir.display()
            );
            Ok(())
        }
    }
}

fn of_node(node: &Node, class: Option<&str>, dir: &Path) -> Result<(Export, u64)> {
    let cut: CutBody = node.post("/cuts", &())?;
    let objects = format!("/cuts/{}/objects", cut.cut);
    let only = class.map(|class| format!("class={}", segment(class)));
    let page = |next: Option<&Next>| {
        let next = next.map(|next| {
            let (class, after) = (segment(&next.after_class), segment(&next.after));
            format!("after_class={class}&after={after}")
        });
        let query: Vec<_> = only.iter().cloned().chain(next).collect();
        node.get::<Page>(&format!("{objects}?{}", query.join("&")))
    };
    // Before anything is made: there may be no such class.
    let mut listed = page(None)?;
    let mut export = Export::begin(dir, cut.position, cut.time)?;
    loop {
        for object in listed.objects {
            let id: ObjectId = object.id.parse()?;
            export.meter.show(part(&id), PARTS);
            let Some(bookmark) = object.bookmark else {
                export.is_missing(object.class, id, "its history does not have its state");
                continue;
            };
            let path = format!("/objects/{}/{id}/export", segment(&object.class));
            let added = export.add(&object.class, id, |to| {
                node.download(&path, &At { bookmark }, to)?;
                Ok(bookmark)
            });
            if let Err(error) = added {
                let is_of_object = code(&error).is_some_and(|code| OF_AN_OBJECT.contains(&code));
                if !is_of_object {
                    return Err(error.context(format!("cannot export {}/{id}", object.class)));
                }
                export.is_missing(object.class, id, &error.to_string());
            }
        }
        match &listed.next {
            Some(next) => listed = page(Some(next))?,
            None => return Ok((export, cut.time)),
        }
    }
}

fn of_data(data: &Data, class: Option<&str>, dir: &Path) -> Result<(Export, u64)> {
    let store = &data.store;
    let mut classes = store.namespaces();
    if let Some(class) = class {
        let known: Vec<_> = classes.iter().map(|(_, known)| known.clone()).collect();
        classes.retain(|(_, known)| known == class);
        ensure!(
            !classes.is_empty(),
            "there is no class {class:?} in this data directory; it has {}",
            known.join(", ")
        );
    }
    // From here on, the files are the objects.
    store.checkpoint()?;
    let time = SystemClock::new().unix_millis();
    let mut export = Export::begin(dir, store.timelines_end().to_string(), time)?;
    let total = PARTS * classes.len() as u64;
    for (done, (namespace, class)) in (0..).zip(&classes) {
        let mut after = None;
        loop {
            let keys = store.objects_after(*namespace, after, PAGE)?;
            let Some(last) = keys.last() else { break };
            after = Some(last.id);
            for key in keys {
                let id: ObjectId = key.id_hex().parse()?;
                export.meter.show(PARTS * done + part(&id), total);
                if let Err(error) = export.add(class, id, |to| present(data, key, to)) {
                    if !is_of_object(&error) {
                        return Err(error.context(format!("cannot export {class}/{id}")));
                    }
                    export.is_missing(class.clone(), id, &error.to_string());
                }
            }
        }
    }
    Ok((export, time))
}

/// Writes an object of a directory as it is: its file, or what its history has if it is quarantined or has no file yet.
fn present(data: &Data, key: ObjectKey, to: &mut dyn Write) -> Result<Bookmark> {
    let is_quarantined = data.store.quarantined().iter().any(|of| of.key == key);
    let bookmark = if is_quarantined {
        data.store.bookmark_at(key, u64::MAX)?
    } else {
        data.store.bookmark(key)?
    };
    let path = data.store.object_path(key).filter(|_| !is_quarantined);
    let file = path.map(File::open).transpose();
    match file {
        Ok(Some(mut file)) => {
            io::copy(&mut file, to)?;
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => write(&data.store.database_at(key, &bookmark)?, to)?,
    }
    Ok(bookmark)
}

/// Returns whether an error concerns one object.
fn is_of_object(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<abide_storage::Error>();
    error.is_some_and(|error| matches!(error.kind(), ErrorKind::Input | ErrorKind::Damaged))
}

/// How far a walk over all ids is.
fn part(id: &ObjectId) -> u64 {
    let [first, second, ..] = *id.as_bytes();
    u64::from(u16::from_be_bytes([first, second]))
}

impl Export {
    fn begin(dir: &Path, position: String, time: u64) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        Ok(Self {
            listing: Writer::create(dir, &Head { position, time })?,
            dir: dir.to_owned(),
            class_dirs: BTreeSet::new(),
            objects: 0,
            bytes: 0,
            missing: Vec::new(),
            meter: Meter::new("exported"),
        })
    }

    /// Writes the file of an object, durably, and lists it. After an error there is no file.
    fn add(
        &mut self,
        class: &str,
        id: ObjectId,
        write: impl FnOnce(&mut dyn Write) -> Result<Bookmark>,
    ) -> Result<()> {
        let path = file_of(&self.dir, class, &id);
        let class_dir = path.parent().unwrap_or(&self.dir);
        if !self.class_dirs.contains(class_dir) {
            fs::create_dir(class_dir)
                .with_context(|| format!("cannot create {}", class_dir.display()))?;
            self.class_dirs.insert(class_dir.to_owned());
        }
        let failed = || format!("cannot write {}", path.display());
        let file = File::create_new(&path).with_context(failed)?;
        let mut to = Summing::new(BufWriter::new(file));
        let written = write(&mut to);
        let bookmark = match written {
            Ok(bookmark) => bookmark,
            Err(error) => {
                fs::remove_file(&path).with_context(failed)?;
                return Err(error);
            }
        };
        to.flush().with_context(failed)?;
        let (file, bytes, sha256) = to.finish();
        file.get_ref().sync_all().with_context(failed)?;
        self.listing.add(&Entry {
            class: class.to_owned(),
            id,
            name: name_in(&path)?,
            bookmark,
            bytes,
            sha256,
        })?;
        self.objects += 1;
        self.bytes += bytes;
        Ok(())
    }

    fn is_missing(&mut self, class: String, id: ObjectId, why: &str) {
        let why = why.to_owned();
        self.missing.push(Missing { class, id, why });
    }

    /// Completes the export. Names what is missing.
    fn finish(self, time: u64, out: &mut impl Write) -> Result<()> {
        self.meter.end();
        for dir in &self.class_dirs {
            sync_dir(dir)?;
        }
        sync_dir(&self.dir)?;
        self.listing.finish(&self.missing)?;
        let parent = self.dir.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new(".")))?;
        writeln!(
            out,
            "{}\t{} objects\t{} bytes\tas of {}",
            self.dir.display(),
            self.objects,
            self.bytes,
            crate::text::time(i64::try_from(time).ok())
        )?;
        if self.missing.is_empty() {
            return Ok(());
        }
        for object in &self.missing {
            writeln!(
                out,
                "missing\t{}/{}\t{}",
                object.class, object.id, object.why
            )?;
        }
        out.flush()?;
        bail!(
            "{} objects could not be exported, and are listed as missing; the export has all others. `abide quarantined` lists what to \
             repair",
            self.missing.len()
        )
    }
}

/// The name of the object in an exported database.
fn name_in(path: &Path) -> Result<Option<String>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = || {
        let db = Connection::open_with_flags(path, flags)?;
        let sql = "SELECT value FROM _abide_meta WHERE key = 'name'";
        db.query_row(sql, (), |row| row.get(0)).optional()
    };
    read().with_context(|| format!("cannot read the object's name in {}", path.display()))
}
