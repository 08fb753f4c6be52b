//! A value that uses any part of serde's data model.

use proptest::{collection::vec, prelude::*, strategy::Union};
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// Names of fields and variants: those of the targets, and others.
const NAMES: [&str; 9] = [
    "a",
    "b",
    "c",
    "kind",
    "Unit",
    "New",
    "Tuple",
    "Fields",
    "a longer name of a field",
];

pub(crate) fn name(index: usize) -> &'static str {
    NAMES[index % NAMES.len()]
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    I128(i128),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Text(String),
    Displayed(String),
    Bytes(Vec<u8>),
    Nothing,
    Some(Box<Self>),
    Unit,
    UnitStruct,
    UnitVariant(usize),
    Newtype(Box<Self>),
    NewtypeVariant(usize, Box<Self>),
    Seq(Vec<Self>, bool),
    Tuple(Vec<Self>),
    TupleStruct(Vec<Self>),
    TupleVariant(usize, Vec<Self>),
    Map(Vec<(Self, Self)>, bool),
    Struct(Vec<(usize, Self)>),
    StructVariant(usize, Vec<(usize, Self)>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::I8(value) => serializer.serialize_i8(*value),
            Self::I16(value) => serializer.serialize_i16(*value),
            Self::I32(value) => serializer.serialize_i32(*value),
            Self::I64(value) => serializer.serialize_i64(*value),
            Self::I128(value) => serializer.serialize_i128(*value),
            Self::U8(value) => serializer.serialize_u8(*value),
            Self::U16(value) => serializer.serialize_u16(*value),
            Self::U32(value) => serializer.serialize_u32(*value),
            Self::U64(value) => serializer.serialize_u64(*value),
            Self::U128(value) => serializer.serialize_u128(*value),
            Self::F32(value) => serializer.serialize_f32(*value),
            Self::F64(value) => serializer.serialize_f64(*value),
            Self::Char(value) => serializer.serialize_char(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Displayed(value) => serializer.collect_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::Nothing => serializer.serialize_none(),
            Self::Some(value) => serializer.serialize_some(value),
            Self::Unit => serializer.serialize_unit(),
            Self::UnitStruct => serializer.serialize_unit_struct("UnitStruct"),
            Self::UnitVariant(variant) => {
                serializer.serialize_unit_variant("Enum", 0, name(*variant))
            }
            Self::Newtype(value) => serializer.serialize_newtype_struct("Newtype", value),
            Self::NewtypeVariant(variant, value) => {
                serializer.serialize_newtype_variant("Enum", 1, name(*variant), value)
            }
            Self::Seq(values, known) => {
                let mut seq = serializer.serialize_seq(known.then_some(values.len()))?;
                for value in values {
                    seq.serialize_element(value)?;
                }
                seq.end()
            }
            Self::Tuple(values) => {
                let mut tuple = serializer.serialize_tuple(values.len())?;
                for value in values {
                    tuple.serialize_element(value)?;
                }
                tuple.end()
            }
            Self::TupleStruct(values) => {
                let mut tuple = serializer.serialize_tuple_struct("Tuple", values.len())?;
                for value in values {
                    tuple.serialize_field(value)?;
                }
                tuple.end()
            }
            Self::TupleVariant(variant, values) => {
                let variant = name(*variant);
                let mut tuple =
                    serializer.serialize_tuple_variant("Enum", 2, variant, values.len())?;
                for value in values {
                    tuple.serialize_field(value)?;
                }
                tuple.end()
            }
            Self::Map(entries, known) => {
                let mut map = serializer.serialize_map(known.then_some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
            Self::Struct(fields) => {
                let mut fields_ = serializer.serialize_struct("Struct", fields.len())?;
                for (field, value) in fields {
                    fields_.serialize_field(name(*field), value)?;
                }
                fields_.end()
            }
            Self::StructVariant(variant, fields) => {
                let variant = name(*variant);
                let mut fields_ =
                    serializer.serialize_struct_variant("Enum", 3, variant, fields.len())?;
                for (field, value) in fields {
                    fields_.serialize_field(name(*field), value)?;
                }
                fields_.end()
            }
        }
    }
}

/// Numbers of all magnitudes: uniform ones are nearly all large.
pub(crate) fn magnitude() -> impl Strategy<Value = u128> {
    (any::<u128>(), 0..=128_u32)
        .prop_map(|(bits, width)| bits.checked_shr(128 - width).unwrap_or(0))
}

/// Text of all lengths of a header, and of more than 4 KiB.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "\\PC{0,8}",
        2 => "[a-c]{20,30}",
        1 => "é{120,140}",
        1 => (0..6_000_usize).prop_map(|length| "ü".repeat(length)),
    ]
}

pub(crate) fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..30),
        1 => vec(any::<u8>(), 4_000..5_000),
    ]
}

/// The bits of a float whose NaNs are quiet: the quiet bit of others may be lost on the way.
fn float() -> impl Strategy<Value = u32> {
    any::<u32>().prop_map(|bits| {
        if f32::from_bits(bits).is_nan() {
            bits | 1 << 22
        } else {
            bits
        }
    })
}

fn quiet(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value.is_nan() {
        f64::from_bits(bits | 1 << 51)
    } else {
        value
    }
}

pub(crate) fn index() -> impl Strategy<Value = usize> {
    0..NAMES.len()
}

fn leaf() -> impl Strategy<Value = Node> {
    Union::new([
        any::<bool>().prop_map(Node::Bool).boxed(),
        magnitude()
            .prop_map(|n| Node::I8(n.cast_signed() as i8))
            .boxed(),
        magnitude()
            .prop_map(|n| Node::I16(n.cast_signed() as i16))
            .boxed(),
        magnitude()
            .prop_map(|n| Node::I32(n.cast_signed() as i32))
            .boxed(),
        magnitude()
            .prop_map(|n| Node::I64(n.cast_signed() as i64))
            .boxed(),
        magnitude()
            .prop_map(|n| Node::I128(n.cast_signed()))
            .boxed(),
        magnitude()
            .prop_map(|n| Node::I128(!n.cast_signed()))
            .boxed(),
        magnitude().prop_map(|n| Node::U8(n as u8)).boxed(),
        magnitude().prop_map(|n| Node::U16(n as u16)).boxed(),
        magnitude().prop_map(|n| Node::U32(n as u32)).boxed(),
        magnitude().prop_map(|n| Node::U64(n as u64)).boxed(),
        magnitude().prop_map(Node::U128).boxed(),
        float()
            .prop_map(|bits| Node::F32(f32::from_bits(bits)))
            .boxed(),
        any::<u64>().prop_map(|bits| Node::F64(quiet(bits))).boxed(),
        float()
            .prop_map(|bits| Node::F64(f32::from_bits(bits).into()))
            .boxed(),
        any::<i16>()
            .prop_map(|n| Node::F64(f64::from(n) / 16.0))
            .boxed(),
        any::<char>().prop_map(Node::Char).boxed(),
        text().prop_map(Node::Text).boxed(),
        text().prop_map(Node::Displayed).boxed(),
        bytes().prop_map(Node::Bytes).boxed(),
        Just(Node::Nothing).boxed(),
        Just(Node::Unit).boxed(),
        Just(Node::UnitStruct).boxed(),
        index().prop_map(Node::UnitVariant).boxed(),
    ])
}

pub(crate) fn node() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(5, 60, 6, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let many = vec(inner.clone(), 0..6);
        let fields = vec((index(), inner.clone()), 0..6).boxed();
        Union::new([
            boxed.clone().prop_map(Node::Some).boxed(),
            boxed.clone().prop_map(Node::Newtype).boxed(),
            (index(), boxed)
                .prop_map(|(name, value)| Node::NewtypeVariant(name, value))
                .boxed(),
            (many.clone(), any::<bool>())
                .prop_map(|(values, known)| Node::Seq(values, known))
                .boxed(),
            many.clone().prop_map(Node::Tuple).boxed(),
            many.clone().prop_map(Node::TupleStruct).boxed(),
            (index(), many)
                .prop_map(|(name, values)| Node::TupleVariant(name, values))
                .boxed(),
            (vec((inner.clone(), inner), 0..6), any::<bool>())
                .prop_map(|(entries, known)| Node::Map(entries, known))
                .boxed(),
            fields.clone().prop_map(Node::Struct).boxed(),
            (index(), fields)
                .prop_map(|(name, fields)| Node::StructVariant(name, fields))
                .boxed(),
        ])
    })
}
