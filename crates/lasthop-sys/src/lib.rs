//! Linux behind safe interfaces: all of the workspace's `unsafe` code, and whatever talks to the kernel in its own formats.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the kernel's monotonic clock as the mechanisms' time |
//! | [`poll`] | waiting for descriptors |
//! | [`packet_socket`] | Ethernet frames in and out, in batches |
//! | [`raw`] | whole IP packets out |
//! | [`nfqueue`] | packets from netfilter and verdicts back, in batches |
//! | [`netlink`] | requests to the kernel, and its answers |
//! | [`links`] | interfaces as they come, change and go (rtnetlink) |
//! | [`routes`] | by which interface a packet would leave (rtnetlink) |
//! | [`conntrack`] | how a connection's addresses are translated (ctnetlink) |
//! | [`datagrams`] | UDP with times of arrival and traffic classes |
//! | [`ip_tables`] | the size of an older netfilter table |
//! | [`ruleset`] | changes of the nftables ruleset, as they are announced |
//! | [`tcp_sockets`] | which TCP sockets exist (sock_diag) |
//! | [`ethtool`] | what network cards do by themselves |
//! | [`tcp`] | what `socket2` lacks of the kernel's TCP sockets |
//! | [`namespace`] | network namespaces: threads and programs in them |
//! | [`process`] | how the kernel and the C library treat this process |
//! | [`signals`] | signals, taken one by one |
//! | [`bpf`] | BPF programs: assembled, loaded, attached |
//! | [`privileges`], [`syscalls`] | rights that a process gives up |
#![cfg(target_os = "linux")]

pub mod bpf;
pub mod clock;
pub mod conntrack;
pub mod datagrams;
pub mod ethtool;
pub mod ip_tables;
pub mod links;
pub mod namespace;
pub mod netlink;
pub mod nfqueue;
mod option;
pub mod packet_socket;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod raw;
pub mod routes;
pub mod ruleset;
pub mod signals;
pub mod syscalls;
pub mod tcp;
pub mod tcp_sockets;
