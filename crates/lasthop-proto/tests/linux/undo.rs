//! Losses that turn out to be none.

use crate::util::drill::*;

/// `tcp_rack_detect_loss` takes a segment off its list when it declares the segment lost, and
/// `tcp_undo_cwnd_reduction` does not put it back. After the undo only the timeout retransmits it.
#[test]
fn what_rack_declared_lost_is_not_declared_lost_again() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         0 write 10000
         0 > . 1:1001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > P. 1001:2001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > . 2001:3001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > P. 3001:4001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > . 4001:5001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > P. 5001:6001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > . 6001:7001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > P. 7001:8001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > . 8001:9001(1000) ack 1 <TS val 10001 ecr 1000>
         0 > P. 9001:10001(1000) ack 1 <TS val 10001 ecr 1000>
         100 < . 1:1(0) ack 1 <TS val 1200 ecr 10001,sack 6001:7001>
         100 < . 1:1(0) ack 1 <TS val 1200 ecr 10001,sack 6001:8001>
         100 < . 1:1(0) ack 1 <TS val 1200 ecr 10001,sack 6001:9001>
         100 > . 1:1001(1000) ack 1 <TS val 10101 ecr 1200>
         110 < . 1:1(0) ack 4001 <TS val 1210 ecr 10001,sack 6001:9001>
         111 ? lost=0 unacked=6 sacked=3 ca_state=Disorder
         304 > . 4001:5001(1000) ack 1 <TS val 10305 ecr 1210>
         330 ? ca_state=Loss cwnd=1",
    );
}
