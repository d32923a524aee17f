//! What a new server will probably need, and its sandbox does not give: told from its command line before it is
//! tried, so that a server that can only half work says so.

use std::path::Path;

use drawgate_host::sandbox::Profile;

use super::allow::quoted;
use super::table::NewServer;

/// Folders that every sandbox has of its own, and that are gone with it.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// The folders that its command line names, which it may read, and that it may not write yet.
pub(in super::super) fn folders(server: &NewServer) -> Vec<String> {
    if !is_confined(server) {
        return Vec::new();
    }
    let is_writable = |folder: &str| server.write.iter().any(|given| given == folder);
    let named = paths(server).filter(|path| Path::new(path).is_dir() && !is_writable(path));
    named.map(str::to_owned).collect()
}

/// Says what it can't do, each with what to do about it.
pub(in super::super) fn notes(server: &NewServer) -> Vec<String> {
    if !is_confined(server) {
        return Vec::new();
    }
    let name = &server.name;
    let write = |folder: &String| {
        let command = format!("drawgate servers allow {name} --write {}", quoted(folder));
        format!("it may read `{folder}`, and not write there; to allow it: `{command}`")
    };
    let mut notes: Vec<String> = folders(server).iter().map(write).collect();
    for path in paths(server).filter(|path| is_temporary(path)) {
        notes.push(format!(
            "`{path}` is in a folder that its sandbox has of its own, and what it keeps there is gone when it ends; name a place in a folder that it may write"
        ));
    }
    notes
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

fn is_temporary(path: &str) -> bool {
    let path = Path::new(path);
    !path.exists() && TEMPORARY.iter().any(|folder| path.starts_with(folder))
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
