//! `abide import`: creates objects from an export, or one from any SQLite database.

mod body;
mod convert;
mod target;

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use abide::ObjectId;
use anyhow::{Context, Result, ensure};
use clap::Args;

pub(crate) use body::FileBody;

use self::{
    convert::Converted,
    target::{Known, Object, Origin, Target},
};
use crate::{
    export::listing::{Entry, Listing, Sum, Summing},
    meter::Meter,
    node::NodeArgs,
};

/// Objects that an error names.
const NAMED: usize = 10;

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// A directory that `abide export --class` or `--all` has written; with --to, a SQLite database
    path: PathBuf,

    /// The new object of a database: its class, a slash, and its name or id
    #[arg(long, value_name = "CLASS/NAME")]
    to: Option<String>,

    /// The originals are gone, and the new objects act in their place; without it they are dormant until `abide activate`
    #[arg(long)]
    act: bool,

    /// Import what there is, although objects are missing in the export
    #[arg(long, conflicts_with = "to")]
    incomplete: bool,

    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &ImportArgs, out: &mut impl Write) -> Result<()> {
    match &args.to {
        Some(to) => one(args, to, out),
        None => all(args, out),
    }
}

/// Makes an object from a file.
fn one(args: &ImportArgs, to: &str, out: &mut impl Write) -> Result<()> {
    let object = Object::parse(to)?;
    let converted = Converted::of(&args.path)?;
    let (bytes, sha256) = sum_of(converted.path())?;
    let target = Target::of(&args.node)?;
    let known = target.look_for(&object)?;
    ensure!(
        known == Known::Absent,
        "the object {to} exists: an import replaces nothing; choose a name that was never used"
    );
    let origin = Origin {
        source: sha256,
        position: None,
        act: args.act,
    };
    target.import(&object, converted.path(), sha256, &origin)?;
    target.close()?;
    writeln!(out, "{}\t{}\t{to}\t{bytes} bytes", object.class, object.id)?;
    tell_of_dormancy(args.act, out)
}

/// Makes all objects of an export. What an interrupted import has made is skipped.
fn all(args: &ImportArgs, out: &mut impl Write) -> Result<()> {
    let dir = &args.path;
    ensure!(
        dir.is_dir(),
        "{} is not the directory of an export; to import a database, name the new object with --to CLASS/NAME",
        dir.display()
    );
    let (listing, source) = Listing::read(dir)?;
    ensure!(
        listing.missing.is_empty() || args.incomplete,
        "{} objects are missing in the export, as it says itself; to import the others, add --incomplete",
        listing.missing.len()
    );
    let origin = Origin {
        source,
        position: Some(listing.position.parse()?),
        act: args.act,
    };
    for entry in &listing.objects {
        object_of(entry)?;
    }
    must_be_whole(dir, &listing)?;
    let target = Target::of(&args.node)?;
    let wanted = wanted(&target, &listing, source)?;
    let skipped = listing.objects.len() - wanted.len();
    let total: u64 = wanted.iter().map(|entry| entry.bytes).sum();
    let meter = Meter::new("imported");
    let mut done = 0;
    for entry in &wanted {
        let imported = target.import(&object_of(entry)?, &entry.file(dir), entry.sha256, &origin);
        imported.with_context(|| {
            format!(
                "cannot import {}; the objects before it are imported, and the same command continues with it",
                entry.object()
            )
        })?;
        done += entry.bytes;
        meter.show(done, total);
    }
    meter.end();
    target.close()?;
    write!(out, "imported {} objects, {total} bytes", wanted.len())?;
    match skipped {
        0 => writeln!(out)?,
        _ => writeln!(out, "; {skipped} were imported before")?,
    }
    tell_of_dormancy(args.act, out)
}

fn tell_of_dormancy(act: bool, out: &mut impl Write) -> Result<()> {
    if !act {
        writeln!(
            out,
            "dormant until `abide activate`: objects answer calls and do nothing else; `abide dormant` lists them"
        )?;
    }
    Ok(())
}

/// An object of a listing, if its id is one of its class and its name.
fn object_of(entry: &Entry) -> Result<Object> {
    let (class, id) = (&entry.class, entry.id);
    match &entry.name {
        Some(name) => ensure!(
            ObjectId::from_name(class, name) == id,
            "the object {class}/{id} has the name {name:?}, which has another id in this class: its class had another unique key"
        ),
        None => ensure!(
            id.is_of(class),
            "the id {id} is not one of the class {class:?}: its class had another unique key"
        ),
    }
    Ok(Object {
        class: class.clone(),
        id,
        name: entry.name.clone(),
    })
}

/// Compares each file with the listing.
fn must_be_whole(dir: &Path, listing: &Listing) -> Result<()> {
    let total: u64 = listing.objects.iter().map(|entry| entry.bytes).sum();
    let meter = Meter::new("checked");
    let mut done = 0;
    for entry in &listing.objects {
        let path = entry.file(dir);
        let (bytes, sha256) = sum_of(&path)?;
        ensure!(
            (bytes, sha256) == (entry.bytes, entry.sha256),
            "{} is not as it was exported: it was damaged or changed; copy the export again. Nothing was imported",
            path.display()
        );
        done += bytes;
        meter.show(done, total);
    }
    meter.end();
    Ok(())
}

/// The objects that are to be imported: those that are absent. The others must be there from the same export.
fn wanted<'a>(target: &Target, listing: &'a Listing, source: Sum) -> Result<Vec<&'a Entry>> {
    let (mut wanted, mut others, mut count) = (Vec::new(), Vec::new(), 0);
    for entry in &listing.objects {
        match target.look_for(&object_of(entry)?)? {
            Known::Absent => wanted.push(entry),
            Known::Imported(from) if from == source => {}
            Known::Imported(_) | Known::Other => {
                count += 1;
                if others.len() < NAMED {
                    others.push(entry.object());
                }
            }
        }
    }
    let more = if count > others.len() { ", …" } else { "" };
    ensure!(
        count == 0,
        "{count} objects exist, and an import replaces nothing: {}{more}. Nothing was imported",
        others.join(", ")
    );
    Ok(wanted)
}

/// The length of a file, and its checksum.
fn sum_of(path: &Path) -> Result<(u64, Sum)> {
    let failed = || format!("cannot read {}", path.display());
    let mut file = Summing::new(File::open(path).with_context(failed)?);
    io::copy(&mut file, &mut io::sink()).with_context(failed)?;
    let (_, bytes, sum) = file.finish();
    Ok((bytes, sum))
}
