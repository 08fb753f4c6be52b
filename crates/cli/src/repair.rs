//! `abide quarantined` and `abide repair`: quarantined objects, and repairs besides `abide restore`.
//!
//! If no node serves the data directory, it is opened directly; otherwise, or with `--admin`, the running node is
//! queried.

use std::{io::Write, path::PathBuf};

use abide::{Bookmark, storage::Repair};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    node::{NodeArgs, Source},
    recovery::ObjectArgs,
};

#[derive(Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    object: ObjectArgs,

    #[command(flatten)]
    with: WithArgs,
}

/// The new content of the object.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct WithArgs {
    /// Accept the content of its file, if that is a valid database; later writes are missing, unless they were saved
    /// when the object was quarantined
    #[arg(long)]
    accept: bool,

    /// Reset it to an object that was never written
    #[arg(long)]
    anew: bool,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum RepairMethod {
    Accept,
    Anew,
}

#[derive(Serialize)]
struct RepairRequest {
    with: RepairMethod,
}

#[derive(Deserialize)]
struct Repaired {
    bookmark: Bookmark,
    kept: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Quarantined {
    objects: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    class: String,
    id: String,
    why: String,
}

/// Prints a line for each object, its columns separated by tabs.
pub(crate) fn list(args: &NodeArgs, out: &mut impl Write) -> Result<()> {
    let objects = match args.source()? {
        Source::Node(node) => node.get::<Quarantined>("/quarantined")?.objects,
        Source::Data(data) => {
            // Damage to a file is detected when the object is opened.
            for object in data.objects()? {
                let _ = data.store.open_object(object.key);
            }
            let objects = data.quarantined();
            data.close()?;
            let listed = |(class, key, why): (String, abide_storage::ObjectKey, String)| Listed {
                class,
                id: key.id_hex(),
                why,
            };
            objects.into_iter().map(listed).collect()
        }
    };
    writeln!(out, "CLASS\tID\tWHY")?;
    for Listed { class, id, why } in objects {
        writeln!(out, "{class}\t{id}\t{why}")?;
    }
    Ok(())
}

pub(crate) fn repair(args: &RepairArgs, out: &mut impl Write) -> Result<()> {
    let (with, how) = if args.with.accept {
        (RepairMethod::Accept, Repair::Accept)
    } else {
        (RepairMethod::Anew, Repair::Anew)
    };
    let object = &args.object.object;
    let repaired = match args.object.node.source()? {
        Source::Node(node) => {
            let path = object.on_node(&node)?.path("objects", "repair");
            node.post(&path, &RepairRequest { with })?
        }
        Source::Data(data) => {
            let found = object.in_data(&data)?;
            let detail = serde_json::to_string(&RepairRequest { with })?;
            let repaired = data.audited("repair", Some(&found), Some(detail), || {
                Ok(data.store.repair(found.key, how)?)
            })?;
            data.close()?;
            Repaired {
                bookmark: repaired.bookmark,
                kept: repaired.kept,
            }
        }
    };
    writeln!(
        out,
        "repaired; its state now: --bookmark {}",
        repaired.bookmark
    )?;
    for path in repaired.kept {
        writeln!(out, "kept: {}", path.display())?;
    }
    Ok(())
}
