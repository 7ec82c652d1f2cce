//! Traces as CSV and as text.

use crate::sample;

use lasthop_proto::packet::FlowId;
use lasthop_proto::time::Instant;
use lasthop_report::error::ReportError;
use lasthop_report::trace_csv::{COLUMNS, write_trace_csv};
use lasthop_report::trace_text::write_trace_text;
use lasthop_sim::trace::{Record, Trace, What};

fn csv(trace: &Trace) -> String {
    let mut out = Vec::new();
    write_trace_csv(trace, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("names are UTF-8")
}

fn text(trace: &Trace) -> String {
    let mut out = Vec::new();
    write_trace_text(trace, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("names are UTF-8")
}

#[test]
fn csv_has_the_documented_lines() {
    let csv = csv(&sample::trace());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "time,point,flow,event,reason,from,seq,len,ack,window,sack,flags,cwnd,ssthresh,options,link");
    for expected in [
        // The options of a SYN; no acknowledgment number without the ACK flag.
        "0.000000000,source,bulk,sent,handshake,initiator,4294964295,0,,16384,,SYN,,,mss=1360 wscale=2 sackok ts=17/0,",
        "0.002000000,mobile,bulk,sent,handshake,acceptor,7000,0,4294964296,16384,,SYN|ACK,,,mss=1360 wscale=2 sackok ts=17/0,",
        "0.004000000,source,bulk,window,,,,,,,,,1360,65535,,",
        "0.004000000,source,bulk,sent,new,initiator,4294964296,1360,7001,8192,,PSH|ACK,,,,",
        "0.010000000,base:radio,bulk,dropped,channel,initiator,4294965656,1360,7001,8192,,PSH|ACK,,,,",
        "0.010500000,base:radio,bulk,dropped,queue,initiator,2440,1360,7001,8192,,PSH|ACK,,,,",
        "0.011000000,mobile,bulk,received,damaged,initiator,1080,1360,7001,8192,,PSH|ACK,,,,",
        "0.011500000,base:radio,bulk,dupack-suppressed,,,,,4294965656,,,,,,,",
        "0.011500000,base:radio,bulk,retransmitted,local-duplicate,initiator,4294965656,1360,7001,8192,,PSH|ACK,,,,",
        "0.013600000,base:radio,bulk,received,,acceptor,7001,0,4294965656,8192,,ACK,,,smart=2440 eln,",
        // Sequence numbers wrap as on the wire.
        "0.010500000,mobile,bulk,sent,ack,acceptor,7001,0,4294965656,8192,4294967016-1080,ACK,,,,",
        // Forwarding a retransmission counts as one, with the same reason.
        "0.015600000,base:radio,bulk,retransmitted,fast-retransmit,initiator,4294965656,1360,7001,8192,,PSH|ACK,,,,",
        "0.014700000,source,bulk,sent,limited-transmit,initiator,3800,1360,7001,8192,,PSH|ACK,,,,",
        "1.018600000,source,bulk,timeout,,,2440,,,,,,,,,",
        "0.018600000,source,bulk,recovery-left,,,,,2440,,,,,,,",
        "1.031000000,base:radio,\"probe, udp\",sent,datagram,initiator,65537,200,,,,,,,,",
    ] {
        assert!(lines.contains(&expected), "no line {expected}");
    }
    assert_eq!(lines.len(), 1 + sample::trace().records.len());
}

#[test]
fn every_csv_line_has_every_column() {
    let csv = csv(&sample::trace());
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    for record in reader.records() {
        assert_eq!(record.expect("lines are equally long").len(), COLUMNS.len());
    }
}

#[test]
fn several_sack_blocks_are_separated_by_spaces() {
    let mut run = sample::Recorder::new();
    run.across(0, sample::ack(1, sample::sack(&[(6, 7), (3, 5)])), sample::Outcome::Arrives);
    let csv = csv(&run.finish());
    let sack = csv.lines().nth(1).and_then(|line| line.split(',').nth(10)).expect("a packet");
    assert_eq!(sack, "5160-6520 1080-3800");
}

#[test]
fn text_counts_from_the_first_sequence_number() {
    let text = text(&sample::trace());
    let lines: Vec<&str> = text.lines().collect();
    for expected in [
        "0.004000000  source      bulk        sent                 > [P.] seq 1:1361, ack 1, win 8192, length 1360",
        "0.011500000  base:radio  bulk        rtx local-duplicate  > [P.] seq 1361:2721, ack 1, win 8192, length 1360",
        "0.011500000  base:radio  bulk        dupack-suppressed    ack 1361",
        "0.012500000  source      bulk        recv                 < [.] ack 1361, win 8192, sack 2721:4081, length 0",
        "1.018600000  source      bulk        timeout              seq 5441",
        "1.032000000  base:radio  probe, udp  drop channel         > datagram 65537, length 200",
    ] {
        assert!(lines.iter().any(|line| line.trim_start() == expected), "no line {expected}");
    }
}

#[test]
fn a_single_flow_is_not_named_on_each_line() {
    let mut trace = sample::trace();
    trace.flows.truncate(1);
    trace.records.retain(|record| record.flow == FlowId(0));
    assert!(!text(&trace).contains("bulk"));
}

#[test]
fn a_trace_that_names_what_it_lacks_is_refused() {
    let mut trace = sample::trace();
    let event = trace.records.iter().find(|record| matches!(record.what, What::Event(_))).expect("events").what;
    trace.records = vec![Record { time: Instant::ZERO, point: 9, flow: FlowId(0), what: event }];
    assert!(matches!(write_trace_csv(&trace, Vec::new()), Err(ReportError::NoSuchPoint(9))));
    trace.records[0] = Record { point: 0, flow: FlowId(5), ..trace.records[0] };
    assert!(matches!(write_trace_text(&trace, Vec::new()), Err(ReportError::NoSuchFlow(5))));
}
