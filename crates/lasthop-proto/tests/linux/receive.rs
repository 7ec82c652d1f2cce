//! Segments that a Linux receiver answers, and its answers.

use crate::util::drill::*;

/// `tcp_ack` rejects an acknowledgment of data that was never sent before `tcp_replace_ts_recent`: otherwise its
/// timestamp would make all later segments seem old.
#[test]
fn an_implausible_acknowledgment_leaves_no_timestamp() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         10 < P. 1:1001(1000) ack 1 <TS val 1110 ecr 9901>
         10 > . 1:1(0) ack 1001 <TS val 10011 ecr 1110>
         20 < . 1001:1001(0) ack 5000 <TS val 200000 ecr 9901>
         20 > . 1:1(0) ack 1001 <TS val 10021 ecr 1110>
         30 < P. 1001:2001(1000) ack 1 <TS val 1130 ecr 9901>
         30 > . 1:1(0) ack 2001 <TS val 10031 ecr 1130>",
    );
}

/// `tcp_oow_rate_limited`: segments without data that are out of the window, implausible or SYNs share one limit, of
/// an answer in 500 ms. Data is always answered.
#[test]
fn strays_without_data_are_answered_every_500_ms() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < . 900000:900000(0) ack 1
         10 > . 1:1(0) ack 1
         20 < . 900000:900000(0) ack 1
         300 < . 900000:900000(0) ack 1
         520 < . 900000:900000(0) ack 1
         520 > . 1:1(0) ack 1
         600 < . 1:1(0) ack 70000
         900 < S 1:1(0) win 200
         1100 < S 1:1(0) win 200
         1100 > . 1:1(0) ack 1
         1200 < P. 900000:901000(1000) ack 1
         1200 > . 1:1(0) ack 1
         1210 < P. 900000:901000(1000) ack 1
         1210 > . 1:1(0) ack 1",
    );
}

/// `tcp_replace_ts_recent`: the timestamp of a copy that ends at the last acknowledgment is echoed, that of a copy
/// that ends before it is not.
#[test]
fn a_copy_that_ends_at_the_last_acknowledgment_is_echoed() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1012,sackOK,TS val 1000 ecr 0,nop,wscale 7>
         10 < P. 1:1001(1000) ack 1 <TS val 1110 ecr 9901>
         10 > . 1:1(0) ack 1001 <TS val 10011 ecr 1110>
         60 < P. 1:1001(1000) ack 1 <TS val 1160 ecr 9901>
         60 > . 1:1(0) ack 1001 <TS val 10061 ecr 1160,sack 1:1001>
         70 < P. 1001:2001(1000) ack 1 <TS val 1170 ecr 9901>
         70 > . 1:1(0) ack 2001 <TS val 10071 ecr 1170>
         80 < P. 1:1001(1000) ack 1 <TS val 1180 ecr 9901>
         80 > . 1:1(0) ack 2001 <TS val 10081 ecr 1170,sack 1:1001>",
    );
}

/// `tcp_established_options`: without timestamps four blocks fit. The fourth and later acknowledgments of one number
/// are held back for a tenth of a millisecond.
#[test]
fn without_timestamps_four_blocks_are_reported() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         10 < . 1001:2001(1000) ack 1
         10 > . 1:1(0) ack 1 <sack 1001:2001>
         20 < . 3001:4001(1000) ack 1
         20 > . 1:1(0) ack 1 <sack 3001:4001 1001:2001>
         30 < . 5001:6001(1000) ack 1
         30 > . 1:1(0) ack 1 <sack 5001:6001 3001:4001 1001:2001>
         60 < . 7001:8001(1000) ack 1
         60.1 > . 1:1(0) ack 1 <sack 7001:8001 5001:6001 3001:4001 1001:2001>
         90 < . 9001:10001(1000) ack 1
         90.1 > . 1:1(0) ack 1 <sack 9001:10001 7001:8001 5001:6001 3001:4001>
         120 < . 9001:10001(1000) ack 1
         120.1 > . 1:1(0) ack 1 <sack 9001:10001 9001:10001 7001:8001 5001:6001>",
    );
}
