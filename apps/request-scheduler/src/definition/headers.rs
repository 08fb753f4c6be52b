//! Reads `requestInit.headers`.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserializer,
    de::{Error, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::Value;

/// Reads an object of texts, or a list of pairs. As in `fetch`, the values of a name that comes several times, in any case, are
/// joined with commas.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    from.deserialize_any(Either).map(|headers| headers.0)
}

#[derive(Default)]
struct Headers(BTreeMap<String, String>);

impl Headers {
    fn append(&mut self, name: String, value: String) {
        let known = self
            .0
            .iter_mut()
            .find(|(known, _)| known.eq_ignore_ascii_case(&name));
        match known {
            Some((_, values)) => *values = format!("{values}, {value}"),
            None => {
                self.0.insert(name, value);
            }
        }
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts, or a list of pairs such as [\"Accept\", \"text/html\"], as requestInit.headers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, value)) = map.next_entry()? {
            headers.append(name, value);
        }
        Ok(headers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some(pair) = list.next_element::<Value>()? {
            let Some([Value::String(name), Value::String(value)]) =
                pair.as_array().map(Vec::as_slice)
            else {
                let other = Unexpected::Other("something else in the list");
                return Err(A::Error::invalid_value(other, &self));
            };
            headers.append(name.clone(), value.clone());
        }
        Ok(headers)
    }
}
