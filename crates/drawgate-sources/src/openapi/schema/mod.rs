//! Schemas of a document as schemas of arguments: JSON Schema 2020-12, closed in itself, bounded.
//!
//! What is referred to once is put in its place; what is referred to more often, or by itself, goes
//! to `$defs`. A schema that is too large that way is cut at a depth instead, and says so.

mod budget;
mod convert;
mod keywords;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::document::{Dialect, ReferenceError};
use convert::{Converter, Depth, Stop};

/// Depths at which a schema that is too large is cut, until it fits.
const CUTS: [usize; 6] = [6, 5, 4, 3, 2, 1];

/// The schemas of some arguments, and what they share.
pub(super) struct Converted {
    /// By argument.
    pub(super) properties: BTreeMap<String, Value>,
    /// `$defs`.
    pub(super) definitions: Map<String, Value>,
    /// Whether something was left out.
    pub(super) shortened: bool,
}

/// Converts the schemas of all arguments together.
pub(super) fn convert(
    root: &Value,
    dialect: Dialect,
    schemas: &BTreeMap<String, &Value>,
) -> Result<Converted, ReferenceError> {
    let depths = std::iter::once(Depth::Whole).chain(CUTS.map(Depth::Cut));
    for depth in depths {
        let mut converter = Converter::new(root, dialect, depth, schemas.values().copied());
        match attempt(&mut converter, schemas) {
            Ok(found) if budget::fits(&found) => {
                let shortened = depth != Depth::Whole;
                return Ok(Converted { shortened, ..found });
            }
            Ok(_) | Err(Stop::TooLarge) => {}
            Err(Stop::Reference(error)) => return Err(error),
        }
    }
    // Nothing but names: an operation with this many arguments is still callable.
    let anything = |name: &String| (name.clone(), Value::Object(Map::new()));
    Ok(Converted {
        properties: schemas.keys().map(anything).collect(),
        definitions: Map::new(),
        shortened: true,
    })
}

fn attempt<'a>(
    converter: &mut Converter<'a>,
    schemas: &BTreeMap<String, &'a Value>,
) -> Result<Converted, Stop> {
    let mut properties = BTreeMap::new();
    for (name, schema) in schemas {
        properties.insert(name.clone(), converter.convert(schema)?);
    }
    Ok(Converted { properties, definitions: converter.definitions()?, shortened: false })
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
