//! The OpenAPI document: what the routes say of themselves, made as precise as the server is.
//!
//! The types of the documents say which fields there are. What may stand in them is decided by the rules, and a word
//! means the same in every document: it is said once, in [`words`].

mod words;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

const SCHEMAS: &str = "#/components/schemas/";

/// The document that is served.
pub fn of(routes: OpenApi) -> Value {
    let mut document = serde_json::to_value(routes).unwrap_or_default();
    everywhere(&mut document, &any_json);
    for name in asked_for(&document) {
        let schema = &mut document["components"]["schemas"][&name];
        if words::is_closed(&name) {
            schema["additionalProperties"] = false.into();
        }
        let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { continue };
        for (word, field) in fields {
            narrow(&name, word, field);
        }
    }
    document["components"]["schemas"]["Time"] = words::time();
    any_of(&mut document["components"]["schemas"]["ItemAnswer"]);
    let optional = bodies_that_may_be_left_out(&document);
    each_operation(&mut document, |path, operation| {
        name_under_its_tag(operation);
        if let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) {
            parameters.retain(|it| !words::is_unsaid(path, text(&it["name"])));
            parameters.iter_mut().for_each(|parameter| narrow_parameter(path, parameter));
        }
        if body_of(operation).is_some_and(|name| optional.contains(name)) {
            operation["requestBody"]["required"] = false.into();
        }
    });
    everywhere(&mut document, &unsigned);
    document
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn everywhere(value: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match value {
        Value::Object(fields) => {
            change(fields);
            fields.values_mut().for_each(|it| everywhere(it, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| everywhere(it, change)),
        _ => {}
    }
}

/// Any JSON value may be null anyhow: null beside it would fit twice, and one of the two would be too much.
fn any_json(schema: &mut Map<String, Value>) {
    let any = json!(format!("{SCHEMAS}Json"));
    let choices = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    if let Some(Value::Object(only)) = choices.into_iter().find(|it| it["$ref"] == any).cloned() {
        schema.remove("oneOf");
        schema.extend(only);
    }
}

/// Documents whose fields may all be null look like each other, so one that fits may fit twice.
fn any_of(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut()
        && let Some(choices) = fields.remove("oneOf")
    {
        fields.insert("anyOf".to_owned(), choices);
    }
}

/// The formats of OpenAPI are signed; a number that is not has a range instead.
fn unsigned(schema: &mut Map<String, Value>) {
    let max = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => json!(u32::MAX),
        Some("int64") => json!(u64::MAX),
        _ => return,
    };
    if schema.get("minimum").and_then(Value::as_i64).is_some_and(|it| it >= 0) {
        schema.remove("format");
        schema.entry("maximum").or_insert(max);
    }
}

/// The names of all documents that are sent in, and of those within them.
fn asked_for(document: &Value) -> BTreeSet<String> {
    fn gather(value: &Value, schemas: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(name) = text(&value["$ref"]).strip_prefix(SCHEMAS)
                    && found.insert(name.to_owned())
                {
                    gather(&schemas[name], schemas, found);
                }
                fields.values().for_each(|it| gather(it, schemas, found));
            }
            Value::Array(items) => items.iter().for_each(|it| gather(it, schemas, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    for item in document["paths"].as_object().into_iter().flat_map(Map::values) {
        for operation in item.as_object().into_iter().flat_map(Map::values) {
            gather(&operation["requestBody"], &document["components"]["schemas"], &mut found);
        }
    }
    found
}

/// An empty body is an empty object, so a document that needs no field need not be sent.
fn bodies_that_may_be_left_out(document: &Value) -> BTreeSet<String> {
    let schemas = document["components"]["schemas"].as_object();
    let needs_nothing = |schema: &Value| schema["type"] == "object" && schema["required"].is_null();
    let them = schemas.into_iter().flatten().filter(|(_, schema)| needs_nothing(schema));
    them.map(|(name, _)| name.clone()).collect()
}

fn body_of(operation: &Value) -> Option<&str> {
    text(operation.pointer("/requestBody/content/application~1json/schema/$ref")?).strip_prefix(SCHEMAS)
}

fn each_operation(document: &mut Value, mut change: impl FnMut(&str, &mut Value)) {
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            change(path, operation);
        }
    }
}

/// A route is named after its function, and many are called `list` or `get`: only with the tag before it is the name
/// the one of its kind that OpenAPI asks for, and that clients make their functions of.
fn name_under_its_tag(operation: &mut Value) {
    let tag = text(&operation["tags"][0]).to_owned();
    if let Some(name) = operation.get_mut("operationId") {
        *name = format!("{tag}_{}", text(name)).into();
    }
}

fn narrow_parameter(path: &str, parameter: &mut Value) {
    let word = text(&parameter["name"]).to_owned();
    let schema = &mut parameter["schema"];
    // What is not given is left out: there is no way to write null.
    not_null(schema);
    if parameter["in"] != "path" || parameter["schema"]["format"].is_null() {
        narrow(path, &word, &mut parameter["schema"]);
    }
}

fn not_null(schema: &mut Value) {
    if let Some(types) = schema["type"].as_array().cloned() {
        let rest: Vec<Value> = types.into_iter().filter(|it| it != "null").collect();
        schema["type"] = if rest.len() == 1 { rest[0].clone() } else { rest.into() };
    }
    if let Some(choices) = schema["oneOf"].as_array().cloned() {
        let rest: Vec<Value> = choices.into_iter().filter(|it| it["type"] != "null").collect();
        if let ([Value::Object(only)], Some(fields)) = (&*rest, schema.as_object_mut()) {
            fields.remove("oneOf");
            fields.extend(only.clone());
        }
    }
}

/// Says what may stand in a field.
fn narrow(place: &str, word: &str, schema: &mut Value) {
    if words::is_never_null(place, word) {
        not_null(schema);
    }
    if refers_to(schema, "Span") {
        return span(place, word, schema);
    }
    let Some(said) = words::said(place, word) else { return };
    if schema["type"] == "array" {
        for (key, value) in said.list {
            schema[key] = value;
        }
        return merge(&mut schema["items"], said.value);
    }
    merge(schema, said.value);
}

fn refers_to(schema: &Value, name: &str) -> bool {
    let wanted = json!(format!("{SCHEMAS}{name}"));
    let choices = schema["oneOf"].as_array().into_iter().flatten();
    schema["$ref"] == wanted || choices.into_iter().any(|it| it["$ref"] == wanted)
}

fn is_null_allowed(schema: &Value) -> bool {
    let is_null = |it: &Value| it == "null" || it["type"] == "null";
    ["type", "oneOf"].iter().any(|key| schema[key].as_array().is_some_and(|them| them.iter().any(is_null)))
}

fn merge(schema: &mut Value, mut said: Value) {
    let Some(fields) = said.as_object_mut() else { return };
    if let Some(words) = fields.get_mut("enum").and_then(Value::as_array_mut)
        && is_null_allowed(schema)
    {
        words.push(Value::Null);
    }
    let Some(schema) = schema.as_object_mut() else { return };
    if fields.contains_key("anyOf") {
        schema.remove("type");
    }
    schema.append(fields);
}

/// A length of time has limits of its own where it stands, which a common schema cannot have.
fn span(place: &str, word: &str, schema: &mut Value) {
    let mut types = vec![json!("integer"), json!("string")];
    if is_null_allowed(schema) {
        types.push(json!("null"));
    }
    let (min, max) = words::span_range(place, word);
    let said = schema.pointer("/oneOf/0/description").or(schema.get("description")).map_or("", text);
    let description = format!("{said} In milliseconds, or as text such as `30s`, `5m`, `2h` or `7d`.");
    *schema = json!({
        "type": types,
        "minimum": min,
        "maximum": max,
        "pattern": words::SPAN,
        "description": description.trim_start(),
    });
}
