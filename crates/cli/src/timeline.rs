//! `abide timeline` and `abide dormant`: what an object was restored or forked from, and which objects are dormant.
//!
//! If no node serves the data directory, it is opened directly; otherwise, or with `--admin`, the running node is
//! queried.

use std::io::Write;

use abide::{Bookmark, ObjectId};
use abide_storage::{ObjectKey, StoredCause};
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    data::Data,
    node::{NodeArgs, Source, segment},
    recovery::ObjectArgs,
    text::{plain, time},
};

#[derive(Args)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    object: ObjectArgs,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct DormantArgs {
    #[command(flatten)]
    node: NodeArgs,

    /// Print a line of JSON for each object
    #[arg(long)]
    json: bool,
}

/// An object's timeline, in the admin listener's format.
#[derive(Serialize, Deserialize)]
struct Timeline {
    class: String,
    id: String,
    name: Option<String>,
    #[serde(rename = "timeline")]
    number: String,
    since: Option<i64>,
    #[serde(flatten)]
    cause: Cause,
    dormant: bool,
}

/// How it began.
#[derive(Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "lowercase")]
enum Cause {
    Created,
    Restored {
        from: Bookmark,
        to: Bookmark,
    },
    Forked {
        origin: String,
        /// `None` if the node does not have it.
        origin_class: Option<String>,
        bookmark: Bookmark,
    },
    Imported {
        source: String,
        replaces: bool,
    },
}

#[derive(Deserialize)]
struct Dormant {
    objects: Vec<Timeline>,
    next: Option<Position>,
}

#[derive(Deserialize)]
struct Position {
    class: String,
    after: String,
}

impl Timeline {
    fn read(data: &Data, class: &str, key: ObjectKey) -> abide_storage::Result<Self> {
        let db = data.store.open_object(key)?;
        let row = db.timeline()?;
        Ok(Self {
            class: class.to_owned(),
            id: key.id_hex(),
            name: db.name()?,
            number: row.id.to_string(),
            since: row.since.and_then(|since| i64::try_from(since).ok()),
            cause: match row.cause {
                StoredCause::Created => Cause::Created,
                StoredCause::Restored { from, to } => Cause::Restored { from, to },
                StoredCause::Forked { origin, bookmark } => {
                    let origin = ObjectKey { id: origin, ..key }.id_hex();
                    Cause::Forked {
                        origin_class: class_of(data, &origin),
                        origin,
                        bookmark,
                    }
                }
                StoredCause::Imported { source, replaces } => Cause::Imported {
                    source: hex::encode(source),
                    replaces,
                },
            },
            dormant: row.dormant,
        })
    }

    /// The object as commands take it.
    fn object(&self) -> String {
        let object = self.name.as_deref().map(plain);
        format!("{}/{}", self.class, object.as_deref().unwrap_or(&self.id))
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        writeln!(out, "object\t{}", self.object())?;
        writeln!(out, "timeline\t{}", self.number)?;
        writeln!(out, "since\t{}", time(self.since))?;
        match &self.cause {
            Cause::Created => writeln!(out, "cause\tcreated")?,
            Cause::Restored { from, to } => {
                writeln!(
                    out,
                    "cause\trestored to {to}; to undo it: --bookmark {from}"
                )?;
            }
            Cause::Forked {
                origin,
                origin_class,
                bookmark,
            } => {
                let class = origin_class.as_deref().unwrap_or("?");
                writeln!(out, "cause\tforked from {class}/{origin} at {bookmark}")?;
            }
            Cause::Imported { source, .. } => {
                writeln!(out, "cause\timported from what has the SHA-256 {source}")?;
            }
        }
        if self.dormant {
            writeln!(
                out,
                "dormant\tyes; to let it act: abide activate {}{}",
                self.object(),
                self.cause.way()
            )?;
        } else {
            writeln!(out, "dormant\tno")?;
        }
        Ok(())
    }
}

/// The class of an object, if the directory has it.
fn class_of(data: &Data, id: &str) -> Option<String> {
    let id: ObjectId = id.parse().ok()?;
    let mut classes = data.store.namespaces().into_iter();
    let found = classes.find(|(_, class)| id.belongs_to(class));
    found.map(|(_, class)| class)
}

impl Cause {
    /// How an object is usually activated: a copy afresh, and a restored one with its own work.
    fn way(&self) -> &'static str {
        match self {
            Self::Restored { .. } | Self::Imported { replaces: true, .. } => " --continue",
            Self::Created | Self::Forked { .. } | Self::Imported { .. } => "",
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Restored { .. } => "restored",
            Self::Forked { .. } => "forked",
            Self::Imported { .. } => "imported",
        }
    }
}

pub(crate) fn show(args: &TimelineArgs, out: &mut impl Write) -> Result<()> {
    let object = &args.object.object;
    let timeline = match args.object.node.source()? {
        Source::Node(node) => {
            let path = object.on_node(&node)?.path("objects", "timeline");
            node.get(&path)?
        }
        Source::Data(data) => {
            let found = object.in_data(&data)?;
            let timeline = Timeline::read(&data, &found.class, found.key)?;
            data.close()?;
            timeline
        }
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&timeline)?)?;
        return Ok(());
    }
    timeline.print(out)
}

/// Prints a line for each dormant object, its columns separated by tabs.
pub(crate) fn dormant(args: &DormantArgs, out: &mut impl Write) -> Result<()> {
    if !args.json {
        writeln!(out, "CLASS\tID\tNAME\tCAUSE\tSINCE")?;
    }
    match args.node.source()? {
        Source::Node(node) => {
            let mut path = "/dormant".to_owned();
            loop {
                let page: Dormant = node.get(&path)?;
                list(args, &page.objects, out)?;
                let Some(next) = page.next else { break };
                let (class, after) = (segment(&next.class), segment(&next.after));
                path = format!("/dormant?class={class}&after={after}");
            }
        }
        Source::Data(data) => {
            for object in data.objects()? {
                // `abide quarantined` lists those that cannot be opened.
                if let Ok(timeline) = Timeline::read(&data, &object.class, object.key)
                    && timeline.dormant
                {
                    list(args, &[timeline], out)?;
                }
            }
            data.close()?;
        }
    }
    Ok(())
}

fn list(args: &DormantArgs, objects: &[Timeline], out: &mut impl Write) -> Result<()> {
    for object in objects {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(object)?)?;
            continue;
        }
        let name = object.name.as_deref().map(plain);
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}",
            object.class,
            object.id,
            name.as_deref().unwrap_or("-"),
            object.cause.name(),
            time(object.since)
        )?;
    }
    Ok(())
}
