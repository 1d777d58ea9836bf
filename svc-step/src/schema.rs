//! The JSON Schema of a document, derived from the type of its result.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use crate::document::{Document, schema_name};

/// The schema of the documents of one step: the envelope around a result of type `T`.
///
/// It lies beside the tool as `schema/<step>.json`; a test compares the two, and every document of every test is held
/// against it.
#[must_use]
pub fn of<T: JsonSchema>(tool: &str, step: &str) -> (String, Schema) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Document<T>>();
    schema.insert("title".to_owned(), format!("The document of {tool} {step}").into());
    if let Some(name) = schema.pointer_mut("/properties/schema") {
        *name = serde_json::json!({"const": schema_name(tool, step)});
    }
    (step.to_owned(), schema)
}
