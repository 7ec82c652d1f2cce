//! What can go wrong in the lab, each in one line.

use std::io;
use std::path::PathBuf;

use lasthop_proto::time::Duration;

use crate::host::HostError;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Whoever runs it may not make network namespaces.
    #[error("the lab makes network namespaces, which takes root; run it with sudo")]
    NotRoot,
    /// The scenario has something that only the simulator knows.
    #[error("the lab cannot run {what} ({name}); {instead}")]
    Unsupported {
        /// What kind of thing.
        what: &'static str,
        /// Which.
        name: String,
        /// What to do about it.
        instead: &'static str,
    },
    /// The scheme has a part at the base station that nothing here plays.
    #[error(
        "scheme {scheme} asks for something at {router} that the gateway does not do; it does LL, LL-SMART, their TCP-AWARE kinds, and SPLIT"
    )]
    NeedsGateway {
        /// The scheme.
        scheme: &'static str,
        /// Where its part would be.
        router: String,
    },
    /// The gateway did not come up, or went away.
    #[error("the gateway at the base station: {0}")]
    Gateway(String),
    /// The scheme needs a TCP that no kernel has.
    #[error(
        "scheme {scheme} asks {host} for something that no kernel has ({what}), and the scenario says \"kernel\" there; give \"auto\" or \
         \"own\" (lab.endpoints, lab.hosts.NAME.endpoints)"
    )]
    NeedsOwnTcp {
        /// The scheme.
        scheme: &'static str,
        /// Which host.
        host: String,
        /// What it would do there.
        what: &'static str,
    },
    /// No kernel has the scenario's congestion control.
    #[error(
        "tcp.congestion: no kernel has {what}; name a congestion control of the kernel in lab.congestion, or give lab.endpoints = \"own\""
    )]
    NoKernelCongestion {
        /// The congestion control.
        what: &'static str,
    },
    /// A host with lasthop's TCP did not come up.
    #[error("lasthop's own TCP at {host}: {error}")]
    OwnTcp {
        /// Which host.
        host: String,
        /// Why not.
        error: HostError,
    },
    /// TLS refused its configuration.
    #[error("QUIC's ends could not be made: {0}")]
    Quic(String),
    /// The kernel has the congestion control, and lets no namespace make it the default.
    #[error(
        "lab.congestion: this kernel does not let a namespace have \"{name}\" as its default; `sysctl -w \
         net.ipv4.tcp_allowed_congestion_control=\"{allowed} {name}\"` allows it"
    )]
    CongestionNotAllowed {
        /// As the scenario says.
        name: String,
        /// What the kernel allows.
        allowed: String,
    },
    /// The kernel does not have the congestion control.
    #[error("lab.congestion: this kernel has no \"{name}\" ({error}); it has {available}")]
    Congestion {
        /// As the scenario says.
        name: String,
        /// What the kernel said.
        error: io::Error,
        /// What it has.
        available: String,
    },
    /// A command failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        message: String,
    },
    /// A command could not be started.
    #[error("cannot start `{command}` ({error}); the lab needs iproute2, and --nat needs nft or iptables")]
    NoCommand {
        /// The command.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// A file of the kernel's could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The bytes that arrived are not those that were sent.
    #[error("flow {flow}: byte {at} arrived altered: what is between the hosts damages data")]
    Altered {
        /// The flow.
        flow: String,
        /// Offset in the transfer.
        at: u64,
    },
    /// The emulated links were late, again and again.
    #[error("void: {reason}, in each of {attempts} attempts; end other load on this machine, or raise lab.lateness (now {bound})", bound = millis(*bound))]
    Void {
        /// What happened in the last attempt.
        reason: String,
        /// The scenario's bound for the 99th percentile of lateness.
        bound: Duration,
        /// How often it was tried.
        attempts: u32,
    },
    /// A lab cannot have this name.
    #[error("--name {name}: {what}")]
    Name {
        /// The name.
        name: String,
        /// Why not, and what would help.
        what: String,
    },
    /// A program beside the command failed.
    #[error("--serve {host}: `{line}` {what}")]
    Server {
        /// Where it was to run.
        host: String,
        /// Its command line.
        line: String,
        /// What happened.
        what: String,
    },
    /// There is no such host.
    #[error("{option} {given}: the scenario has no host of this name; it has {}", known.join(", "))]
    NoHost {
        /// The option.
        option: &'static str,
        /// What was given.
        given: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Someone asked for an end.
    #[error("stopped")]
    Stopped,
}

impl LabError {
    /// The kernel's last word on `what`.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::System { what, error }
    }

    /// The same for rustix's errors.
    pub(crate) fn errno(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let what = what.into();
        move |error| Self::System { what, error: error.into() }
    }
}

/// `1.234 ms`.
pub(crate) fn millis(span: Duration) -> String {
    format!("{:.3} ms", span.as_nanos() as f64 / 1e6)
}
