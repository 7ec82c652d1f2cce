//! The integration tests of this crate, in one program, so that it is linked once.

mod bundles;
mod call;
mod cell;
mod chain;
mod errors;
mod explained;
mod files;
mod graphs;
mod impairments;
mod l4s;
mod link_trace;
mod mobility;
mod modern;
mod mutations;
mod networks;
mod ns2;
mod queues;
mod quic;
mod tcp_keys;
mod tunnel;
mod units;
mod variation;
mod wifi;
