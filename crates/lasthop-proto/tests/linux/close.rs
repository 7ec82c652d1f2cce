//! The end of a stream, and resets.

use crate::util::drill::*;

/// `tcp_data_queue`: the end of a segment includes its FIN. Linux merges the last data and the FIN when it
/// retransmits, so that one lost acknowledgment brings a segment whose data is known and whose FIN is not.
#[test]
fn a_fin_behind_known_data_ends_the_stream() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 < P. 1:1001(1000) ack 1
         0 > . 1:1(0) ack 1001
         10 < F. 1:1001(1000) ack 1
         52 > . 1:1(0) ack 1002
         60 ? state=CloseWait",
    );
}

/// `tcp_fin`: the acknowledgment of a FIN is delayed, since the application may close as well. Without data before it
/// the delay is zero, and the timer fires at the next tick. A copy is answered at once and reported as a duplicate.
#[test]
fn a_fin_alone_is_acknowledged_at_the_next_tick() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < F. 1:1(0) ack 1
         12 > . 1:1(0) ack 2
         60 < F. 1:1(0) ack 1
         60 > . 1:1(0) ack 2 <sack 1:2>
         70 < F. 1:1(0) ack 1
         70 > . 1:1(0) ack 2 <sack 1:2>",
    );
}

/// As after data that the application has not read: 40 ms, rounded up to a tick.
#[test]
fn a_fin_with_data_is_acknowledged_after_the_delay() {
    drill(
        linux(),
        "server unread rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < FP. 1:1001(1000) ack 1
         52 > . 1:1(0) ack 1002",
    );
}

/// `tcp_data_queue_ofo`: a block of out-of-order data includes the number of the FIN. The acknowledgment of a filled
/// gap leaves at once.
#[test]
fn a_fin_ahead_of_a_gap_is_reported() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < P. 1:1001(1000) ack 1
         10 > . 1:1(0) ack 1001
         30 < F. 2001:2501(500) ack 1
         30 > . 1:1(0) ack 1001 <sack 2001:2502>
         40 < . 1001:2001(1000) ack 1
         40 > . 1:1(0) ack 2502",
    );
}

/// As above, for a segment with a FIN and no data.
#[test]
fn a_fin_alone_ahead_of_a_gap_is_reported() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < P. 1:1001(1000) ack 1
         10 > . 1:1(0) ack 1001
         20 < F. 2001:2001(0) ack 1
         20 > . 1:1(0) ack 1001 <sack 2001:2002>
         30 < . 1001:2001(1000) ack 1
         30 > . 1:1(0) ack 2002",
    );
}

/// `tcp_send_active_reset`: the reset has the options of any other segment of the connection.
#[test]
fn a_reset_by_the_application_carries_timestamps() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         10 < P. 1:1001(1000) ack 1 <TS val 1110 ecr 9901>
         10 > . 1:1(0) ack 1001 <TS val 10011 ecr 1110>
         20 abort
         20 > R. 1:1(0) ack 1001 <TS val 10021 ecr 1110>",
    );
}
