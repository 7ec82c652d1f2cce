//! The window of the peer, its probes, and the tail-loss probe at its edge.

use crate::util::drill::*;

/// `tcp_send_loss_probe`: new data leaves as a probe only if the window admits the whole next segment
/// (`tcp_snd_wnd_test`). Four segments and a part of the fifth fit; the probe repeats the fourth.
#[test]
fn a_tail_probe_repeats_where_the_next_segment_does_not_fit() {
    drill(
        linux(),
        "server rtt 100 win 35 <mss 1000,sackOK,wscale 7>
         0 write 1000
         0 > P. 1:1001(1000) ack 1
         0 write 1000
         0 > P. 1001:2001(1000) ack 1
         0 write 1000
         0 > P. 2001:3001(1000) ack 1
         0 write 1000
         0 > P. 3001:4001(1000) ack 1
         0 write 5000
         208 > P. 3001:4001(1000) ack 1
         210 ? ca_state=Open cwnd=10",
    );
}

/// `tcp_send_loss_probe` sends with `TCP_NAGLE_OFF`. The probe of a single segment waits for 2 srtt and the delay of
/// an acknowledgment, but not longer than the timeout of 300 ms.
#[test]
fn a_tail_probe_ignores_nagle() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 200
         0 > P. 1:201(200) ack 1
         10 write 200
         304 > P. 201:401(200) ack 1
         310 ? ca_state=Open cwnd=10",
    );
}

/// `tcp_may_update_window`: a duplicate may close the window. Each acknowledgment that leaves it closed starts the
/// interval to the next probe anew (`tcp_ack_probe`).
#[test]
fn a_window_that_closes_is_believed() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 1000
         0 > P. 1:1001(1000) ack 1
         100 < . 1:1(0) ack 1001
         150 < . 1:1(0) ack 1001 win 0
         200 write 1000
         528 > . 1000:1000(0) ack 1
         600 < . 1:1(0) ack 1001 win 0
         1232 > . 1000:1000(0) ack 1
         1300 < . 1:1(0) ack 1001 win 0
         2512 > . 1000:1000(0) ack 1
         2600 < . 1:1(0) ack 1001 win 200
         2600 > P. 1001:2001(1000) ack 1",
    );
}

/// `__tcp_retransmit_skb`: the oldest segment serves as a probe, and others wait.
#[test]
fn only_the_oldest_segment_is_retransmitted_into_a_closed_window() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 10000
         0 > . 1:1001(1000) ack 1
         0 > P. 1001:2001(1000) ack 1
         0 > . 2001:3001(1000) ack 1
         0 > P. 3001:4001(1000) ack 1
         0 > . 4001:5001(1000) ack 1
         0 > P. 5001:6001(1000) ack 1
         0 > . 6001:7001(1000) ack 1
         0 > P. 7001:8001(1000) ack 1
         0 > . 8001:9001(1000) ack 1
         0 > P. 9001:10001(1000) ack 1
         100 < . 1:1(0) ack 1 win 0 <sack 3001:4001>
         100 < . 1:1(0) ack 1 win 0 <sack 3001:5001>
         100 < . 1:1(0) ack 1 win 0 <sack 3001:6001>
         100 > . 1:1001(1000) ack 1
         200 < . 1:1(0) ack 1001 win 0 <sack 3001:6001>
         200 > . 1001:2001(1000) ack 1
         300 < . 1:1(0) ack 2001 win 0 <sack 3001:6001>
         300 > . 2001:3001(1000) ack 1",
    );
}

/// The selective acknowledgment of the probe shows the other segments to be lost.
#[test]
fn a_tail_probe_is_a_single_retransmission() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 6000
         0 > . 1:1001(1000) ack 1
         0 > P. 1001:2001(1000) ack 1
         0 > . 2001:3001(1000) ack 1
         0 > P. 3001:4001(1000) ack 1
         0 > . 4001:5001(1000) ack 1
         0 > P. 5001:6001(1000) ack 1
         208 > P. 5001:6001(1000) ack 1
         330 < . 1:1(0) ack 1 <sack 5001:6001>
         330 > . 1:1001(1000) ack 1",
    );
}

/// `tcp_mark_push` marks the last segment that was written, and each of its transmissions carries PSH;
/// `__tcp_transmit_skb` sets it at the end of a burst for that transmission only.
#[test]
fn psh_at_the_end_of_the_data_belongs_to_the_bytes() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 4000
         0 > . 1:1001(1000) ack 1
         0 > P. 1001:2001(1000) ack 1
         0 > . 2001:3001(1000) ack 1
         0 > P. 3001:4001(1000) ack 1
         208 > P. 3001:4001(1000) ack 1
         528 > . 1:1001(1000) ack 1
         650 < . 1:1(0) ack 1001
         650 > . 1001:2001(1000) ack 1
         650 > . 2001:3001(1000) ack 1",
    );
}

/// `tcp_slow_start_after_idle_check`: the window shrinks after an idle period when the application writes or the peer
/// moves its window. The write comes 250 ms after the last transmission, within the timeout, and the timer sends it
/// later.
#[test]
fn a_probe_with_data_does_not_restart_the_window() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 10000
         0 > . 1:1001(1000) ack 1
         0 > P. 1001:2001(1000) ack 1
         0 > . 2001:3001(1000) ack 1
         0 > P. 3001:4001(1000) ack 1
         0 > . 4001:5001(1000) ack 1
         0 > P. 5001:6001(1000) ack 1
         0 > . 6001:7001(1000) ack 1
         0 > P. 7001:8001(1000) ack 1
         0 > . 8001:9001(1000) ack 1
         0 > P. 9001:10001(1000) ack 1
         100 < . 1:1(0) ack 10001
         110 ? cwnd=20
         240 cork
         250 write 200
         560 > P. 10001:10201(200) ack 1
         570 ? cwnd=20",
    );
}

/// `tcp_tso_should_defer`: the first acknowledgment comes long after the last transmission, so that its segment
/// leaves at once. The second lets one more leave, less than a burst of two and a third of the window, and the next
/// acknowledgment is due: the burst waits for it.
#[test]
fn a_burst_cut_short_waits_for_the_next_acknowledgment() {
    drill(
        linux(),
        "server rtt 20 win 1125 <mss 1000,sackOK,wscale 3>
         0 write 20000
         0 > . 1:1001(1000) ack 1
         0 > P. 1001:2001(1000) ack 1
         0 > . 2001:3001(1000) ack 1
         0 > P. 3001:4001(1000) ack 1
         0 > . 4001:5001(1000) ack 1
         0 > P. 5001:6001(1000) ack 1
         0 > . 6001:7001(1000) ack 1
         0 > P. 7001:8001(1000) ack 1
         0 > . 8001:9001(1000) ack 1
         20 < . 1:1(0) ack 1001
         20 > . 9001:10001(1000) ack 1
         20.3 < . 1:1(0) ack 2001
         20.6 < . 1:1(0) ack 3001
         20.6 > . 10001:11001(1000) ack 1
         20.6 > P. 11001:12001(1000) ack 1",
    );
}

/// `tcp_current_mss`: 1448 bytes beside timestamps, 1460 without them.
#[test]
fn without_timestamps_their_space_carries_payload() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1460,sackOK,wscale 7>
         0 write 3000
         0 > . 1:1461(1460) ack 1
         0 > P. 1461:2921(1460) ack 1
         0 > P. 2921:3001(80) ack 1",
    );
}

/// `tcp_write_wakeup` sends the part of the next segment that fits into a small window, with PSH, and starts no tail-
/// loss probe.
#[test]
fn a_probe_with_data_is_followed_by_the_timeout() {
    drill(
        linux(),
        "server rtt 100 win 257 <mss 1000,sackOK,wscale 7>
         0 write 1000
         0 > P. 1:1001(1000) ack 1
         100 < . 1:1(0) ack 1001 win 4
         110 write 5000
         432 > P. 1001:1513(512) ack 1
         752 > P. 1001:1513(512) ack 1",
    );
}
