//! What is read of a server's answers: by JSON pointers (RFC 6901), and nothing where something is missing or of another type.

use serde_json::Value;

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

pub(crate) fn texts(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A number that is not negative.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
