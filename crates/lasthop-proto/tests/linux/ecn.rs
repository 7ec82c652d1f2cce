//! Explicit congestion notification.

use crate::util::drill::*;

/// `tcp_sequence` comes before `tcp_ecn_accept_cwr`: the echo ends with the CWR of a segment that is in sequence.
#[test]
fn cwr_on_an_old_copy_is_ignored() {
    drill(
        linux(),
        "server ecn rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 < [ce] P. 1:1001(1000) ack 1
         0 > E. 1:1(0) ack 1001
         10 < [ect0] P. 1001:2001(1000) ack 1
         10 > E. 1:1(0) ack 2001
         20 < [ect0] PW. 1:1001(1000) ack 1
         20 > E. 1:1(0) ack 2001 <sack 1:1001>
         30 < [ect0] PW. 2001:3001(1000) ack 1
         30 > . 1:1(0) ack 3001",
    );
}

/// `tcp_ecn_withdraw_cwr`: the acknowledgment echoes the timestamp of the original, so that the timeout was spurious.
#[test]
fn an_undone_reduction_is_not_announced() {
    drill(
        linux(),
        "server ecn rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         0 write 1000
         0 > [ect0] P. 1:1001(1000) ack 1 <TS val 10001 ecr 1000>
         304 > P. 1:1001(1000) ack 1 <TS val 10305 ecr 1000>
         624 > P. 1:1001(1000) ack 1 <TS val 10625 ecr 1000>
         700 < . 1:1(0) ack 1001 <TS val 1700 ecr 10001>
         800 write 1000
         800 > [ect0] P. 1001:2001(1000) ack 1 <TS val 10801 ecr 1700>",
    );
}

/// The same with the timestamp of the retransmission: the next new data carries CWR.
#[test]
fn a_reduction_is_announced() {
    drill(
        linux(),
        "server ecn rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         0 write 1000
         0 > [ect0] P. 1:1001(1000) ack 1 <TS val 10001 ecr 1000>
         304 > P. 1:1001(1000) ack 1 <TS val 10305 ecr 1000>
         624 > P. 1:1001(1000) ack 1 <TS val 10625 ecr 1000>
         700 < . 1:1(0) ack 1001 <TS val 1700 ecr 10625>
         800 write 1000
         800 > [ect0] PW. 1001:2001(1000) ack 1 <TS val 10801 ecr 1700>",
    );
}
