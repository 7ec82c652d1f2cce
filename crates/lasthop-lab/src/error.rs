//! Errors of the lab, each with a message of one line.

use std::io;
use std::path::PathBuf;

use lasthop_proto::time::Duration;

use crate::host::HostError;

/// Error of a lab run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The user may not create network namespaces.
    #[error("the lab creates network namespaces, which requires root; run it with sudo")]
    NotRoot,
    /// The scenario uses a feature that only the simulator supports.
    #[error("the lab does not support {what} ({name}); {instead}")]
    Unsupported {
        /// Kind of feature.
        what: &'static str,
        /// Name of the element of the scenario.
        name: String,
        /// Advice.
        instead: &'static str,
    },
    /// The scheme has a part at the base station that is not implemented here.
    #[error(
        "scheme {scheme} requires an element at {router} that the gateway does not implement; it implements LL, LL-SMART, their TCP-AWARE kinds, and SPLIT"
    )]
    NeedsGateway {
        /// Name of the scheme.
        scheme: &'static str,
        /// Router of this part.
        router: String,
    },
    /// The gateway did not start, or ended.
    #[error("gateway at the base station: {0}")]
    Gateway(String),
    /// The scheme needs a TCP that no kernel has.
    #[error(
        "scheme {scheme} requires at {host} a feature that no kernel has ({what}), but the scenario specifies \"kernel\"; use \"auto\" \
         or \"own\" (lab.endpoints, lab.hosts.NAME.endpoints)"
    )]
    NeedsOwnTcp {
        /// Name of the scheme.
        scheme: &'static str,
        /// Name of the host.
        host: String,
        /// Feature that the scheme would need at this host.
        what: &'static str,
    },
    /// No kernel has the scenario's congestion control.
    #[error(
        "tcp.congestion: no kernel has {what}; set lab.congestion to a congestion control of the kernel, or lab.endpoints = \"own\""
    )]
    NoKernelCongestion {
        /// Name of the congestion control.
        what: &'static str,
    },
    /// A host with lasthop's TCP did not start.
    #[error("lasthop's own TCP at {host}: {error}")]
    OwnTcp {
        /// Name of the host.
        host: String,
        /// Cause.
        error: HostError,
    },
    /// TLS rejected its configuration.
    #[error("cannot create the QUIC endpoints: {0}")]
    Quic(String),
    /// The kernel has the congestion control, but does not allow it as the default of a namespace.
    #[error(
        "lab.congestion: this kernel does not permit \"{name}\" as the default of a namespace; permit it with `sysctl -w \
         net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\"`"
    )]
    CongestionNotAllowed {
        /// Name in the scenario.
        name: String,
        /// Congestion controls that the kernel allows.
        allowed: String,
    },
    /// The kernel does not have the congestion control.
    #[error("lab.congestion: this kernel has no \"{name}\" ({error}); it has {available}")]
    Congestion {
        /// Name in the scenario.
        name: String,
        /// The kernel's error.
        error: io::Error,
        /// Congestion controls that the kernel has.
        available: String,
    },
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// Error output of the command.
        message: String,
    },
    /// A command could not be started.
    #[error("cannot start `{command}` ({error}); the lab needs iproute2, and --nat needs nft or iptables")]
    NoCommand {
        /// The command.
        command: String,
        /// Cause.
        error: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted action.
        what: String,
        /// Cause.
        error: io::Error,
    },
    /// A kernel file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// The bytes that arrived differ from those that were sent.
    #[error("flow {flow}: byte {at} arrived altered; an element between the hosts corrupts data")]
    Altered {
        /// Name of the flow.
        flow: String,
        /// Offset in the transfer.
        at: u64,
    },
    /// Frames left the emulated links too late in each attempt.
    #[error("void: {reason}, in each of {attempts} attempts; reduce the load on this machine, or increase lab.lateness (now {bound})", bound = millis(*bound))]
    Void {
        /// Reason in the last attempt.
        reason: String,
        /// The scenario's bound for the 99th percentile of the scheduling delay.
        bound: Duration,
        /// Number of attempts.
        attempts: u32,
    },
    /// The given name of the lab is invalid.
    #[error("--name {name}: {what}")]
    Name {
        /// The name.
        name: String,
        /// Reason, and advice.
        what: String,
    },
    /// A server started beside the command failed.
    #[error("--serve {host}: `{line}` {what}")]
    Server {
        /// Name of the server's host.
        host: String,
        /// Command line of the server.
        line: String,
        /// Description of the failure.
        what: String,
    },
    /// The given host does not exist.
    #[error("{option} {given}: the scenario has no host of this name; its hosts are {}", known.join(", "))]
    NoHost {
        /// The option.
        option: &'static str,
        /// The given name.
        given: String,
        /// Names of the hosts.
        known: Vec<String>,
    },
    /// The run was interrupted.
    #[error("stopped")]
    Stopped,
}

impl LabError {
    /// Returns a function that wraps an I/O error of the action `what`.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }

    /// Returns a function that wraps an error of rustix.
    pub(crate) fn errno(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let what = what.into();
        move |error| Self::System { what, error: error.into() }
    }
}

/// Formats a duration like `1.234 ms`.
pub(crate) fn millis(span: Duration) -> String {
    format!("{:.3} ms", span.as_nanos() as f64 / 1e6)
}
