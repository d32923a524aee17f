//! What a new server will probably need, and its sandbox does not give: told from its command line before it is
//! tried, so that a server that can only half work says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use drawgate_host::sandbox::Profile;
use drawgate_host::store::DataDir;
use drawgate_runtime::packages::{Ecosystem, PinnedPackage};
use drawgate_sources::mcp::{places, shell_word};

use super::table::NewServer;

/// Folders that every sandbox has of its own, and that are gone with it.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The folders that its command line names, or in which it names a file that is not there yet, and that it may
/// not write yet.
pub(in super::super) fn folders(server: &NewServer) -> Vec<String> {
    if !is_confined(server) {
        return Vec::new();
    }
    let is_writable = |folder: &Path| server.write.iter().any(|given| folder.starts_with(given));
    let named = paths(server).filter_map(|path| folder_to_write(Path::new(path)));
    let named: BTreeSet<&Path> = named.filter(|folder| !is_writable(folder)).collect();
    named.into_iter().map(|folder| folder.to_string_lossy().into_owned()).collect()
}

/// Says what it can't do, each with what to do about it.
pub(in super::super) fn notes(server: &NewServer) -> Vec<String> {
    if !is_confined(server) {
        return Vec::new();
    }
    let name = &server.name;
    let write = |folder: &String| {
        let command = format!("drawgate servers allow {name} --write {}", shell_word(folder));
        format!("it may not write in `{folder}`; to allow it: `{command}`")
    };
    let mut notes: Vec<String> = folders(server).iter().map(write).collect();
    for path in paths(server).filter(|path| is_temporary(path)) {
        notes.push(format!(
            "`{path}` is in a folder that its sandbox has of its own, and what it keeps there is gone when it ends; name a place in a folder that lasts, and allow that: `drawgate servers allow {name} --write FOLDER`"
        ));
    }
    notes
}

/// Says by which variable a fetched package can be told where to keep its file, if it would keep it among its
/// own files, which stay as they were fetched.
pub(in super::super) fn place(
    server: &NewServer,
    fetched: &PinnedPackage,
    data: &Path,
) -> Option<String> {
    if !is_confined(server) {
        return None;
    }
    let (name, package) = (&server.name, package_folder(server, fetched, data)?);
    let variable = places::variable_of(&package)?;
    let is_set = server.env.iter().any(|(set, _)| *set == variable.name);
    let own = std::path::absolute(data).ok()?.join(DataDir::SERVERS).join(name);
    let place = variable.place_in(&own);
    let command = format!(
        "drawgate servers allow {name} --env {}={}",
        variable.name,
        shell_word(&place.to_string_lossy())
    );
    (!is_set).then(|| {
        format!("it seems to keep a file among its own, which stay as they were fetched; to have it in a folder that lasts: `{command}`")
    })
}

/// The folder of the package that a server was fetched for.
fn package_folder(server: &NewServer, fetched: &PinnedPackage, data: &Path) -> Option<PathBuf> {
    let tree = data.join(DataDir::PACKAGES).join(&server.name).join(&fetched.tree);
    let asked = fetched.request.packages.first()?;
    match fetched.request.ecosystem {
        Ecosystem::Npm => {
            let end = asked.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
            let name = end.and_then(|end| asked.get(..end)).unwrap_or(asked);
            Some(tree.join("node_modules").join(name))
        }
        Ecosystem::Python => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let name = asked.split(|c| !is_name(c)).next()?.replace(['-', '.'], "_");
            let versions = std::fs::read_dir(tree.join("lib")).ok()?.flatten();
            let mut found = versions.map(|it| it.path().join("site-packages").join(&name));
            found.find(|folder| folder.is_dir())
        }
    }
}

/// Says which of these servers have no network; nothing if all have it.
pub(in super::super) fn without_network<'a>(
    servers: impl IntoIterator<Item = &'a NewServer>,
) -> Option<String> {
    let lacks = |it: &&NewServer| is_confined(it) && it.hosts.is_empty();
    let names: Vec<&str> = servers.into_iter().filter(lacks).map(|it| &*it.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no network: `{}`; `drawgate servers allow NAME --host HOST` gives a host, `--host '*'` every one",
            names.join("`, `")
        )
    })
}

fn is_confined(server: &NewServer) -> bool {
    server.command.is_some() && server.sandbox != Some(Profile::None)
}

/// The absolute paths among its arguments and variables.
fn paths(server: &NewServer) -> impl Iterator<Item = &str> {
    let arguments = server.args.iter().map(|arg| arg.split_once('=').map_or(&**arg, |it| it.1));
    let variables = server.env.iter().map(|(_, value)| &**value);
    arguments.chain(variables).filter(|word| Path::new(word).is_absolute())
}

/// A folder that is there, or that of a file which is not. Temporary folders of the machine are not given as
/// a whole, nor are those at its top.
fn folder_to_write(path: &Path) -> Option<&Path> {
    let folder = if path.exists() { path } else { path.parent()? };
    let is_top = folder.parent().is_none_or(|above| above.parent().is_none());
    let is_shared = TEMPORARY.iter().any(|it| folder == Path::new(it));
    let may_be_given = path.exists() || !is_top;
    (folder.is_dir() && may_be_given && !is_shared).then_some(folder)
}

fn is_temporary(path: &str) -> bool {
    let path = Path::new(path);
    let is_inside = TEMPORARY.iter().any(|folder| path.starts_with(folder));
    !path.exists() && is_inside && folder_to_write(path).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_tells_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let notes_dir = folder.path().to_str().unwrap().to_owned();
        let with = |args: &[&str]| NewServer {
            name: "s".to_owned(),
            command: Some("x".to_owned()),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            ..NewServer::default()
        };
        let network = "no network: `s`, `s`; `drawgate servers allow NAME --host HOST` gives a host, `--host '*'` every one";
        let plain = with(&["notes"]);
        assert_eq!(notes(&plain), Vec::<String>::new());
        assert_eq!(without_network([&plain, &plain]).unwrap(), network);
        let file = format!("--db={notes_dir}/new.db");
        let said = notes(&with(&[&file]));
        assert!(said[0].ends_with(&format!("`drawgate servers allow s --write {notes_dir}`")));
        assert_eq!((said.len(), notes(&with(&["/new-file", "--db=/tmp/x.db"])).len()), (1, 1));
        let server = with(&[&notes_dir, "--db=/tmp/not/there.db"]);
        let said = notes(&server);
        assert!(said[0].ends_with(&format!("`drawgate servers allow s --write {notes_dir}`")));
        assert!(said[1].starts_with("`/tmp/not/there.db` is in a folder that its sandbox has"));
        assert_eq!(folders(&server), std::slice::from_ref(&notes_dir));
        let given = NewServer {
            write: vec![notes_dir.clone()],
            hosts: vec!["*".to_owned()],
            ..with(&[&notes_dir])
        };
        assert_eq!((notes(&given), folders(&given)), (Vec::<String>::new(), Vec::new()));
        assert_eq!(without_network([&given]), None);
        let free = NewServer { sandbox: Some(Profile::None), ..with(&[&notes_dir]) };
        assert_eq!((notes(&free), folders(&free)), (Vec::<String>::new(), Vec::new()));
    }
}
