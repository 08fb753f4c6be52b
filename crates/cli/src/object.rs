//! The argument for an object, the same in every command.

use abide::FoundObject;
use anyhow::{Result, ensure};
use clap::Args;
use serde::Deserialize;

use crate::{
    data::Data,
    node::{Node, segment},
};

/// How the help of every command describes an object.
#[derive(Args)]
pub(crate) struct ObjectArg {
    /// The object: Class/name, its id, or the first digits of its id; the name alone if only one class has it
    #[arg(value_name = "OBJECT")]
    text: String,
}

/// An object on a running node.
pub(crate) struct NodeObject {
    pub(crate) class: String,
    object: String,
}

#[derive(Deserialize)]
struct Found {
    class: String,
    object: String,
}

impl ObjectArg {
    pub(crate) fn new(text: &str) -> Self {
        let text = text.to_owned();
        Self { text }
    }

    /// The object in a data directory.
    pub(crate) fn in_data(&self, data: &Data) -> Result<FoundObject> {
        let found = self.in_history(data)?;
        ensure!(
            found.is_stored,
            "the object {found} was deleted; its history can be restored with `abide restore`"
        );
        Ok(found)
    }

    /// The object in a data directory, or one of which only the history is left.
    pub(crate) fn in_history(&self, data: &Data) -> Result<FoundObject> {
        Ok(FoundObject::find(&data.store, &self.text)?)
    }

    /// The object on a running node.
    pub(crate) fn on_node(&self, node: &Node) -> Result<NodeObject> {
        // A token may be restricted to some objects, which it reaches by name but cannot search for.
        if node.sends_token()
            && let Some((class, object)) = self.text.split_once('/')
            && !may_be_digits(object)
        {
            return Ok(NodeObject {
                class: class.to_owned(),
                object: object.to_owned(),
            });
        }
        let found: Found = node.get(&format!("/objects?find={}", segment(&self.text)))?;
        Ok(NodeObject {
            class: found.class,
            object: found.object,
        })
    }
}

/// Returns whether the text may be the first digits of an id.
fn may_be_digits(text: &str) -> bool {
    text.len() < 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

impl NodeObject {
    /// The path of a request about it.
    pub(crate) fn path(&self, collection: &str, question: &str) -> String {
        let (class, object) = (segment(&self.class), segment(&self.object));
        format!("/{collection}/{class}/{object}/{question}")
    }
}
