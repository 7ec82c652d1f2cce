//! Accurate ECN (RFC 9768), with the flags of the scripts `tcp_accecn_*` of the kernel.

use lasthop_proto::tcp::config::{EcnMode, TcpConfig};

use crate::util::drill::*;

fn accurate() -> TcpConfig {
    linux().with(|c| c.common.ecn = EcnMode::Accurate)
}

/// The count starts at 5, AE and ECE. It wraps after 7, and the third mark is 0.
#[test]
fn the_sender_counts_the_marks_that_the_flags_report() {
    drill(
        accurate(),
        "server accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 write 1000
         0 > [ect0] PEA. 1:1001(1000) ack 1
         50 < [ect0] WA. 1:1(0) ack 1001
         51 ? delivered_ce=1
         60 write 1000
         60 > [ect0] PEA. 1001:2001(1000) ack 1
         110 < [ect0] WA. 1:1(0) ack 2001
         111 ? delivered_ce=1
         120 write 1000
         120 > [ect0] PEA. 2001:3001(1000) ack 1
         170 < [ect0] EWA. 1:1(0) ack 3001
         171 ? delivered_ce=2
         180 write 1000
         180 > [ect0] PEA. 3001:4001(1000) ack 1
         230 < [ect0] . 1:1(0) ack 4001
         231 ? delivered_ce=3",
    );
}

/// Each change of the ECN field is acknowledged at once.
#[test]
fn the_receiver_reports_marks_in_the_flags() {
    drill(
        accurate(),
        "server accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 < [ce] PEA. 1:1001(1000) ack 1
         0 > [ect0] WA. 1:1(0) ack 1001
         50 < [ect0] PEA. 1001:2001(1000) ack 1
         50 > [ect0] WA. 1:1(0) ack 2001
         100 < [ce] PEA. 2001:3001(1000) ack 1
         100 > [ect0] EWA. 1:1(0) ack 3001
         150 < [ect1] PEA. 3001:4001(1000) ack 1
         150 > [ect0] EWA. 1:1(0) ack 4001
         200 < [ce] PEA. 4001:5001(1000) ack 1
         200 > [ect0] . 1:1(0) ack 5001
         210 ? received_ce=3",
    );
}

/// The same count in a later acknowledgment of seven segments is no further mark.
#[test]
fn a_mark_reduces_the_window() {
    drill(
        accurate(),
        "server accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 write 10000
         0 > [ect0] EA. 1:1001(1000) ack 1
         0 > [ect0] PEA. 1001:2001(1000) ack 1
         0 > [ect0] EA. 2001:3001(1000) ack 1
         0 > [ect0] PEA. 3001:4001(1000) ack 1
         0 > [ect0] EA. 4001:5001(1000) ack 1
         0 > [ect0] PEA. 5001:6001(1000) ack 1
         0 > [ect0] EA. 6001:7001(1000) ack 1
         0 > [ect0] PEA. 7001:8001(1000) ack 1
         0 > [ect0] EA. 8001:9001(1000) ack 1
         0 > [ect0] PEA. 9001:10001(1000) ack 1
         50 < [ect0] WA. 1:1(0) ack 2001
         51 ? delivered_ce=1 ca_state=Cwr
         60 < [ect0] WA. 1:1(0) ack 9001
         61 ? delivered_ce=1",
    );
}

/// Ten segments are acknowledged with a count of 1 more: one mark or nine, and nine are assumed.
#[test]
fn a_count_that_may_have_wrapped_has_wrapped() {
    drill(
        accurate(),
        "server accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 write 10000
         0 > [ect0] EA. 1:1001(1000) ack 1
         0 > [ect0] PEA. 1001:2001(1000) ack 1
         0 > [ect0] EA. 2001:3001(1000) ack 1
         0 > [ect0] PEA. 3001:4001(1000) ack 1
         0 > [ect0] EA. 4001:5001(1000) ack 1
         0 > [ect0] PEA. 5001:6001(1000) ack 1
         0 > [ect0] EA. 6001:7001(1000) ack 1
         0 > [ect0] PEA. 7001:8001(1000) ack 1
         0 > [ect0] EA. 8001:9001(1000) ack 1
         0 > [ect0] PEA. 9001:10001(1000) ack 1
         50 < [ect0] WA. 1:1(0) ack 10001
         51 ? delivered_ce=9",
    );
}

/// The SYN-ACK accepts the offer; the acknowledgment before reports that it was not ECN-capable. Every further
/// segment has the count.
#[test]
fn the_first_acknowledgment_reflects_the_field_of_the_syn_ack() {
    drill(
        accurate(),
        "client accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         10 write 1000
         10 > [ect0] PEA. 1:1001(1000) ack 1
         60 < [ect0] PEA. 1:1001(1000) ack 1001
         60 > [ect0] EA. 1001:1001(0) ack 1001
         61 ? delivered_ce=0",
    );
}
