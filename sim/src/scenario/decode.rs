//! From the tree of a document to typed values: a serde deserializer whose errors know place and key.
//!
//! Choices with parameters (topology, queue discipline, workload) are tables with a `kind`, or the kind alone as a
//! string when its defaults will do. A table without `kind` is of the first kind that the Rust enum lists.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor, value,
};
use serde::forward_to_deserialize_any;

use super::document::{Entry, Node, Value};
use super::error::{Problem, ScenarioError, WHOLE_NUMBER};

/// Decodes a whole value.
pub(super) fn decode<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, ScenarioError> {
    T::deserialize(node)
}

impl de::Error for ScenarioError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        ScenarioError::nowhere(Problem::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        ScenarioError::nowhere(Problem::WrongType { found: describe(found), wanted: in_plain_words(wanted) })
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(name: &str, allowed: &'static [&'static str]) -> Self {
        ScenarioError::nowhere(Problem::UnknownName { name: name.into(), allowed })
    }

    fn unknown_field(name: &str, allowed: &'static [&'static str]) -> Self {
        ScenarioError::nowhere(Problem::UnknownKey { name: name.into(), allowed })
    }

    fn missing_field(field: &'static str) -> Self {
        ScenarioError::nowhere(Problem::Other(format!("`{field}` is missing here")))
    }
}

/// What was found, in TOML's words instead of Rust's.
fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("the string \"{text}\""),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Bool(truth) => format!("{truth}"),
        Unexpected::Map => "a table".into(),
        Unexpected::Seq => "a list".into(),
        other => other.to_string(),
    }
}

/// What was wanted, likewise: derived code asks for Rust's types.
fn in_plain_words(wanted: &dyn Expected) -> String {
    let wanted = wanted.to_string();
    let whole = |largest: u64| format!("{WHOLE_NUMBER} from 0 to {largest}");
    match wanted.as_str() {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" => whole(i64::MAX.unsigned_abs()),
        "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "path string" => "the name of a file".into(),
        "a sequence" => "a list".into(),
        text if text.starts_with("struct ") => "a table".into(),
        text if text.starts_with("variant identifier") => "a name".into(),
        _ => wanted,
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = ScenarioError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match &self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(truth) => visitor.visit_bool(*truth),
            Value::Date(date) => Err(de::Error::invalid_type(Unexpected::Other(&format!("the date {date}")), &visitor)),
            Value::Array(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Table(entries) => visitor.visit_map(Keys { entries, next: 0, skip: None }),
        }
        .map_err(|error| error.or_at(&self.place))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        visitor.visit_some(self)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScenarioError> {
        match self.value {
            // Whole numbers are numbers too.
            #[expect(clippy::cast_precision_loss, reason = "parameters are far below 2^53")]
            Value::Integer(number) => {
                visitor.visit_f64(number as f64).map_err(|error: ScenarioError| error.or_at(&self.place))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        kinds: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        let choice = match &self.value {
            Value::String(kind) => Choice { kind, written: None, first: false, entries: &[] },
            Value::Table(entries) => match entries.iter().find(|entry| entry.key == "kind") {
                Some(entry) => match &entry.node.value {
                    Value::String(kind) => Choice { kind, written: Some(&entry.node), first: false, entries },
                    _ => {
                        let one_of = || format!("one of {}", kinds.join(", "));
                        let refused = entry.node.deserialize_str(visitor);
                        return refused.map_err(|error| error.wanting(one_of()).under("kind"));
                    }
                },
                None => {
                    Choice { kind: kinds.first().copied().unwrap_or_default(), written: None, first: true, entries }
                }
            },
            _ => {
                let one_of = || format!("one of {}", kinds.join(", "));
                return self.deserialize_str(visitor).map_err(|error| error.wanting(one_of()));
            }
        };
        visitor.visit_enum(choice).map_err(|error| error.or_at(&self.place))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The elements of an array.
struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ScenarioError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ScenarioError> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|error| error.or_at(&item.place).under(&index.to_string()))
    }
}

/// The keys and values of a table, one key left out.
struct Keys<'de> {
    entries: &'de [Entry],
    next: usize,
    skip: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Keys<'de> {
    type Error = ScenarioError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ScenarioError> {
        while self.entries.get(self.next).is_some_and(|entry| Some(entry.key.as_str()) == self.skip) {
            self.next += 1;
        }
        let Some(entry) = self.entries.get(self.next) else { return Ok(None) };
        let name = value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(name).map(Some).map_err(|error: ScenarioError| error.or_at(&entry.place))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ScenarioError> {
        let entry = &self.entries[self.next];
        self.next += 1;
        seed.deserialize(&entry.node).map_err(|error| error.or_at(&entry.node.place).under(&entry.key))
    }
}

/// One of several kinds, with the table that holds its parameters.
struct Choice<'de> {
    kind: &'de str,
    /// Where the kind stands, when it stands in the table.
    written: Option<&'de Node>,
    /// Whether no kind was written and the first one stands in.
    first: bool,
    entries: &'de [Entry],
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = ScenarioError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), ScenarioError> {
        let kind =
            seed.deserialize(self.kind.into_deserializer()).map_err(|error: ScenarioError| match self.written {
                Some(node) => error.or_at(&node.place).under("kind"),
                None => error,
            })?;
        Ok((kind, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = ScenarioError;

    fn unit_variant(self) -> Result<(), ScenarioError> {
        match self.entries.iter().find(|entry| entry.key != "kind") {
            None => Ok(()),
            Some(entry) => {
                let kind = self.kind;
                let taken =
                    if self.first { format!(" (no `kind` is given, which means `{kind}`)") } else { String::new() };
                Err(ScenarioError::nowhere(Problem::Other(format!("`{kind}` has no parameters{taken}")))
                    .or_at(&entry.place)
                    .under(&entry.key))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ScenarioError> {
        seed.deserialize(value::MapAccessDeserializer::new(Keys { entries: self.entries, next: 0, skip: Some("kind") }))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, ScenarioError> {
        Err(de::Error::invalid_type(Unexpected::TupleVariant, &visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScenarioError> {
        visitor.visit_map(Keys { entries: self.entries, next: 0, skip: Some("kind") })
    }
}
