//! The mechanisms: TCP endpoints, TCP-aware hops, and lossy channels.
//!
//! Everything here is a state machine without I/O: no clock, no socket, no global randomness. A driver (the simulator,
//! the lab, the gateway) owns time and packets and runs the same code through one contract, [`node::Node`].
//!
//! | module | contents |
//! |---|---|
//! | [`time`], [`seq`], [`packet`], [`random`], [`node`], [`event`] | the vocabulary and the one contract |
//! | [`tcp`] | TCP endpoints: sender, receiver, loss recovery, congestion control |
//! | [`pep`] | performance-enhancing proxies (RFC 3135): snoop, ELN marker, ACK reconstruction, split relay |
//! | [`link`] | protocols between the two ends of a link: automatic repeat request, two-ended repair, aggregation, radios |
//! | [`channel`] | losses of frames |
//! | [`delay`] | delay of frames in addition to their link's |
//! | [`rate`] | variation of a link's rate in time |
//! | [`link_trace`] | recorded rate, delay and loss of a link, in step |
//! | [`bucket`] | a token bucket: policers and shapers |
//! | [`host_queue`] | share of a host's own queue that one socket may use |
//! | [`queue`] | queues in front of a link, and their drops and marks |
//! | [`scheme`] | the schemes by the names that the studies use |
//!
//! \[a\] cites H. Balakrishnan, V. N. Padmanabhan, S. Seshan, R. H. Katz: *A Comparison of Mechanisms for Improving TCP
//! Performance over Wireless Links*, IEEE/ACM Transactions on Networking 5(6), 1997; \[b\] G. Xylomenos, M. Vasalas
//! Kokkinakis: *Multiple Layer Error Control over Wireless Links*.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bucket;
pub mod channel;
pub mod delay;
pub mod event;
pub mod host_queue;
pub mod link;
pub mod link_trace;
pub mod node;
pub mod packet;
pub mod pep;
pub mod queue;
pub mod random;
pub mod rate;
pub mod scheme;
pub mod seq;
pub mod tcp;
pub mod time;
