//! Processor time and resident memory of another process, read from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// The unit of the times in `/proc/PID/stat`; Linux shows 100 to programs whatever its own clock.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time that a process has used so far, over all of its threads.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    parse_cpu_time(&stat).with_context(|| format!("`/proc/{pid}/stat` is not understood"))
}

/// Resident memory of a process in KiB.
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    let status = read(pid, "status")?;
    parse_resident_kib(&status).with_context(|| format!("`/proc/{pid}/status` has no `VmRSS`"))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path)
        .with_context(|| format!("can not read `{path}`; has the process ended?"))
}

fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The second field is the program's name, which may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn parse_resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_user_and_system_time_whatever_the_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 9 0 0 0 120 34 5 6 20 0 4 0 99 1 2 3";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(1540)));
        assert_eq!(parse_cpu_time("7 (short) S 1"), None);
    }

    #[test]
    fn finds_resident_memory() {
        assert_eq!(parse_resident_kib("Name:\tx\nVmRSS:\t   18432 kB\n"), Some(18_432));
        assert_eq!(parse_resident_kib("Name:\tx\n"), None);
    }

    #[test]
    fn reads_this_process() {
        let pid = std::process::id();
        assert!(cpu_time(pid).is_ok());
        assert!(resident_kib(pid).unwrap() > 0);
    }
}
