//! Control groups for memory, processor time and processes, in either version, where this user may
//! make them. What they can't hold is held by other means, and said so.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ResourceLimits;

/// The controllers in use.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// A group's name: this, the process id of its init, and a number: ids come again.
const PREFIX: &str = "drawgate-";
/// Nobody is about to enter an empty group of this age.
const STALE: Duration = Duration::from_mins(1);

/// One period of the processor's quota, in microseconds.
const PERIOD: u64 = 100_000;

/// The groups of one box. Dropped, they are removed; by then nobody is in them.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    folders: Vec<PathBuf>,
    /// The controllers that are in force.
    pub(crate) held: Vec<String>,
    /// Where a process writes `0` to be in the group.
    pub(crate) group_files: Vec<OwnedFd>,
}

impl Groups {
    /// Makes what can be made.
    pub(crate) fn make(limits: &ResourceLimits) -> Self {
        let mut number = [0; 4];
        // Without it, the name is still free as a rule.
        let _any = getrandom::fill(&mut number);
        let id = rustix::process::getpid().as_raw_nonzero();
        let name = &format!("{PREFIX}{id}-{}", hex::encode(number));
        let mut groups = Self::default();
        let hierarchies = hierarchies();
        for (controllers, folder) in hierarchies.one {
            let wanted =
                CONTROLLERS.into_iter().filter(|wanted| controllers.iter().any(|c| c == wanted));
            let wanted: Vec<&str> = wanted.collect();
            if !wanted.is_empty() {
                groups.try_in(&folder, name, &wanted, limits, Version::One);
            }
        }
        for (own, folder) in hierarchies.two.into_iter().enumerate().map(|(at, dir)| (at == 0, dir))
        {
            if own {
                ask_for_controllers(&folder);
            }
            let offered = controllers_below(&folder);
            let wanted = CONTROLLERS.into_iter().filter(|wanted| {
                offered.iter().any(|offer| offer == wanted)
                    && !groups.held.iter().any(|held| held == wanted)
            });
            let wanted: Vec<&str> = wanted.collect();
            if !wanted.is_empty() && groups.try_in(&folder, name, &wanted, limits, Version::Two) {
                break;
            }
        }
        groups
    }

    /// Whether the kernel ended a process of the group because the group had no memory left.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let files = self.folders.iter().flat_map(|folder| {
            ["memory.events", "memory.oom_control"].map(|file| folder.join(file))
        });
        let mut texts = files.filter_map(|file| fs::read_to_string(file).ok());
        texts.any(|text| {
            let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            count.is_some_and(|count| count.trim() != "0")
        })
    }

    /// What its processes use, in MiB, if the kernel counts it; without files in memory that can be
    /// dropped at any time.
    pub(crate) fn memory_mib(&self) -> Option<u64> {
        if !self.held.iter().any(|held| held == "memory") {
            return None;
        }
        let number = |text: String| text.trim().parse::<u64>().ok();
        self.folders.iter().find_map(|folder| {
            let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
            let (used, cache, shared) = match read("memory.current").and_then(number) {
                Some(used) => (used, "file ", "shmem "),
                None => (read("memory.usage_in_bytes").and_then(number)?, "cache ", "shmem "),
            };
            let stat = read("memory.stat")?;
            let part = |name: &str| {
                let found = stat.lines().find_map(|line| line.strip_prefix(name));
                found.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or_default()
            };
            // Files of `/tmp` in the box are in the cache, too, but can't be dropped.
            let droppable = part(cache).saturating_sub(part(shared));
            Some(used.saturating_sub(droppable) / (1024 * 1024))
        })
    }

    fn try_in(
        &mut self,
        above: &Path,
        name: &str,
        wanted: &[&str],
        limits: &ResourceLimits,
        version: Version,
    ) -> bool {
        let folder = above.join(name);
        if fs::create_dir(&folder).is_err() {
            return false;
        }
        self.folders.push(folder.clone());
        let set = |controller: &&str| version.limit(&folder, controller, limits).is_ok();
        let held: Vec<String> =
            wanted.iter().copied().filter(|c| set(c)).map(str::to_owned).collect();
        match OpenOptions::new().write(true).open(folder.join(version.procs_file())) {
            Ok(procs_file) if !held.is_empty() => {
                self.group_files.push(procs_file.into());
                self.held.extend(held);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _in_use = fs::remove_dir(folder);
            remove_left(folder);
        }
    }
}

/// Removes what was left beside a group by inits that were killed.
fn remove_left(folder: &Path) {
    let beside = folder.parent().and_then(|above| fs::read_dir(above).ok());
    for entry in beside.into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let is_gone = |id: &str| !Path::new("/proc").join(id).exists();
        let is_old = || {
            entry.metadata().and_then(|found| found.modified()?.elapsed().map_err(io::Error::other))
        };
        if owner.is_some_and(is_gone) && is_old().is_ok_and(|age| age > STALE) {
            let _in_use = fs::remove_dir(entry.path());
        }
    }
}

/// Puts this process into the groups whose `cgroup.procs` files it holds.
pub(crate) fn enter(group_files: Vec<OwnedFd>) -> io::Result<()> {
    use std::io::Write;
    group_files.into_iter().try_for_each(|procs_file| File::from(procs_file).write_all(b"0"))
}

#[derive(Debug, Clone, Copy)]
enum Version {
    One,
    Two,
}

impl Version {
    /// In version 1 the file for single threads, of which a starting program has one: whole processes
    /// are moved under a lock of the whole machine, which takes ten milliseconds.
    const fn procs_file(self) -> &'static str {
        match self {
            Self::One => "tasks",
            Self::Two => "cgroup.procs",
        }
    }

    fn limit(self, folder: &Path, controller: &str, limits: &ResourceLimits) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(folder.join(file), text);
        let memory = limits.memory_mb.saturating_mul(1024 * 1024);
        let quota = u64::from(limits.cpu_percent).saturating_mul(PERIOD) / 100;
        match (self, controller) {
            (Self::One, "memory") => {
                write("memory.limit_in_bytes", memory.to_string())?;
                // Not every kernel counts swap.
                let _uncounted = write("memory.memsw.limit_in_bytes", memory.to_string());
                Ok(())
            }
            (Self::Two, "memory") => {
                write("memory.max", memory.to_string())?;
                let _uncounted = write("memory.swap.max", "0".to_owned());
                Ok(())
            }
            (Self::One, "cpu") => {
                write("cpu.cfs_period_us", PERIOD.to_string())?;
                write("cpu.cfs_quota_us", quota.max(1000).to_string())
            }
            (Self::Two, "cpu") => write("cpu.max", format!("{} {PERIOD}", quota.max(1000))),
            (Self::One | Self::Two, "pids") => write("pids.max", limits.processes.to_string()),
            (Self::One | Self::Two, _) => Err(io::Error::other("not a controller")),
        }
    }
}

/// Where groups may be made.
#[derive(Default)]
struct Hierarchies {
    /// Version 1: controllers and this process's own folder.
    one: Vec<(Vec<String>, PathBuf)>,
    /// Version 2: this process's own folder, and the one above, in which it may be alone.
    two: Vec<PathBuf>,
}

fn hierarchies() -> Hierarchies {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own: Vec<(&str, &str)> =
        own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
    let mut found = Hierarchies::default();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(folder), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let below = |path: &str| Path::new(folder).join(path.trim_start_matches('/'));
        match kind {
            "cgroup" => {
                let options: Vec<String> = options.split(',').map(str::to_owned).collect();
                let is_this = |list: &&(&str, &str)| {
                    !list.0.is_empty() && list.0.split(',').all(|c| options.iter().any(|o| o == c))
                };
                if let Some((_, path)) = own.iter().find(is_this) {
                    found.one.push((options.clone(), below(path)));
                }
            }
            "cgroup2" => {
                if let Some((_, path)) = own.iter().find(|(list, _)| list.is_empty()) {
                    let own = below(path);
                    let above = own.parent().filter(|above| above.starts_with(folder));
                    found.two.extend(above.map(Path::to_owned));
                    found.two.insert(0, own);
                }
            }
            _ => {}
        }
    }
    found
}

/// Lets groups in this process's own folder have controllers. Refused where the folder has processes
/// of its own, or is not this user's.
fn ask_for_controllers(folder: &Path) {
    for controller in CONTROLLERS {
        let _refused = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// The controllers that groups in a folder of version 2 have.
fn controllers_below(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}
