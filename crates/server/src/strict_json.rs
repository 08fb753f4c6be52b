//! JSON as JSON Schema sees it, and so as an API's document describes it.
//!
//! - A struct is an object. Serde also reads one from an array, field by field in the order of the source: a client that
//!   relied on that would break with the next field.
//! - `5.0` is an integer: JSON has one kind of number, and some clients write no other.

use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use crate::plain_words::plain;

/// The largest integer up to which every integer is exactly a floating-point number.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Reads a JSON text, as [`JsonBody`](crate::JsonBody) does.
///
/// # Errors
/// The reason, in the terms of JSON.
pub fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    from_slice(text).map_err(|error| plain(&error.to_string()))
}

/// The same, with serde's error.
pub(crate) fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = T::deserialize(StrictJson(&mut json))?;
    json.end()?;
    Ok(value)
}

/// A deserializer whose structs are objects, and whose integers may end with `.0`; and so is everything inside of it.
/// [`JsonBody`](crate::JsonBody) uses it; a type that implements `Deserialize` by hand may need it.
#[derive(Clone, Copy, Debug)]
pub struct StrictJson<T>(pub T);

/// A visitor that takes `5.0` for 5.
struct Integer<V>(V);

macro_rules! forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(StrictJson(visitor))
        })*
    };
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Integer(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for StrictJson<D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_option
        deserialize_unit deserialize_seq deserialize_map deserialize_identifier deserialize_ignored_any
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(StrictJson(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, StrictJson(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, StrictJson(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, StrictJson(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_tuple_struct(name, len, StrictJson(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, StrictJson(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! pass {
    ($($method:ident($value:ty))*) => {
        $(fn $method<E: serde::de::Error>(self, value: $value) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictJson<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    pass! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) visit_f64(f64) visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(StrictJson(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(StrictJson(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(StrictJson(inner))
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(StrictJson(inner))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(StrictJson(inner))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Integer<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    pass! { visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128) }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<V::Value, E> {
        if value.fract() == 0.0 && value.abs() <= EXACT {
            return self.0.visit_i64(value as i64);
        }
        self.0.visit_f64(value)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for StrictJson<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(StrictJson(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for StrictJson<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(StrictJson(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StrictJson<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(StrictJson(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(StrictJson(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for StrictJson<A> {
    type Error = A::Error;
    type Variant = StrictJson<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(StrictJson(seed))?;
        Ok((value, StrictJson(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for StrictJson<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(StrictJson(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, StrictJson(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, StrictJson(visitor))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Money {
        amount: i64,
        currency: String,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum To {
        Card,
        Account(Money),
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Order {
        price: Option<Money>,
        lines: Vec<Money>,
        pair: (u8, u8),
        to: Vec<To>,
    }

    #[test]
    fn structs_are_objects_and_integers_may_end_with_point_zero() {
        let read = |text: &str| from_slice::<Order>(text.as_bytes());
        let money = r#"{"amount":1,"currency":"EUR"}"#;
        let whole = format!(
            r#"{{"price":{money},"lines":[{money}],"pair":[1,2],"to":["card",{{"account":{money}}}]}}"#
        );
        assert_eq!(read(&whole).unwrap(), serde_json::from_str(&whole).unwrap());
        assert_eq!(read(&whole.replacen(money, "null", 1)).unwrap().price, None);
        for times in 1..=3 {
            let array = whole.replacen(money, "[1,\"EUR\"]", times);
            assert!(serde_json::from_str::<Order>(&array).is_ok(), "{array}");
            let refused = read(&array).unwrap_err();
            assert!(
                refused.is_data() && refused.to_string().contains("sequence"),
                "{refused}"
            );
        }
        assert!(from_slice::<Money>(b"[1,\"EUR\"]").is_err());
        assert!(
            from_slice::<Money>(b"{\"amount\":1,\"currency\":\"EUR\"} x")
                .unwrap_err()
                .is_syntax()
        );
        let euros = |amount: &str| {
            let text = format!(r#"{{"amount":{amount},"currency":"EUR"}}"#);
            from_slice::<Money>(text.as_bytes()).map(|money| money.amount)
        };
        assert_eq!((euros("5.0").unwrap(), euros("-3e2").unwrap()), (5, -300));
        for other in [
            "5.5",
            "1e300",
            "9007199254740993.0",
            "\"5\"",
            "true",
            "null",
        ] {
            assert!(euros(other).is_err(), "{other}");
        }
        assert!(from_slice::<u8>(b"256.0").is_err());
        assert_eq!(
            from_slice::<f64>(b"5.0").unwrap().to_bits(),
            5.0_f64.to_bits()
        );
        let value: serde_json::Value = from_slice(b"[5.0]").unwrap();
        assert!(value[0].is_f64());
        let raw: Box<RawValue> = from_slice(b" [1, {}] ").unwrap();
        assert_eq!(raw.get(), "[1, {}]");
    }
}
