//! `abide class`: the classes of a data directory that no node serves.

use std::io::Write;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};

use crate::data::{Data, DataArgs};

#[derive(Subcommand)]
pub(crate) enum Classes {
    /// Print the classes and the number of their objects
    List(DataArgs),
    /// Delete a class with all its objects, their alarms and files; this cannot be undone
    Delete(DeleteArgs),
}

#[derive(Args)]
pub(crate) struct DeleteArgs {
    /// Unique key of the class: by default its name
    class: String,

    /// Delete it; without this, only print what would be deleted
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(command: &Classes, out: &mut impl Write) -> Result<()> {
    match command {
        Classes::List(args) => list(args, out),
        Classes::Delete(args) => delete(args, out),
    }
}

fn list(args: &DataArgs, out: &mut impl Write) -> Result<()> {
    let data = args.open()?;
    writeln!(out, "CLASS\tOBJECTS")?;
    for (namespace, class) in data.store.namespaces() {
        let objects = data.store.objects(namespace)?.len();
        writeln!(out, "{class}\t{objects}")?;
    }
    data.close()
}

fn delete(args: &DeleteArgs, out: &mut impl Write) -> Result<()> {
    let data = args.data.open()?;
    let class = &args.class;
    let objects = count(&data, class)?;
    if args.yes {
        let detail = Some(format!("{class}: {objects} objects"));
        data.audited("delete_class", None, detail, || {
            Ok(data.store.delete_namespace(class)?)
        })?;
        writeln!(out, "deleted {class} and its {objects} objects")?;
    } else {
        writeln!(
            out,
            "{class} has {objects} objects; to delete them for good, add --yes"
        )?;
    }
    data.close()
}

/// The number of objects of a class.
fn count(data: &Data, class: &str) -> Result<usize> {
    let classes = data.store.namespaces();
    let namespace = classes.iter().find(|(_, known)| known == class);
    let known: Vec<_> = classes.iter().map(|(_, known)| known.as_str()).collect();
    ensure!(
        namespace.is_some(),
        "there is no class {class:?} in this data directory; it has {}",
        known.join(", ")
    );
    let objects = namespace.map(|(number, _)| data.store.objects(*number));
    Ok(objects.transpose()?.map_or(0, |objects| objects.len()))
}
