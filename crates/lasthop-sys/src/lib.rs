//! Safe interfaces to Linux: all `unsafe` code of the workspace, and all code that uses the kernel's own formats.
//!
//! | module | contents |
//! |---|---|
//! | [`clock`] | the kernel's clocks as the mechanisms' time |
//! | [`poll`] | waiting for descriptors |
//! | [`packet_socket`] | Ethernet frames in and out, in batches |
//! | [`raw`] | output of complete IP packets |
//! | [`nfqueue`] | packets from netfilter and verdicts back, in batches |
//! | [`netlink`] | requests to the kernel, and its answers |
//! | [`links`] | changes of interfaces (rtnetlink) |
//! | [`routes`] | routes of packets (rtnetlink) |
//! | [`conntrack`] | address translation of connections (ctnetlink) |
//! | [`datagrams`] | UDP with arrival times and traffic classes |
//! | [`ip_tables`] | size of a legacy netfilter table |
//! | [`ruleset`] | announced changes of the nftables ruleset |
//! | [`tcp_sockets`] | existing TCP sockets (sock_diag) |
//! | [`ethtool`] | offloads of network interfaces |
//! | [`tcp`] | options of TCP sockets that `socket2` lacks |
//! | [`namespace`] | network namespaces: threads and programs in them |
//! | [`memory`] | huge pages for large blocks of memory |
//! | [`process`] | settings of this process in the kernel and the C library |
//! | [`signals`] | signals, received one by one |
//! | [`bpf`] | BPF programs: assembled, loaded, attached |
//! | [`privileges`], [`syscalls`] | permissions that a process gives up |
#![cfg(target_os = "linux")]

pub mod bpf;
pub mod clock;
pub mod conntrack;
pub mod datagrams;
pub mod ethtool;
pub mod ip_tables;
pub mod links;
pub mod memory;
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
pub mod unicast;
