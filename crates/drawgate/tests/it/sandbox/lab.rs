//! A place where an escape can't go unnoticed: folders, secrets, sockets and a process that nobody in
//! the box may touch.
#![expect(clippy::disallowed_methods, reason = "tests start the program itself")]

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command as Plain, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::process::Command;

use super::caller::Caller;
use crate::support::{PROGRAM, reserved_port};

/// Where the system keeps its programs.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What `victim.txt` says.
pub(super) const VICTIM: &str = "untouched\n";

/// Stands for the gateway: secrets in its environment and arguments, shared memory of both kinds. It
/// ends with its input, so that nothing is left when a test dies.
const STAND_IN: &str = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(int(sys.argv[2]), 4096, 0o1666)
where = libc.shmat(segment, None, 0)
ctypes.memmove(where, os.environb[b'API_TOKEN'], 16)
path = '/dev/shm/' + sys.argv[3]
with open(path, 'w') as file: file.write(os.environ['API_TOKEN'])
print('ready', flush=True)
for line in sys.stdin: print('alive', flush=True)
libc.shmctl(segment, 0, None)
os.unlink(path)
";

/// Folders, sockets and a process around a workspace named `ws`.
pub(super) struct Lab {
    pub(super) caller: Caller,
    folder: TempDir,
    program: PathBuf,
    stand_in: Child,
    answers: BufReader<ChildStdout>,
    sockets: Sockets,
    tag: String,
    /// Keeps a port for those who want to listen.
    listen: TcpSocket,
    variables: Vec<(&'static str, String)>,
}

/// Listeners that count who connects.
struct Sockets {
    tcp: Counter,
    unix: Counter,
    abstract_name: Counter,
    port: u16,
}

type Counter = Arc<AtomicUsize>;

impl Lab {
    /// A lab of this user's own.
    pub(super) fn new(caller: Caller) -> Self {
        let folder = TempDir::with_prefix("drawgate-lab-").unwrap();
        open(folder.path());
        let tag = folder.path().file_name().unwrap().to_str().unwrap().replace('.', "");
        let sockets = Sockets::listen(folder.path(), &tag);
        // The folder of the build may be closed to other users.
        let program = folder.path().join("drawgate");
        if std::fs::hard_link(PROGRAM, &program).is_err() {
            std::fs::copy(PROGRAM, &program).unwrap();
        }
        caller.own(folder.path());
        let key = sockets.port.to_string();
        furnish(folder.path(), caller, &canary(&tag));
        let (stand_in, answers) = stand_in(caller, folder.path(), &tag, &key);
        let mut lab = Self {
            caller,
            folder,
            program,
            stand_in,
            answers,
            sockets,
            tag,
            listen: reserved_port().0,
            variables: Vec::new(),
        };
        lab.variables = lab.all_variables(key);
        lab.reset();
        lab
    }

    /// The folder around everything.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that the box may write.
    pub(super) fn workspace(&self) -> PathBuf {
        self.path().join("ws")
    }

    /// In every secret of this lab, and nowhere else.
    pub(super) fn canary(&self) -> String {
        canary(&self.tag)
    }

    /// A variable that attempts use.
    pub(super) fn variable(&self, name: &str) -> &str {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| panic!("no variable `{name}`"), |(_, value)| value)
    }

    /// A text with its variables replaced by their values.
    pub(super) fn expand(&self, text: &str) -> String {
        let replace =
            |text: String, (name, value): &(&str, String)| text.replace(&format!("${name}"), value);
        // The longest first: `TG_SHM` begins `TG_SHMKEY`.
        let mut variables = self.variables.clone();
        variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        variables.iter().fold(text.to_owned(), replace)
    }

    /// How many have connected to a socket: `tcp`, `unix` or `abs`.
    pub(super) fn connections(&self, socket: &str) -> usize {
        let counter = match socket {
            "tcp" => &self.sockets.tcp,
            "unix" => &self.sockets.unix,
            "abs" => &self.sockets.abstract_name,
            _ => panic!("no socket `{socket}`"),
        };
        counter.load(Ordering::SeqCst)
    }

    /// Whether the stand-in for the gateway lives. It must answer: one that was just killed may not
    /// be gone yet.
    pub(super) fn is_alive(&mut self) -> bool {
        let asked = self.stand_in.stdin.as_mut().unwrap().write_all(b"?\n");
        let mut answer = String::new();
        asked.is_ok() && self.answers.read_line(&mut answer).unwrap() > 0
    }

    /// An empty workspace, and everything outside as it was.
    pub(super) fn reset(&self) {
        let workspace = self.workspace();
        self.remove(&workspace);
        for name in ["ws_evil", "moved", "pwn_parent", "pwn_cwd", "home/pwn_home"] {
            self.remove(&self.path().join(name));
        }
        let out = self.path().join("out");
        self.remove(&out);
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join("victim.txt"), VICTIM).unwrap();
        std::fs::create_dir(&workspace).unwrap();
        std::fs::set_permissions(&workspace, Permissions::from_mode(0o700)).unwrap();
        for path in [out.clone(), out.join("victim.txt"), workspace] {
            self.caller.own(&path);
        }
    }

    /// The program under test, run by the lab's user in an environment full of secrets.
    pub(super) fn program(&self, args: &[&str]) -> Command {
        let mut command = self.caller.command(&self.program);
        command.args(args);
        self.surround(&mut command);
        command
    }

    /// `drawgate sandbox exec` of a shell command, with everything that attempts know.
    pub(super) fn exec(&self, options: &[&str], shell: &str) -> Command {
        self.program(&self.exec_args(options, shell).iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The arguments of the same.
    pub(super) fn exec_args(&self, options: &[&str], shell: &str) -> Vec<String> {
        let mut args: Vec<String> = ["sandbox", "exec", "--workspace"].map(str::to_owned).into();
        args.push(self.variable("TG_WS").to_owned());
        args.extend(options.iter().map(|option| (*option).to_owned()));
        for (name, _) in &self.variables {
            args.extend(["--env".to_owned(), (*name).to_owned()]);
        }
        args.extend(["--", "sh", "-c", shell].map(str::to_owned));
        args
    }

    /// The program's own path, for those who start it in a way of their own.
    pub(super) fn program_path(&self) -> &str {
        self.program.to_str().unwrap()
    }

    /// A command of the lab's user without any box, in the same surroundings.
    pub(super) fn bare(&self, program: &str) -> Command {
        let mut command = self.caller.command(program);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        let home = self.path().join("home");
        command.env_clear().env("PATH", PATH).env("HOME", &home).env("LANG", "C.UTF-8");
        command.env("API_TOKEN", self.canary()).env("AWS_SECRET_ACCESS_KEY", self.canary());
        for name in ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "KUBECONFIG", "BASH_ENV"] {
            command.env(name, "/dev/null");
        }
        command.env("NODE_OPTIONS", "--no-warnings").env("LD_LIBRARY_PATH", "/nonexistent");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.workspace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
    }

    fn all_variables(&self, key: String) -> Vec<(&'static str, String)> {
        let below = |name: &str| self.path().join(name).to_str().unwrap().to_owned();
        vec![
            ("TG_LAB", self.path().to_str().unwrap().to_owned()),
            ("TG_WS", below("ws")),
            ("TG_OUT", below("out")),
            ("TG_HOME", below("home")),
            ("TG_SECRET_FILE", below("home/secret.txt")),
            ("TG_UNIX", below("socket")),
            ("TG_ABS", self.tag.clone()),
            ("TG_TCP", self.sockets.port.to_string()),
            ("TG_LISTEN", self.listen.local_addr().unwrap().port().to_string()),
            ("TG_GWPID", self.stand_in.id().to_string()),
            ("TG_BLK", block_device()),
            ("TG_SHMKEY", key),
            ("TG_SHM", self.tag.clone()),
            ("TG_TAG", format!("{}-inside", self.tag)),
        ]
    }

    /// Removes a file or a tree, however deep, whatever its modes.
    fn remove(&self, path: &Path) {
        if path.symlink_metadata().is_err() {
            return;
        }
        let removed = |program: &str, args: &[&str]| {
            let mut command = Plain::new(program);
            command.args(args).arg(path).stderr(Stdio::null()).status().unwrap().success()
        };
        if !removed("rm", &["-rf", "--"]) && !self.caller.is_root() {
            removed("chmod", &["-R", "u+rwx", "--"]);
            assert!(removed("rm", &["-rf", "--"]), "`{}` stays", path.display());
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(self.stand_in.stdin.take());
        let _ended = self.stand_in.wait();
        self.remove(&self.workspace());
    }
}

impl Sockets {
    fn listen(folder: &Path, tag: &str) -> Self {
        let (tcp, unix, abstract_name) =
            (Counter::default(), Counter::default(), Counter::default());
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = four.local_addr().unwrap().port();
        count(&tcp, move || four.accept().is_ok());
        // A machine without IPv6 has nothing to reach there.
        if let Ok(six) = TcpListener::bind(("::1", port)) {
            count(&tcp, move || six.accept().is_ok());
        }
        let named = UnixListener::bind(folder.join("socket")).unwrap();
        std::fs::set_permissions(folder.join("socket"), Permissions::from_mode(0o777)).unwrap();
        count(&unix, move || named.accept().is_ok());
        let name = SocketAddr::from_abstract_name(tag).unwrap();
        let nameless = UnixListener::bind_addr(&name).unwrap();
        count(&abstract_name, move || nameless.accept().is_ok());
        Self { tcp, unix, abstract_name, port }
    }
}

fn count(counter: &Counter, accept: impl Fn() -> bool + Send + 'static) {
    let counter = Arc::clone(counter);
    std::thread::spawn(move || {
        while accept() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
}

fn canary(tag: &str) -> String {
    format!("TGCANARY_{tag}")
}

fn open(folder: &Path) {
    std::fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
}

/// A home with what thieves look for.
fn furnish(lab: &Path, caller: Caller, canary: &str) {
    let home = lab.join("home");
    for folder in ["", ".aws", ".config", ".config/gcloud"] {
        std::fs::create_dir(home.join(folder)).unwrap();
        caller.own(&home.join(folder));
    }
    for file in ["secret.txt", ".netrc", ".aws/credentials", ".config/gcloud/token"] {
        std::fs::write(home.join(file), format!("{canary}\n")).unwrap();
        caller.own(&home.join(file));
    }
}

fn stand_in(caller: Caller, lab: &Path, tag: &str, key: &str) -> (Child, BufReader<ChildStdout>) {
    let script = lab.join("stand_in.py");
    std::fs::write(&script, STAND_IN).unwrap();
    let mut command = caller.command("python3").into_std();
    command.arg(&script).args([&canary(tag), key, tag]).env_clear().env("PATH", PATH);
    command.env("API_TOKEN", canary(tag)).current_dir(lab);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    answers.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "the stand-in for the gateway did not start");
    (child, answers)
}

/// Numbers of a disk, as `mknod` wants them.
fn block_device() -> String {
    let partitions = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
    let disk = partitions.lines().skip(2).find_map(|line| {
        let mut fields = line.split_whitespace();
        Some(format!("{} {}", fields.next()?, fields.next()?))
    });
    disk.unwrap_or_else(|| "7 0".to_owned())
}
