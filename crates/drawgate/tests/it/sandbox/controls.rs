//! The lab itself: without a box, the same attempts succeed, and the lab says so.

use super::attempt::attack_bare;
use super::caller::Caller;
use super::lab::Lab;
use super::outcome::run;
use super::table::named;

/// What anybody can do on a machine where nothing holds them back.
const ANYBODY: &[&str] = &[
    "fs_write_outside",
    "fs_write_parent_dotdot",
    "fs_write_prefix_sibling",
    "fs_symlink_dir_out",
    "fs_symlink_file_out",
    "fs_rename_out",
    "fs_hardlink_in",
    "fs_unlink_outside",
    "fs_protected_mcp_json",
    "fs_protected_toolpack_manifest",
    "fs_protected_rename_parent",
    "fs_setuid_drop",
    "fs_read_secret_file",
    "fs_read_cloud_creds",
    "fs_inherited_descriptor",
    "fs_workspace_swap",
    "fs_tmp_private",
    "env_inherited",
    "env_ssh_agent",
    "env_loader_vars",
    "proc_environ_gateway",
    "proc_cmdline_all",
    "process_vm_readv_gateway",
    "prlimit_gateway",
    "tty_open_parent",
    "ipc_sysv_shm",
    "ipc_posix_shm",
    "net_tcp_loopback",
    "net_tcp_mapped_v6",
    "net_bash_dev_tcp",
    "net_tcp_fastopen",
    "net_unix_path",
    "net_unix_abstract",
    "net_listen_reachable",
    "priv_seccomp_on",
    "priv_no_new_privs",
    "res_sparse_10T",
    "kill_gateway",
];

/// What root can do besides.
const ROOT: &[&str] = &[
    "fs_write_etc",
    "fs_read_proc_pid_root",
    "fs_chroot_escape",
    "priv_caps_zero",
    "priv_not_host_root",
    "sched_rt",
    "sys_write_sysctl",
    "net_packet",
    "nice_below_zero",
];

#[tokio::test]
async fn without_a_box_the_same_attempts_succeed() {
    for caller in Caller::all() {
        let mut lab = Lab::new(caller);
        let more = if caller.is_root() { ROOT } else { &[] };
        // The last one of the first list kills the lab's process.
        for name in more.iter().chain(ANYBODY) {
            let row = named(name);
            assert!(!row.is("unsafe"), "{name} must not run outside of the box");
            let evidence = attack_bare(&mut lab, &row).await;
            assert!(!evidence.is_empty(), "{name} went unnoticed ({caller:?})");
        }
    }
}

#[tokio::test]
async fn the_profile_none_is_no_box() {
    for caller in Caller::all() {
        let lab = Lab::new(caller);
        for name in ["fs_read_secret_file", "net_tcp_loopback", "priv_seccomp_on"] {
            let row = named(name);
            let outcome = run(&mut lab.exec(&["--profile", "none"], row.command)).await;
            assert!(outcome.stdout.contains("ESCAPED"), "{name} ({caller:?}): {outcome:?}");
        }
        let outside = lab.path().join("out/pwn_direct");
        run(&mut lab.exec(&["--profile", "none"], named("fs_write_outside").command)).await;
        assert!(outside.exists(), "{caller:?}");
    }
}
