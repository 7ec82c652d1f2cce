//! Accurate ECN (RFC 9768), with the flags of the scripts `tcp_accecn_*` of the kernel.

use lasthop_proto::tcp::config::{EcnMode, EcnOption, TcpConfig};

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

/// Nine segments are acknowledged with a count of 1 more: one mark or nine, and nine are assumed.
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
         50 < [ect0] EA. 1:1(0) ack 1001
         60 < [ect0] WA. 1:1(0) ack 10001
         61 ? delivered_ce=9",
    );
}

/// If acknowledgments cover more than four segments on average, the path thins them, and the count has not wrapped.
#[test]
fn a_count_in_thinned_acknowledgments_has_not_wrapped() {
    drill(
        accurate(),
        "server accecn rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 write 8000
         0 > [ect0] EA. 1:1001(1000) ack 1
         0 > [ect0] PEA. 1001:2001(1000) ack 1
         0 > [ect0] EA. 2001:3001(1000) ack 1
         0 > [ect0] PEA. 3001:4001(1000) ack 1
         0 > [ect0] EA. 4001:5001(1000) ack 1
         0 > [ect0] PEA. 5001:6001(1000) ack 1
         0 > [ect0] EA. 6001:7001(1000) ack 1
         0 > [ect0] PEA. 7001:8001(1000) ack 1
         50 < [ect0] EA. 1:1(0) ack 8001
         51 ? delivered_ce=0",
    );
}

/// The option counts bytes by their ECN field, ECT(1) first; those of ECT begin with 1. Segments are smaller for it.
#[test]
fn the_option_counts_bytes() {
    drill(
        accurate(),
        "server accecn option rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 < [ce] PEA. 1:1001(1000) ack 1 <ECN e0b 1 ceb 0 e1b 1>
         0 > [ect0] WA. 1:1(0) ack 1001 <ECN e1b 1 ceb 1000 e0b 1>
         50 < [ect1] PEA. 1001:1101(100) ack 1
         50 > [ect0] WA. 1:1(0) ack 1101 <ECN e1b 101 ceb 1000 e0b 1>
         100 write 1976
         100 > [ect0] WA. 1:989(988) ack 1101 <ECN e1b 101 ceb 1000 e0b 1>
         100 > [ect0] PWA. 989:1977(988) ack 1101 <ECN e1b 101 ceb 1000 e0b 1>
         150 < [ect0] WA. 1101:1101(0) ack 1977 <ECN e0b 989 ceb 988 e1b 1>
         151 ? delivered_ce=1 delivered_bytes=[0,988,988] received_bytes=[100,0,1000] snd_mss=1000",
    );
}

/// The option takes the place of SACK blocks, of which two stay, if it has counters that changed.
#[test]
fn the_option_precedes_the_third_block() {
    drill(
        accurate(),
        "server accecn option rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 < [ect1] PEA. 1001:2001(1000) ack 1
         0 > [ect0] EA. 1:1(0) ack 1 <ECN e1b 1001 ceb 0 e0b 1,sack 1001:2001>
         10 < [ect1] PEA. 3001:4001(1000) ack 1
         10 > [ect0] EA. 1:1(0) ack 1 <ECN e1b 2001 ceb 0 e0b 1,sack 3001:4001 1001:2001>
         20 < [ect1] PEA. 5001:6001(1000) ack 1
         20 > [ect0] EA. 1:1(0) ack 1 <ECN e1b 3001 ceb 0 e0b 1,sack 5001:6001 3001:4001 1001:2001>
         30 < [ect1] PEA. 7001:8001(1000) ack 1
         30 > [ect0] EA. 1:1(0) ack 1 <ECN e1b 4001,sack 7001:8001 5001:6001 3001:4001 1001:2001>
         40 < [ce] PEA. 9001:9101(100) ack 1
         40 > [ect0] WA. 1:1(0) ack 1 <ECN e1b 4001 ceb 100 e0b 1,sack 9001:9101 7001:8001 5001:6001>",
    );
}

/// Beside timestamps and two blocks there is space for two counters. Bytes with ECT(0), of the third, arrive: they are
/// not worth one of the two blocks.
#[test]
fn two_blocks_precede_the_option() {
    drill(
        accurate(),
        "server accecn option rtt 50 win 257 <mss 1000,sackOK,TS val 1000 ecr 0,wscale 7>
         0 < [ect1] PEA. 1001:2001(1000) ack 1 <TS val 1001 ecr 10001>
         0 > [ect0] EA. 1:1(0) ack 1 <TS val 10001 ecr 1000,ECN e1b 1001 ceb 0 e0b 1,sack 1001:2001>
         10 < [ect1] PEA. 3001:4001(1000) ack 1 <TS val 1011 ecr 10001>
         10 > [ect0] EA. 1:1(0) ack 1 <TS val 10011 ecr 1000,ECN e1b 2001 ceb 0,sack 3001:4001 1001:2001>
         20 < [ect0] PEA. 5001:6001(1000) ack 1 <TS val 1021 ecr 10001>
         20 > [ect0] EA. 1:1(0) ack 1 <TS val 10021 ecr 1000,sack 5001:6001 3001:4001 1001:2001>",
    );
}

/// An acknowledgment that reports a duplicate with the option is lost, too: segments with the option do not pass.
#[test]
fn the_option_ends_if_segments_with_it_are_lost() {
    let script = |third: &str| {
        format!(
            "server accecn option rtt 50 win 257 <mss 1000,sackOK,wscale 7>
             0 < [ect0] PEA. 1:1001(1000) ack 1
             0 > [ect0] EA. 1:1(0) ack 1001 <ECN e1b 1 ceb 0 e0b 1001>
             300 < [ect0] PEA. 1:1001(1000) ack 1
             300 > [ect0] EA. 1:1(0) ack 1001 <ECN e1b 1 ceb 0 e0b 2001,sack 1:1001>
             900 < [ect0] PEA. 1:1001(1000) ack 1
             900 > [ect0] EA. 1:1(0) ack 1001 <{third}sack 1:1001>"
        )
    };
    drill(accurate(), &script(""));
    let persistent = accurate().with(|c| c.common.ecn_option = EcnOption::Persistent);
    drill(persistent, &script("ECN e1b 1 ceb 0 e0b 3001,"));
}

/// After a change of the ECN field, two segments carry the option; others do three times in a round trip.
#[test]
fn a_sparing_receiver_reports_changes() {
    let sparing = accurate().with(|c| (c.common.ecn_option, c.common.ecn_option_beacon) = (EcnOption::Minimum, 0));
    drill(
        sparing,
        "server accecn option rtt 50 win 257 <mss 1000,sackOK,wscale 7>
         0 < [ect0] PEA. 1:1001(1000) ack 1
         0 > [ect0] EA. 1:1(0) ack 1001 <ECN e1b 1 ceb 0 e0b 1001>
         10 < [ect0] PEA. 1001:2001(1000) ack 1
         10 > [ect0] EA. 1:1(0) ack 2001 <ECN e1b 1 ceb 0 e0b 2001>
         20 < [ect0] PEA. 2001:3001(1000) ack 1
         20 > [ect0] EA. 1:1(0) ack 3001
         30 < [ce] PEA. 3001:4001(1000) ack 1
         30 > [ect0] WA. 1:1(0) ack 4001 <ECN e1b 1 ceb 1000 e0b 3001>",
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
