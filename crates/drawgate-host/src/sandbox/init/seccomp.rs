//! The filter of system calls.
//!
//! A list of what is refused: the calls that change namespaces, mounts and the machine, that look
//! into other processes, that reach the kernel by ways the rest of the box does not see, and every
//! call that is newer than this list. Sockets are the other way round: four families are allowed.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::sandbox::error::{Part, SandboxError};

/// Calls after this number are unknown here, so programs are told that they don't exist. On x86-64
/// that covers the 32-bit pointer interface too, whose numbers have a high bit set.
const LAST_KNOWN: u32 = 466;

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;
type Built<T> = Result<T, seccompiler::BackendError>;

/// What the rest of the box leaves to the filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filter {
    /// Memory is counted by init, which can't see what belongs to no process.
    pub(super) no_loose_memory: bool,
    /// Processors are limited by affinity, which a program could change back.
    pub(super) no_affinity: bool,
}

impl Filter {
    /// Puts the filter on this thread, for good.
    pub(super) fn apply(self) -> Result<(), SandboxError> {
        let failed = |error: String| SandboxError::build(Part::Seccomp, "filter", error);
        for program in self.programs().map_err(|error| failed(error.to_string()))? {
            apply_filter(&program).map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }

    fn programs(self) -> Built<Vec<BpfProgram>> {
        let refused = compile(self.refused()?, libc::EPERM)?;
        let missing = compile(self.missing(), libc::ENOSYS)?;
        let unsupported = compile(unsupported()?, libc::EOPNOTSUPP)?;
        Ok(vec![unknown_calls(), missing, unsupported, refused])
    }

    /// Calls that answer "not permitted".
    fn refused(self) -> Built<Rules> {
        let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
        if self.no_affinity {
            rules.insert(libc::SYS_sched_setaffinity, Vec::new());
        }
        let namespaces = [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
        ];
        let clone = namespaces.iter().map(|flag| rule([bit(0, flag.unsigned_abs())?]));
        rules.insert(libc::SYS_clone, clone.collect::<Built<_>>()?);
        rules.insert(libc::SYS_socket, sockets()?);
        rules.insert(libc::SYS_socketpair, vec![rule([is_not(0, libc::AF_UNIX)?])?]);
        let terminal = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD, libc::TIOCCONS];
        let requests = terminal.into_iter().chain(RESERVING);
        let requests = requests.map(|request| rule([is(1, request)?]));
        rules.insert(libc::SYS_ioctl, requests.collect::<Built<_>>()?);
        // Other processes' limits; its own have the id 0.
        rules.insert(libc::SYS_prlimit64, vec![rule([is_not(0, 0)?])?]);
        let personalities = [0, 0x0002_0000, 0xffff_ffff];
        let odd = personalities.into_iter().map(|known| compare(0, SeccompCmpOp::Ne, known));
        rules.insert(libc::SYS_personality, vec![SeccompRule::new(odd.collect::<Built<_>>()?)?]);
        file_modes(&mut rules)?;
        Ok(rules)
    }

    /// Calls that answer "no such call", after which programs take an older one.
    fn missing(self) -> Rules {
        let mut calls = vec![
            // Their arguments are in memory, where a filter can't look.
            libc::SYS_clone3,
            libc::SYS_openat2,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_enter,
            libc::SYS_io_uring_register,
            libc::SYS_memfd_secret,
        ];
        if self.no_loose_memory {
            calls.extend([libc::SYS_memfd_create, libc::SYS_shmget]);
        }
        calls.into_iter().map(|call| (call, Vec::new())).collect()
    }
}

/// Calls that no program in the box may make.
const ALWAYS: &[c_long] = &[
    // Namespaces and mounts, in both interfaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// Space can be taken only as fast as it is written, so that no program outruns the counting of what
/// it takes: to reserve it answers "not supported", as many file systems do, and libraries write
/// instead. To give space back is allowed.
fn unsupported() -> Built<Rules> {
    let giving = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_COLLAPSE_RANGE;
    let giving = SeccompCmpOp::MaskedEq(u64::from(giving.unsigned_abs()));
    Ok(BTreeMap::from([(libc::SYS_fallocate, vec![rule([compare(1, giving, 0)?])?])]))
}

/// The same by other requests: `FS_IOC_RESVSP`, `FS_IOC_RESVSP64`, `FS_IOC_ZERO_RANGE`.
const RESERVING: [u64; 3] = [0x4030_5828, 0x4030_582a, 0x4030_5839];

/// Four families. Netlink only to ask about routes and devices; nothing raw.
fn sockets() -> Built<Vec<SeccompRule>> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other = families.into_iter().map(|family| is_not(0, family)).collect::<Built<_>>()?;
    let kind =
        |kind: libc::c_int| compare(1, SeccompCmpOp::MaskedEq(0xf), u64::from(kind.unsigned_abs()));
    Ok(vec![
        SeccompRule::new(other)?,
        rule([
            is(0, u64::from(libc::AF_NETLINK.unsigned_abs()))?,
            is_not(2, libc::NETLINK_ROUTE)?,
        ])?,
        rule([is_not(0, libc::AF_NETLINK)?, kind(libc::SOCK_RAW)?])?,
        rule([kind(SOCK_PACKET)?])?,
    ])
}

/// No set-id bits, by whatever call a mode is given; no device nodes.
fn file_modes(rules: &mut Rules) -> Built<()> {
    let set_id = [libc::S_ISUID, libc::S_ISGID];
    let modes = |argument: u8| {
        set_id.into_iter().map(move |flag| rule([bit(argument, flag)?])).collect::<Built<Vec<_>>>()
    };
    let creating = |flags: u8, mode: u8| {
        let create = [
            libc::O_CREAT.unsigned_abs(),
            libc::O_TMPFILE.unsigned_abs() & !libc::O_DIRECTORY.unsigned_abs(),
        ];
        let pairs = create.into_iter().flat_map(|create| set_id.map(|flag| (create, flag)));
        pairs
            .map(|(create, flag)| rule([bit(flags, create)?, bit(mode, flag)?]))
            .collect::<Built<Vec<_>>>()
    };
    let nodes = |argument: u8| {
        let kind = u64::from(libc::S_IFMT);
        let devices = [libc::S_IFCHR, libc::S_IFBLK].into_iter();
        let devices = devices.map(move |device| {
            rule([compare(argument, SeccompCmpOp::MaskedEq(kind), u64::from(device))?])
        });
        let set_id = set_id.into_iter().map(move |flag| rule([bit(argument, flag)?]));
        devices.chain(set_id).collect::<Built<Vec<_>>>()
    };
    rules.insert(libc::SYS_fchmod, modes(1)?);
    rules.insert(libc::SYS_fchmodat, modes(2)?);
    rules.insert(SYS_FCHMODAT2, modes(2)?);
    rules.insert(libc::SYS_mkdirat, modes(2)?);
    rules.insert(libc::SYS_openat, creating(2, 3)?);
    rules.insert(libc::SYS_mknodat, nodes(2)?);
    #[cfg(target_arch = "x86_64")]
    {
        rules.insert(libc::SYS_chmod, modes(1)?);
        rules.insert(libc::SYS_creat, modes(1)?);
        rules.insert(libc::SYS_mkdir, modes(1)?);
        rules.insert(libc::SYS_open, creating(1, 2)?);
        rules.insert(libc::SYS_mknod, nodes(1)?);
    }
    Ok(())
}

/// An old kind of socket, of whatever family, that is the raw packet family in disguise.
const SOCK_PACKET: libc::c_int = 10;
/// The same number on every architecture.
const SYS_FCHMODAT2: c_long = 452;

fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> Built<SeccompRule> {
    SeccompRule::new(Vec::from(conditions))
}

/// The kernel takes all of these as 32-bit numbers, so the upper halves must not matter.
fn compare(argument: u8, operator: SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn bit(argument: u8, flag: u32) -> Built<SeccompCondition> {
    compare(argument, SeccompCmpOp::MaskedEq(u64::from(flag)), u64::from(flag))
}

fn is(argument: u8, value: u64) -> Built<SeccompCondition> {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: libc::c_int) -> Built<SeccompCondition> {
    compare(argument, SeccompCmpOp::Ne, u64::from(value.unsigned_abs()))
}

fn compile(rules: Rules, errno: libc::c_int) -> Built<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Written by hand, since the builder has no rule about the number itself. The architecture was
/// checked by then: filters that are put on later run first.
fn unknown_calls() -> BpfProgram {
    let instruction = |code: u32, jt: u8, jf: u8, k: u32| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, LAST_KNOWN),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, missing),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
