//! The rules as seccomp filters.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

use crate::bpf;
use crate::privileges::Tasks;
use crate::tcp::UNSENT;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts all threads of this process permanently to the calls that `tasks` need. No more threads can be started
/// afterwards.
///
/// # Errors
///
/// Returns an error if the kernel has no seccomp.
pub fn confine(tasks: Tasks) -> io::Result<()> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let compile = |rules, otherwise, action| {
        let filter = SeccompFilter::new(rules, otherwise, action, arch)?;
        BpfProgram::try_from(filter)
    };
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let allowed =
        allowed(tasks).and_then(|rules| compile(rules, refuse, SeccompAction::Allow)).map_err(io::Error::other)?;
    let deadly = deadly().map(|call| (call, Vec::new())).collect();
    let deadly = compile(deadly, SeccompAction::Allow, SeccompAction::KillProcess).map_err(io::Error::other)?;
    // The most severe result of all filters applies. `allowed` forbids the call that installs filters, so it comes
    // last.
    for filter in [deadly, allowed] {
        apply_filter_all_threads(&filter).map_err(|error| match error {
            Error::Seccomp(error) | Error::Prctl(error) => error,
            error => io::Error::other(error),
        })?;
    }
    Ok(())
}

/// Calls for other programs and other processes' memory, kernel modules, other namespaces and mounts.
fn deadly() -> impl Iterator<Item = i64> {
    let calls = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_open_by_handle_at,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
    ];
    calls.into_iter()
}

/// System calls that every worker needs: open descriptors, memory, time, waiting for other threads, and exit.
const ALWAYS: [libc::c_long; 54] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    // Truncates a recording to its last complete step if the disk is full.
    libc::SYS_ftruncate,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
];

/// Older names of such calls, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLDER: [libc::c_long; 6] =
    [libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_readlink, libc::SYS_time, libc::SYS_stat, libc::SYS_lstat];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [libc::c_long; 0] = [];

/// Calls to accept connections and to open them with foreign addresses; and for pipes between them.
const SPLITTING: [libc::c_long; 7] = [
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_pipe2,
    libc::SYS_splice,
];

/// A call with conditions on its arguments by number.
struct Rule<const N: usize>(libc::c_long, [(u8, SeccompCmpOp, u64); N]);

impl<const N: usize> Rule<N> {
    fn add_to(self, rules: &mut Rules) -> Result<(), BackendError> {
        let Self(call, conditions) = self;
        let all = conditions.map(|(argument, operator, value)| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        });
        let rule = SeccompRule::new(all.into_iter().collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
        Ok(())
    }
}

fn allowed(tasks: Tasks) -> Result<Rules, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let plain = |calls: &[libc::c_long]| calls.iter().map(|&call| (call, Vec::new())).collect::<Rules>();
    let mut rules = plain(&ALWAYS);
    rules.extend(plain(&OLDER));
    // Files may be opened for reading if the user has access, but neither written nor created.
    let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
    Rule(libc::SYS_openat, [(2, MaskedEq(writes), libc::O_RDONLY as u64)]).add_to(&mut rules)?;
    #[cfg(target_arch = "x86_64")]
    Rule(libc::SYS_open, [(1, MaskedEq(writes), libc::O_RDONLY as u64)]).add_to(&mut rules)?;
    // Memory, but not executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        Rule(call, [(2, MaskedEq(libc::PROT_EXEC as u64), 0)]).add_to(&mut rules)?;
    }
    // A new thread sets its name.
    Rule(libc::SYS_prctl, [(0, Eq, libc::PR_SET_NAME as u64)]).add_to(&mut rules)?;
    // The process may signal itself.
    Rule(libc::SYS_tgkill, [(0, Eq, u64::from(std::process::id()))]).add_to(&mut rules)?;
    for command in [libc::F_DUPFD_CLOEXEC, libc::F_GETFL, libc::F_SETFL, libc::F_GETFD, libc::F_SETFD] {
        Rule(libc::SYS_fcntl, [(1, Eq, command as u64)]).add_to(&mut rules)?;
    }
    Rule(libc::SYS_ioctl, [(1, Eq, libc::FIONBIO)]).add_to(&mut rules)?;
    if tasks.splits {
        rules.extend(plain(&SPLITTING));
        for family in [libc::AF_INET, libc::AF_INET6] {
            // The type field contains flags too.
            let stream = (1, MaskedEq(0xf), libc::SOCK_STREAM as u64);
            Rule(libc::SYS_socket, [(0, Eq, family as u64), stream]).add_to(&mut rules)?;
        }
        // Routes are looked up when the first connection of a wired opener arrives.
        Rule(libc::SYS_socket, [(0, Eq, libc::AF_NETLINK as u64), (2, Eq, 0)]).add_to(&mut rules)?;
        // For unacknowledged data of a connection that is reset.
        for command in [libc::TIOCOUTQ, UNSENT] {
            Rule(libc::SYS_ioctl, [(1, Eq, command)]).add_to(&mut rules)?;
        }
        for command in [libc::F_GETPIPE_SZ, libc::F_SETPIPE_SZ] {
            Rule(libc::SYS_fcntl, [(1, Eq, command as u64)]).add_to(&mut rules)?;
        }
    }
    if tasks.bridges {
        for command in [bpf::MAP_UPDATE_ELEM, bpf::LINK_CREATE] {
            Rule(libc::SYS_bpf, [(0, Eq, command as u64)]).add_to(&mut rules)?;
        }
        // Open packet sockets follow interfaces that appear; no other socket can be opened.
        rules.extend(plain(&[libc::SYS_bind]));
    }
    Ok(rules)
}
