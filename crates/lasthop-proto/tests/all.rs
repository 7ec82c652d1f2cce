//! The integration tests of this crate, in one program, so that it is linked once.

mod util;

mod accurate_snoop;
mod arq;
mod cause;
mod congestion;
mod garbage;
mod golden_abc;
mod golden_ack_congestion;
mod golden_acks;
mod golden_blind;
mod golden_bsd;
mod golden_bsd_windows;
mod golden_close;
mod golden_ecn;
mod golden_eln;
mod golden_handshake;
mod golden_newreno;
mod golden_offloads;
mod golden_path;
mod golden_prague;
mod golden_rack;
mod golden_reno;
mod golden_rfc6675;
mod golden_sack1;
mod golden_smart;
mod golden_split;
mod golden_srp;
mod golden_timers;
mod golden_window;
mod hybrid;
mod info;
mod linux;
mod pacing_by_fq;
mod properties;
mod transfers;
