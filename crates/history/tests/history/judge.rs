//! Looks at a bucket after every change, without the product's code: every manifest in it is whole, none was published by a session
//! that another has replaced, and nothing was overwritten.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use abide_s3::{Bucket, Objects};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::Value;

use crate::encrypted::opened;

#[derive(Clone, Default)]
pub(crate) struct Judge(Arc<Mutex<Findings>>);

#[derive(Default)]
struct Findings {
    /// Manifests that were seen.
    seen: BTreeSet<u64>,
    /// The highest that is gone again.
    gone: u64,
    /// The sessions of manifests, each in the order of its first.
    sessions: Vec<String>,
    faults: Vec<String>,
    /// Objects that were encrypted, and their content.
    opened: BTreeMap<String, (Bytes, Bytes)>,
}

impl Judge {
    pub(crate) fn of(bucket: &Bucket) -> Self {
        let judge = Self::default();
        let findings = Arc::clone(&judge.0);
        bucket.inspect(move |objects| findings.lock().unwrap().open(objects));
        judge
    }

    pub(crate) fn manifests(&self) -> usize {
        self.0.lock().unwrap().seen.len()
    }

    pub(crate) fn assert_content(&self, bucket: &Bucket) {
        let findings = self.0.lock().unwrap();
        let first = findings.faults.first();
        assert!(first.is_none(), "{first:?}");
        assert_eq!(bucket.overwritten(), Vec::<String>::new());
    }
}

pub(crate) fn manifests(objects: &Objects) -> impl DoubleEndedIterator<Item = (u64, &[u8])> {
    objects.iter().filter_map(|(key, bytes)| {
        let number = key.strip_prefix("nodes/1/manifests/")?;
        Some((u64::from_str_radix(number, 16).unwrap(), &**bytes))
    })
}

impl Findings {
    /// Looks at the content of objects.
    fn open(&mut self, objects: &Objects) {
        if !objects.values().any(|bytes| bytes.starts_with(b"abidciph")) {
            return self.look(objects);
        }
        let mut contents = Objects::new();
        for (name, stored) in objects {
            let known = self.opened.get(name).filter(|(of, _)| of == stored);
            let content = match known {
                Some((_, content)) => content.clone(),
                None => opened(name.strip_prefix("nodes/1/").unwrap(), stored).unwrap(),
            };
            let pair = (stored.clone(), content.clone());
            self.opened.insert(name.clone(), pair);
            contents.insert(name.clone(), content);
        }
        self.look(&contents);
    }

    fn look(&mut self, objects: &Objects) {
        let present: BTreeSet<u64> = manifests(objects).map(|(number, _)| number).collect();
        let gone = self.seen.difference(&present).last();
        self.gone = self.gone.max(gone.copied().unwrap_or(0));
        let newest = self.seen.last().copied().unwrap_or(0);
        for (number, bytes) in manifests(objects) {
            // One that was sent before and arrives when its number is gone again.
            if number <= self.gone {
                continue;
            }
            let envelope: Value = serde_json::from_slice(bytes).unwrap();
            let manifest = &envelope["manifest"];
            if self.seen.insert(number) {
                if number != newest + 1 {
                    self.faults
                        .push(format!("manifest {number} after {newest}"));
                }
                let session = manifest["session"].as_str().unwrap().to_owned();
                let place = self.sessions.iter().position(|seen| *seen == session);
                match place {
                    None => self.sessions.push(session),
                    Some(place) if place + 1 == self.sessions.len() => {}
                    Some(_) => self
                        .faults
                        .push(format!("{session} was replaced and continues")),
                }
            }
            if let Err(fault) = whole(manifest, objects) {
                self.faults.push(format!("manifest {number}: {fault}"));
            }
        }
        if self.seen.last() != present.last() {
            self.faults.push("the newest manifest is gone".to_owned());
        }
        if let Some((number, bytes)) = manifests(objects).last() {
            let envelope: Value = serde_json::from_slice(bytes).unwrap();
            let needed = envelope["manifest"]["tail"]["number"].as_u64();
            let pieces = pieces(objects);
            let later = pieces.range(needed.unwrap_or(u64::MAX)..);
            if let Some((_, gap)) = needed
                .into_iter()
                .flat_map(|needed| needed..)
                .zip(later)
                .find(|(wanted, there)| wanted != *there)
            {
                self.faults
                    .push(format!("manifest {number} lacks a piece before {gap}"));
            }
        }
    }
}

/// The numbers of the tail's pieces.
pub(crate) fn pieces(objects: &Objects) -> BTreeSet<u64> {
    let names = objects.keys();
    let names = names.filter_map(|key| key.strip_prefix("nodes/1/tail/"));
    names
        .map(|number| u64::from_str_radix(number, 16).unwrap())
        .collect()
}

/// Whether all that a manifest lists is there, and is what its content says.
fn whole(manifest: &Value, objects: &Objects) -> Result<(), String> {
    let mut content = Vec::new();
    for list in ["runs", "staged"] {
        for run in manifest[list].as_array().unwrap() {
            let key = format!("nodes/1/{}", run["key"].as_str().unwrap());
            let parts = objects.range(key.clone()..);
            let parts = parts.take_while(|(part, _)| part.starts_with(&key));
            let bytes: Vec<u8> = parts.flat_map(|(_, bytes)| bytes.to_vec()).collect();
            let crc = crc32c::crc32c(&bytes);
            if Some(bytes.len() as u64) != run["bytes"].as_u64() {
                return Err(format!("{key} has {} bytes: {run}", bytes.len()));
            }
            if Some(u64::from(crc)) != run["crc32c"].as_u64() {
                return Err(format!("{key} is not what it says"));
            }
            if !objects.contains_key(&key) && !objects.contains_key(&format!("{key}.0000")) {
                return Err(format!("{key} is not there"));
            }
            if list == "runs" {
                let number = run["number"].as_u64().unwrap();
                content.push((number, format!("{number}:{crc:08x}")));
            }
        }
    }
    let dropped = manifest["dropped"].as_array().unwrap();
    let dropped: BTreeSet<&str> = dropped
        .iter()
        .map(|run| run["key"].as_str().unwrap())
        .collect();
    let staged = manifest["staged"].as_array().unwrap().iter();
    let mut listed = manifest["runs"].as_array().unwrap().iter().chain(staged);
    if listed.any(|run| dropped.contains(run["key"].as_str().unwrap())) {
        return Err("it lists what it has dropped".to_owned());
    }
    content.sort();
    let runs: Vec<String> = content.into_iter().map(|(_, run)| run).collect();
    let Some(said) = manifest["content"].as_str() else {
        return runs
            .is_empty()
            .then_some(())
            .ok_or("runs without content".to_owned());
    };
    let said = String::from_utf8(BASE64_STANDARD.decode(said).unwrap()).unwrap();
    let there = runs.join(",");
    if said == there {
        return Ok(());
    }
    Err(format!("its content is {said}, and its runs are {there}"))
}
