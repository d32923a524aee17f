//! Where a pack's programs come from: the gateway's `PATH`, the pack itself, the system, or a folder that
//! the pack declares. A program from elsewhere would open its folder without a word in the permissions.

use std::path::{Component, Path};

use drawgate_core::model::shown_name;
use drawgate_host::sandbox::is_system;

use super::super::problem::Sink;
use super::Draft;
use super::files::inside;

/// Checks a program, or the script of an interpreter.
pub(super) fn check_program(draft: &Draft, path: &str, program: &str, sink: &mut Sink) {
    if !program.contains('/') {
        return;
    }
    let place = Path::new(program);
    if !place.is_absolute() {
        if let Err(reason) = inside(program) {
            sink.add(path, reason, "name a file of the pack, such as `./bin/server`");
        }
        return;
    }
    let shown = shown_name(program);
    if place.components().any(|part| part == Component::ParentDir) {
        let message = format!("`{shown}`: a program's path must not go up with `..`");
        return sink.add(path, message, "write where it leads");
    }
    let declared = &draft.permissions.paths.read;
    if is_system(place) || declared.iter().any(|read| place.starts_with(read)) {
        return;
    }
    let folder = place.parent().filter(|folder| folder.parent().is_some()).unwrap_or(place);
    let message = format!("`{shown}` lies in a folder that the pack does not declare");
    let advice = format!(
        "declare it: `\"permissions\": {{ \"paths\": {{ \"read\": [\"{}\"] }} }}`, or use a name that `PATH` leads to, or `./NAME` for a file of the pack",
        shown_name(&folder.to_string_lossy())
    );
    sink.add(path, message, advice);
}
