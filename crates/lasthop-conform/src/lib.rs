//! Conformance runner: packetdrill scripts against a TCP in virtual time.
//!
//! A packetdrill script is a list of events with times: segments that arrive, segments that have to leave, socket calls
//! with their results, and assertions over `tcp_info`. packetdrill runs it on the kernel in real time. This crate runs
//! it on a state machine without I/O, so that a suite of a thousand scripts takes a second, and the same script gives
//! the same result on any machine.
//!
//! # Parts
//!
//! | module | contents |
//! |---|---|
//! | [`script`] | syntax tree |
//! | [`parse`] | parser: every error has a line and a remedy; no input panics |
//! | [`code`] | blocks of Python: assertions over `tcp_info` |
//! | [`shell`] | shell commands, understood from their text as settings; nothing is executed |
//! | [`stack`] | [`stack::Stack`], which a stack under test implements |
//! | [`lasthop`] | lasthop's `Connection` as a stack, under any preset |
//! | [`run`] | virtual time, socket calls, comparison of segments; [`run::Verdict`] |
//! | [`suite`] | files and folders |
//! | [`differential`] | seeded random cases, comparison, shortening, scripts from cases |
//! | `kernel` | with the feature `kernel`: packetdrill and random cases in network namespaces |
//!
//! # A run
//!
//! Before the first event, [`run::run`] looks for what the script requires and neither the runner nor the stack has
//! ([`stack::Stack::lacks`]). Such a script is *not applicable*, with the line and the name of the feature. Otherwise
//! events happen in order. Segments of the stack wait in a queue with their times until the script expects them; the
//! first that differs, or that does not come, ends the run as *failed*. Segments that the script does not expect at the
//! end are ignored, as in packetdrill.
//!
//! Times are compared with packetdrill's tolerance: 4 ms, or an eighth of the time since the previous event if that is
//! longer, or the script's `--tolerance_usecs` and `--tolerance_percent`. Sequence numbers and timestamps are relative
//! to those of the connection, as in packetdrill. There are three deviations: options are compared without padding and
//! order; echoed timestamps are compared; and one expected segment may stand for a burst of smaller ones, but a stack
//! that sends one larger segment than expected fails.
//!
//! # Differential mode
//!
//! A random case is a list of stimuli, drawn while lasthop runs, so that they acknowledge data that a stack has sent.
//! The same stimuli go to the kernel, through a TUN device to real sockets, and to lasthop. All segments are compared.
//! Since the phase of the kernel's clock is unknown, lasthop runs with four phases, of which one has to match.

pub mod code;
pub mod differential;
pub mod format;
#[cfg(all(feature = "kernel", target_os = "linux"))]
pub mod kernel;
pub mod lasthop;
pub mod parse;
pub mod run;
pub mod script;
pub mod shell;
pub mod stack;
pub mod suite;
