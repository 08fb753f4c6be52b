//! The final lists of the objects, and the position of each value.

use std::collections::BTreeMap;

use crate::history::{Event, ObjectNo, Value};

/// The final lists; empty if a history has none.
pub(super) struct Lists(BTreeMap<ObjectNo, List>);

pub(super) struct List {
    pub(super) values: Vec<Value>,
    places: BTreeMap<Value, usize>,
}

impl Lists {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut lists = BTreeMap::new();
        for event in events {
            if let Event::Holds(object, values) = event {
                let places = values.iter().copied().zip(0..).collect();
                let values = values.clone();
                lists.insert(*object, List { values, places });
            }
        }
        Self(lists)
    }

    pub(super) fn get(&self, object: ObjectNo) -> Option<&List> {
        self.0.get(&object)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (ObjectNo, &List)> {
        self.0.iter().map(|(object, list)| (*object, list))
    }
}

impl List {
    pub(super) fn place(&self, value: Value) -> Option<usize> {
        self.places.get(&value).copied()
    }
}
