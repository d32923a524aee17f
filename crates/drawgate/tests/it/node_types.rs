//! The committed TypeScript types are those of the model. `DRAWGATE_GENERATE=1` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use drawgate_core::audit::ToolAuditEvent;
use drawgate_core::model::{
    McpManifest, ToolGatewaySnapshot, ToolInvocation, ToolRegistryEntry, ToolResult,
};
use drawgate_core::policy::Approval;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-node/npm/types.d.ts");
const HEAD: &str = "\
// The data types of the gateway. Generated from the Rust model, which a test compares; see CONTRIBUTING.md.
";
/// Events are a union in `index.d.ts`, which is made from this one type.
const RENAMED: [(&str, &str); 1] = [("ToolAuditEvent", "AuditEvent")];

#[test]
#[expect(clippy::disallowed_methods, reason = "the variable is meant for this test alone")]
fn types_of_the_node_package_are_those_of_the_model() {
    let mut wanted = HEAD.to_owned();
    for (name, schema) in definitions() {
        wanted.push('\n');
        wanted.push_str(&declaration(renamed(&name), &schema));
    }
    if std::env::var_os("DRAWGATE_GENERATE").is_some() {
        std::fs::write(FILE, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(FILE).unwrap_or_default();
    let path = Path::new(FILE).file_name().unwrap().display();
    assert!(found == wanted, "`{path}` is out of date; run this test with DRAWGATE_GENERATE=1");
}

/// All types, as they are written. Those that are also read are as they are read, which asks for less.
fn definitions() -> BTreeMap<String, Value> {
    let mut written = SchemaSettings::draft2020_12().for_serialize().into_generator();
    written.subschema_for::<Approval>();
    written.subschema_for::<ToolAuditEvent>();
    written.subschema_for::<ToolGatewaySnapshot>();
    written.subschema_for::<ToolRegistryEntry>();
    written.subschema_for::<ToolResult>();
    let mut read = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    read.subschema_for::<McpManifest>();
    read.subschema_for::<ToolInvocation>();
    let written = written.take_definitions(true).into_iter();
    let mut all: BTreeMap<_, _> = written.chain(read.take_definitions(true)).collect();
    // Programs register tools alone.
    all.remove("Offer");
    let manifest = all.get_mut("McpManifest").unwrap();
    manifest["properties"].as_object_mut().unwrap().remove("offer");
    all
}

fn renamed(name: &str) -> &str {
    RENAMED.iter().find(|(rust, _)| *rust == name).map_or(name, |(_, own)| own)
}

fn declaration(name: &str, schema: &Value) -> String {
    let doc = doc(schema, "");
    if let Some(members) = schema["properties"].as_object() {
        return format!("{doc}export interface {name} {{\n{}}}\n", fields(schema, members));
    }
    let Some(variants) = schema["oneOf"].as_array() else {
        return format!("{doc}export type {name} = {};\n", shape(schema));
    };
    let mut text = format!("{doc}export type {name} =");
    for one in variants {
        write!(text, "\n{}  | {}", self::doc(one, "  "), shape(one)).unwrap();
    }
    text + ";\n"
}

fn fields(schema: &Value, members: &Map<String, Value>) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = String::new();
    for (key, member) in members {
        let mark = if required.contains(&key.as_str()) { "" } else { "?" };
        let (doc, shape) = (doc(member, "  "), shape(member));
        writeln!(text, "{doc}  {key}{mark}: {shape};").unwrap();
    }
    if schema["additionalProperties"] == true {
        text.push_str("  [key: string]: unknown;\n");
    }
    text
}

fn doc(schema: &Value, indent: &str) -> String {
    let Some(text) = schema["description"].as_str() else { return String::new() };
    // Links between Rust items mean nothing here.
    let text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ");
    format!("{indent}/** {text} */\n")
}

/// The type of a value. Absent and `null` mean the same, and `null` is never written.
fn shape(schema: &Value) -> String {
    let Some(members) = schema.as_object() else { return "unknown".to_owned() };
    if let Some(reference) = schema["$ref"].as_str() {
        return renamed(reference.rsplit('/').next().unwrap()).to_owned();
    }
    if let Some(value) = members.get("const") {
        return value.to_string();
    }
    let several = ["enum", "oneOf", "anyOf"].iter().find_map(|key| members.get(*key)?.as_array());
    if let Some(several) = several {
        let several = several.iter().filter(|one| one["type"] != "null");
        let several = several.map(|one| if one.is_string() { one.to_string() } else { shape(one) });
        return several.collect::<Vec<_>>().join(" | ");
    }
    let kind = match members.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().find(|kind| *kind != "null"),
        kind => kind,
    };
    match kind.and_then(Value::as_str) {
        Some("array") => match shape(&schema["items"]) {
            items if items.contains(' ') => format!("Array<{items}>"),
            items => format!("{items}[]"),
        },
        Some("object") => format!("Record<string, {}>", shape(&schema["additionalProperties"])),
        Some("integer" | "number") => "number".to_owned(),
        Some(plain @ ("string" | "boolean")) => plain.to_owned(),
        Some(other) => panic!("no type for `{other}`"),
        None => "unknown".to_owned(),
    }
}
