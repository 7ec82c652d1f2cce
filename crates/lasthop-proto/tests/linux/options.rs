//! Socket options that the application changes on a live connection.

use crate::util::drill::*;

/// `__tcp_sock_set_nodelay` sends the data that was held back, and later writes do not wait.
#[test]
fn nodelay_releases_what_nagle_held() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 200
         0 > P. 1:201(200) ack 1
         10 write 200
         20 nodelay
         20 > P. 201:401(200) ack 1
         30 write 200
         30 > P. 401:601(200) ack 1",
    );
}

/// `__tcp_sock_set_cork`: segments smaller than the mss wait until the cork is removed.
#[test]
fn a_corked_connection_sends_whole_segments() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 cork
         0 write 200
         10 write 900
         10 > . 1:1001(1000) ack 1
         20 uncork
         20 > P. 1001:1101(100) ack 1",
    );
}

/// `tcp_push`: the flag concerns the write that has it. The acknowledgment sends the rest by the usual rules.
#[test]
fn msg_more_holds_back_a_single_write() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 more 200
         10 more 900
         10 > . 1:1001(1000) ack 1
         100 < . 1:1(0) ack 1001
         100 > . 1001:1101(100) ack 1",
    );
}

/// `MSG_EOR`: the data of two records never shares a segment. By the rule of Minshall a small segment waits while
/// another is outstanding, but only at the end of the data.
#[test]
fn a_record_ends_a_segment() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 record 200
         0 > P. 1:201(200) ack 1
         0 record 200
         0 record 200
         0 > P. 201:401(200) ack 1
         0 write 200
         0 > P. 401:601(200) ack 1
         100 < . 1:1(0) ack 601
         100 > P. 601:801(200) ack 1",
    );
}

/// `tcp_write_timeout`: 700 ms after the first timeout, at 640 ms, the connection is given up, and the timer is set
/// for that (`tcp_clamp_rto_to_user_timeout`). The first retransmission is a tail-loss probe.
#[test]
fn the_user_timeout_ends_a_connection() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 user_timeout 700
         0 write 1000
         0 > P. 1:1001(1000) ack 1
         304 > P. 1:1001(1000) ack 1
         624 > P. 1:1001(1000) ack 1
         1232 > P. 1:1001(1000) ack 1
         2000 < . 1:1(0) ack 1001
         2000 > R 1001:1001(0)",
    );
}

/// `tcp_keepalive_timer`: after a second without a segment from the peer, and each second of silence; the connection
/// is reset after two unanswered probes.
#[test]
fn an_idle_peer_is_probed_and_given_up() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 keepalive 1
         1008 > . 0:0(0) ack 1
         1120 < . 1:1(0) ack 1
         2124 > . 0:0(0) ack 1
         3152 > . 0:0(0) ack 1
         4176 > R. 1:1(0) ack 1",
    );
}

/// `tcp_rcv_state_process`: no application would read the data.
#[test]
fn data_after_release_is_reset() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 release
         0 > F. 1:1(0) ack 1
         100 < . 1:1(0) ack 2
         200 < P. 1:1001(1000) ack 2
         200 > R 2:2(0)",
    );
}

/// `tcp_close` (RFC 2525 §2.17).
#[test]
fn releasing_unread_data_resets() {
    drill(
        linux(),
        "server unread rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 < P. 1:1001(1000) ack 1
         0 > . 1:1(0) ack 1001
         10 release
         10 > R. 1:1(0) ack 1001",
    );
}
