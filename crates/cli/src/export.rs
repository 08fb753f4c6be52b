//! `abide export`, and the copies of databases that `abide sql` reads.

mod all;
pub(crate) mod listing;

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use abide::Bookmark;
use abide_storage::PastDatabase;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use crate::{
    data::Data,
    node::{Node, NodeArgs, Source},
    object::ObjectArg,
    recovery::{Moment, Time},
};

/// Bytes that are copied at a time.
const PIECE: usize = 256 << 10;

/// The options for a point in an object's history; without one, now.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct PastArgs {
    /// As of the last commit at or before a time, such as 2026-03-01T12:00:00Z or -15m [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<Time>,

    /// As of the commit of a bookmark
    #[arg(long)]
    bookmark: Option<Bookmark>,
}

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The object: Class/name, its id, or the first digits of its id; the name alone if only one class has it
    #[arg(value_name = "OBJECT", required_unless_present_any = ["class", "all"], conflicts_with_all = ["class", "all"])]
    object: Option<String>,

    /// All objects of a class, given by its unique key, as of one moment
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["all", "at", "bookmark"])]
    class: Option<String>,

    /// All objects, as of one moment
    #[arg(long, conflicts_with_all = ["at", "bookmark"])]
    all: bool,

    /// The file, which must not exist; for all objects a directory, which must not exist or be empty
    #[arg(long, value_name = "PATH")]
    to: PathBuf,

    #[command(flatten)]
    past: PastArgs,

    #[command(flatten)]
    node: NodeArgs,
}

impl PastArgs {
    pub(crate) fn moment(&self) -> Option<Moment> {
        Moment::given(self.at, self.bookmark)
    }
}

/// The body of a request for a database.
#[derive(Serialize)]
struct Request {
    #[serde(flatten)]
    at: Option<Moment>,
}

/// A copy of an object's database.
pub(crate) struct Copy {
    pub(crate) path: TempPath,
    bookmark: String,
    bytes: u64,
}

impl Copy {
    /// Of an object in a data directory, in a new file beside others.
    pub(crate) fn of_data(
        data: &Data,
        object: &ObjectArg,
        at: Option<Moment>,
        dir: &Path,
    ) -> Result<Self> {
        let key = object.in_history(data)?.key;
        let bookmark = match at {
            None => data.store.bookmark(key)?,
            Some(at) => at.find(&data.store, key)?,
        };
        let database = data.store.database_at(key, &bookmark)?;
        Self::make(dir, |to| {
            write(&database, to)?;
            Ok(bookmark.to_string())
        })
    }

    /// Of an object on a running node.
    pub(crate) fn of_node(
        node: &Node,
        object: &ObjectArg,
        at: Option<Moment>,
        dir: &Path,
    ) -> Result<Self> {
        let path = object.on_node(node)?.path("objects", "export");
        Self::make(dir, |to| {
            let headers = node.download(&path, &Request { at }, to)?;
            let bookmark = headers
                .get("abide-bookmark")
                .and_then(|of| of.to_str().ok());
            Ok(bookmark.unwrap_or_default().to_owned())
        })
    }

    fn make(
        dir: &Path,
        fill: impl FnOnce(&mut BufWriter<&File>) -> Result<String>,
    ) -> Result<Self> {
        let made = NamedTempFile::new_in(dir);
        let made = made.with_context(|| format!("cannot make a file in {}", dir.display()))?;
        let mut to = BufWriter::new(made.as_file());
        let bookmark = fill(&mut to)?;
        to.flush()?;
        drop(to);
        let bytes = made.as_file().metadata()?.len();
        Ok(Self {
            path: made.into_temp_path(),
            bookmark,
            bytes,
        })
    }

    /// Gives it a name, durably.
    fn keep(self, to: &Path, dir: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", to.display());
        File::open(&self.path)
            .and_then(|file| file.sync_all())
            .with_context(failed)?;
        self.path.persist_noclobber(to).with_context(failed)?;
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .with_context(failed)
    }
}

fn write(database: &PastDatabase, to: &mut (impl Write + ?Sized)) -> Result<()> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < database.len() {
        let length = database.read_at(&mut piece, at)?;
        ensure!(length > 0, "the copy of the database ended early");
        to.write_all(&piece[..length])?;
        at += length as u64;
    }
    Ok(())
}

/// Writes a database to a file, or many to a directory.
pub(crate) fn run(args: &ExportArgs, out: &mut impl Write) -> Result<()> {
    let to = &args.to;
    let Some(object) = &args.object else {
        return all::run(args.class.as_deref(), to, &args.node, out);
    };
    let object = ObjectArg::new(object);
    ensure!(
        !to.exists(),
        "{} exists: choose another file with --to",
        to.display()
    );
    let dir = match to.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let at = args.past.moment();
    let copy = match args.node.source()? {
        Source::Node(node) => Copy::of_node(&node, &object, at, dir)?,
        Source::Data(data) => {
            let copy = Copy::of_data(&data, &object, at, dir)?;
            data.close()?;
            copy
        }
    };
    let (bytes, bookmark) = (copy.bytes, copy.bookmark.clone());
    copy.keep(to, dir)?;
    writeln!(out, "{}\t{bytes} bytes\tas of {bookmark}", to.display())?;
    Ok(())
}
