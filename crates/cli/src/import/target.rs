//! Where objects are imported: a running node, or a data directory that no node serves.

use std::{fs::File, io::Read as _, path::Path};

use abide::ObjectId;
use abide_storage::{Afterwards, Import, NamespaceNo, ObjectKey, StoredCause, TimelinesEnd};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::FileBody;
use crate::{
    data::Data,
    export::listing::Sum,
    node::{Node, NodeArgs, Source, code, segment},
};

/// Bytes of a file that are passed on at a time.
const PIECE: usize = 256 << 10;

/// An object that is to be made.
pub(super) struct Object {
    pub(super) class: String,
    pub(super) id: ObjectId,
    pub(super) name: Option<String>,
}

/// What is known of an object before its import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Absent,
    /// It was imported from what has this checksum.
    Imported(Sum),
    Other,
}

/// What objects are imported from, and how.
pub(super) struct Origin {
    pub(super) source: Sum,
    pub(super) position: Option<TimelinesEnd>,
    pub(super) act: bool,
}

/// See the module.
pub(super) enum Target {
    Node(Node),
    Data(Data),
}

#[derive(Deserialize)]
struct Timeline {
    cause: String,
    source: Option<Sum>,
}

#[derive(Deserialize)]
struct Imported {
    id: String,
}

impl Object {
    /// An object as the option `--to` gives it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let parts = text
            .split_once('/')
            .filter(|(class, name)| !class.is_empty() && !name.is_empty());
        let (class, name) =
            parts.with_context(|| format!("{text:?} is not CLASS/NAME, such as Room/lobby"))?;
        let (id, name) = match name.parse::<ObjectId>() {
            Ok(id) => (id, None),
            Err(_) => (ObjectId::from_name(class, name), Some(name.to_owned())),
        };
        ensure!(
            name.is_some() || id.is_of(class),
            "the id {id} is not one of the class {class:?}"
        );
        Ok(Self {
            class: class.to_owned(),
            id,
            name,
        })
    }

    fn shown(&self) -> String {
        let id = self.id.to_string();
        format!("{}/{}", self.class, self.name.as_ref().unwrap_or(&id))
    }
}

impl Target {
    pub(super) fn of(node: &NodeArgs) -> Result<Self> {
        Ok(match node.source()? {
            Source::Node(node) => Self::Node(node),
            Source::Data(data) => Self::Data(data),
        })
    }

    /// Looks for an object, whose class must be there.
    pub(super) fn look_for(&self, object: &Object) -> Result<Known> {
        match self {
            Self::Node(node) => {
                let (class, id) = (segment(&object.class), object.id);
                match node.get::<Timeline>(&format!("/objects/{class}/{id}/timeline")) {
                    Ok(timeline) if timeline.cause == "imported" => {
                        Ok(timeline.source.map_or(Known::Other, Known::Imported))
                    }
                    Ok(_) => Ok(Known::Other),
                    Err(error) => match code(&error) {
                        Some("not_found") => Ok(Known::Absent),
                        Some("object_damaged") => Ok(Known::Other),
                        _ => Err(error.context(format!("cannot import {}", object.shown()))),
                    },
                }
            }
            Self::Data(data) => {
                let key = key(data, object)?;
                if !data.store.has_object(key)? {
                    return Ok(Known::Absent);
                }
                let timeline = data.store.open_object(key).and_then(|db| db.timeline());
                Ok(match timeline.map(|timeline| timeline.cause) {
                    Ok(StoredCause::Imported { source, .. }) => Known::Imported(Sum(source)),
                    // One that cannot be opened exists.
                    _ => Known::Other,
                })
            }
        }
    }

    /// Makes an object from a file with this checksum.
    pub(super) fn import(
        &self,
        object: &Object,
        path: &Path,
        sha256: Sum,
        origin: &Origin,
    ) -> Result<()> {
        let reading = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(reading)?;
        match self {
            Self::Node(node) => {
                let name = object.name.clone();
                let place = name.unwrap_or_else(|| object.id.to_string());
                let (class, place) = (segment(&object.class), segment(&place));
                let (sum, source) = (hex::encode(sha256.0), hex::encode(origin.source.0));
                let position = origin.position.map(|end| format!("&position={end}"));
                let act = origin.act;
                let path = format!(
                    "/objects/{class}/{place}/import?act={act}&sha256={sum}&export={source}{}",
                    position.unwrap_or_default()
                );
                let imported: Imported =
                    node.upload(&path, FileBody::new(file).with_context(reading)?)?;
                ensure!(
                    imported.id == object.id.to_string(),
                    "the node has made the object {} instead of {}",
                    imported.id,
                    object.id
                );
                Ok(())
            }
            Self::Data(data) => {
                let detail = format!("from {}", path.display());
                data.audited_as("import", Some(object.shown()), Some(detail), || {
                    into_data(data, object, file, sha256, origin)
                })
            }
        }
    }

    pub(super) fn close(self) -> Result<()> {
        match self {
            Self::Node(_) => Ok(()),
            Self::Data(data) => data.close(),
        }
    }
}

fn into_data(data: &Data, object: &Object, file: File, sha256: Sum, origin: &Origin) -> Result<()> {
    let mut file = crate::export::listing::Summing::new(file);
    let mut database = data.store.incoming()?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            break;
        }
        database.write(&piece[..read])?;
    }
    let (_, _, sum) = file.finish();
    if sum != sha256 {
        bail!("the file changed while it was read");
    }
    let import = Import {
        name: object.name.as_deref(),
        source: origin.source.0,
        above: origin.position,
        afterwards: if origin.act {
            Afterwards::Act
        } else {
            Afterwards::Dormant
        },
    };
    Ok(data.store.import(key(data, object)?, database, &import)?)
}

/// The key of an object in a data directory, which must know its class.
fn key(data: &Data, object: &Object) -> Result<ObjectKey> {
    let classes = data.store.namespaces();
    let found = classes.iter().find(|(_, known)| *known == object.class);
    let namespace: NamespaceNo = found.map(|(number, _)| *number).with_context(|| {
        let known: Vec<_> = classes.iter().map(|(_, known)| &**known).collect();
        format!(
            "there is no class {:?} in this data directory; it has {}. Start the program that has the class once, or import while it \
             runs",
            object.class,
            known.join(", ")
        )
    })?;
    Ok(ObjectKey {
        namespace,
        id: *object.id.as_bytes(),
    })
}
