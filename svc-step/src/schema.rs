//! The JSON Schema of a tool's documents, derived from the types of its results: the envelope once, and a definition for each step
//! and each type. `PROGRAM schema` prints it; `schema/svc-tools.json` has those of all programs, and every document of every test is held
//! against it.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::document::{Document, schema_name};
use crate::retention::Reason;

/// Where a line of the text is broken.
const WIDTH: usize = 120;

/// The schemas of the steps of one tool.
#[derive(Debug)]
pub struct Schemas {
    tool: &'static str,
    generator: SchemaGenerator,
    steps: Map<String, Value>,
}

impl Schemas {
    /// Those of a tool, without a step.
    pub fn of(tool: &'static str) -> Self {
        Self { tool, generator: of_envelope(), steps: Map::new() }
    }

    /// With a step whose result is of type `T`.
    pub fn step<T: JsonSchema>(self, step: &str) -> Self {
        let name = json!({"const": schema_name(self.tool, step)});
        self.named::<T>(step, name)
    }

    /// With a step whose documents have a schema name of their own: that of a script's last document is the script's.
    pub fn named<T: JsonSchema>(mut self, step: &str, name: Value) -> Self {
        let result: Schema = self.generator.subschema_for::<T>();
        let own = json!({"properties": {"schema": name, "result": {"anyOf": [result, {"type": "null"}]}}});
        self.steps.insert(step.to_owned(), json!({"allOf": [{"$ref": "#/$defs/Document"}, own]}));
        self
    }

    /// The whole: `oneOf` its steps. A step's definition is `TOOL.STEP`, that of a type `TOOL.Type`, save the types of this library, and
    /// one of another tool that has that tool in its name.
    pub fn whole(mut self) -> Value {
        let mut library = of_envelope();
        library.subschema_for::<Action>();
        library.subschema_for::<Reason>();
        let library = library.take_definitions(true);
        let own = self.generator.take_definitions(true);
        // A tool may have another type of that name.
        let is_shared = |name: &str| name.contains('.') || own.get(name).is_some_and(|schema| library.get(name) == Some(schema));
        let prefixed = |name: &str| if is_shared(name) { name.to_owned() } else { format!("{}.{name}", self.tool) };
        let mut defs = Map::new();
        for (name, mut schema) in own.clone().into_iter().chain(self.steps.clone()) {
            rename(&mut schema, &prefixed);
            defs.insert(prefixed(&name), schema);
        }
        let steps: Vec<Value> = self.steps.keys().map(|step| json!({"$ref": format!("#/$defs/{}", prefixed(step))})).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": format!("The documents of {}", self.tool),
            "oneOf": steps,
            "$defs": defs,
        })
    }
}

fn of_envelope() -> SchemaGenerator {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<Document<Value>>();
    generator
}

fn rename(schema: &mut Value, to: &impl Fn(&str) -> String) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(name) = reference.strip_prefix("#/$defs/")
            {
                *reference = format!("#/$defs/{}", to(name));
            }
            members.values_mut().for_each(|member| rename(member, to));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, to)),
        _ => {}
    }
}

/// JSON for people: what fits into a line stands on one.
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0, 0);
    text.push('\n');
    text
}

fn write(text: &mut String, value: &Value, indent: usize, before: usize) {
    let line = line(value);
    let (open, close, members): (char, char, Vec<(String, &Value)>) = match value {
        _ if before + line.len() < WIDTH => return text.push_str(&line),
        Value::Object(members) => ('{', '}', members.iter().map(|(name, member)| (key(name), member)).collect()),
        Value::Array(items) => ('[', ']', items.iter().map(|item| (String::new(), item)).collect()),
        _ => return text.push_str(&line),
    };
    text.push(open);
    for (at, (name, member)) in members.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { ",\n" });
        let inner = indent + 2;
        text.push_str(&" ".repeat(inner));
        text.push_str(name);
        write(text, member, inner, inner + name.len());
    }
    text.push('\n');
    text.push_str(&" ".repeat(indent));
    text.push(close);
}

fn line(value: &Value) -> String {
    let joined = |members: Vec<String>| members.join(", ");
    match value {
        Value::Object(members) => {
            format!("{{{}}}", joined(members.iter().map(|(name, member)| key(name) + &line(member)).collect()))
        }
        Value::Array(items) => format!("[{}]", joined(items.iter().map(line).collect())),
        _ => value.to_string(),
    }
}

fn key(name: &str) -> String {
    format!("{}: ", Value::from(name))
}
