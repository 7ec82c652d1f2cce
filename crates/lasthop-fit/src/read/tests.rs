use super::{Form, Losses, ReadError, Reading, read, reading};
use crate::Clock;
use lasthop_proto::time::Duration;

fn losses(text: &str) -> Vec<bool> {
    read(text).unwrap().0.packets().iter().map(|packet| packet.lost).collect()
}

fn whole(text: &str) -> Reading {
    reading(text, super::MOST_PACKETS, None).unwrap()
}

fn said(text: &str) -> String {
    reading(text, super::MOST_PACKETS, None).unwrap_err().to_string()
}

#[test]
fn digits_in_whatever_lines() {
    let (trace, form) = read("# a link\n0 0 1\n0,1 # and a remark: 11\n").unwrap();
    assert_eq!((trace.packets().len(), trace.lost(), form, trace.clock()), (5, 2, Form::Digits, Clock::Unknown));
    assert_eq!(read("001x").unwrap_err().to_string(), format!("line 1: 'x'; {}", super::EXPECTED));
    assert_eq!(read("# nothing\n").unwrap_err(), ReadError::Empty);
}

#[test]
fn tables_with_their_columns_in_any_order() {
    let (trace, form) = read("lost,bytes,sent_s,note\n0,100,0.5,a\n1,200,0.25,b\n").unwrap();
    let seen: Vec<_> =
        trace.packets().iter().map(|packet| (packet.at.as_secs_f64(), packet.bytes, packet.lost)).collect();
    assert_eq!((form, seen), (Form::Table, vec![(0.25, 200, true), (0.5, 100, false)]));
    for (text, line) in
        [("sent_s,lost\n0.1\n", 2), ("sent_s,lost\n-1,0\n", 2), ("lost\n2\n", 2), ("sent_s,lost\nnan,0\n", 2)]
    {
        let ReadError::Line { line: found, .. } = read(text).unwrap_err() else { panic!("{text}") };
        assert_eq!(found, line, "{text}");
    }
}

/// Five echoes: the second and the fourth got no answer, with and without a line that says so; the third was
/// duplicated.
#[test]
fn ping_with_stamps() {
    let text = "PING host (192.0.2.1) 56(84) bytes of data.\n\
        [100.020] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=60 time=20.0 ms\n\
        [101.000] no answer yet for icmp_seq=2\n\
        [102.020] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=60 time=20.0 ms\n\
        [102.021] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=60 time=21.0 ms (DUP!)\n\
        [104.020] 64 bytes from 192.0.2.1: icmp_seq=5 ttl=60 time=20.0 ms\n\n--- host ping statistics ---\n";
    let (trace, form) = read(text).unwrap();
    let seen: Vec<_> =
        trace.packets().iter().map(|packet| (packet.at.as_secs_f64().round() as u32, packet.lost)).collect();
    assert_eq!(seen, [(0, false), (1, true), (2, false), (3, true), (4, false)]);
    assert_eq!((form, trace.clock(), trace.packets()[0].bytes), (Form::Ping, Clock::Known, 84));
    let seen = whole(text).down.seen;
    assert_eq!((seen.arrived, seen.duplicates, seen.reordered), (3, Some(1), Some(0)));
}

#[test]
fn ping_without_stamps_and_beyond_its_last_number() {
    let answer = |number: u32| format!("64 bytes from host: icmp_seq={number} ttl=60 time=1.5 ms\n");
    assert_eq!(losses(&[answer(65_534), answer(65_535), answer(1)].concat()), [false, false, true, false]);
    assert_eq!(read(&answer(7)).unwrap().0.clock(), Clock::Unknown);
}

/// BusyBox prints `seq=`, and no line for a missing answer; losses at the end appear in its summary only.
#[test]
fn ping_of_busybox() {
    let text = "PING 192.0.2.1 (192.0.2.1): 56 data bytes\n\
        64 bytes from 192.0.2.1: seq=1 ttl=57 time=40.000 ms\n\
        64 bytes from 192.0.2.1: seq=3 ttl=57 time=41.000 ms\n\
        64 bytes from 192.0.2.1: seq=2 ttl=57 time=1141.000 ms\n\n\
        --- 192.0.2.1 ping statistics ---\n\
        6 packets transmitted, 3 packets received, 50% packet loss\n\
        round-trip min/avg/max = 40.0/407.3/1141.0 ms\n";
    assert_eq!(losses(text), [true, false, false, false, true, true]);
    let reading = whole(text);
    let seen = reading.down.seen;
    assert_eq!((reading.form, seen.reordered, seen.duplicates), (Form::Ping, Some(1), Some(0)));
    assert_eq!(seen.round_trip.map(|trips| (trips.least_ms, trips.most_ms)), Some((40.0, 1141.0)));
}

/// On macOS, numbers begin with 0, and the line of a missing answer has a space before its number.
#[test]
fn ping_of_bsd_and_macos() {
    let text = "PING host (192.0.2.1): 56 data bytes\n\
        64 bytes from 192.0.2.1: icmp_seq=0 ttl=118 time=14.5 ms\n\
        Request timeout for icmp_seq 1\n\
        64 bytes from 192.0.2.1: icmp_seq=2 ttl=118 time=14.7 ms\n\
        16 bytes from 2001:db8::1, icmp_seq=3 hlim=64 time=0.1 ms\n\
        64 bytes from 192.0.2.1: icmp_seq=4 ttl=118 time=14.7 ms (DUP!)\n";
    assert_eq!(losses(text), [false, true, false, false, false]);
    let timed = "PING host (192.0.2.1): 1000 data bytes\n\
        23:59:59.500000 1008 bytes from 192.0.2.1: icmp_seq=0 ttl=118 time=14.5 ms\n\
        00:00:00.500000 1008 bytes from 192.0.2.1: icmp_seq=1 ttl=118 time=14.5 ms\n";
    let trace = read(timed).unwrap().0;
    assert_eq!((trace.clock(), trace.packets()[0].bytes), (Clock::Known, 1028));
    assert!((trace.packets()[1].at.as_secs_f64() - 1.0).abs() < 1e-6);
}

/// Linux's summary has the duration, which gives times without -D, also in German.
#[test]
fn the_summary_tells_the_interval() {
    let text = "PING host (192.0.2.1) 56(84) Bytes an Daten.\n".to_owned();
    let echo = |number: u32| format!("64 Bytes von 192.0.2.1: icmp_seq={number} ttl=60 Zeit=20.0 ms\n");
    let summary = "\n--- host ping-Statistiken ---\n5 Pakete übertragen, 3 empfangen, 40% packet loss, time 400ms\n";
    let text = [text, echo(1), echo(2), echo(4), summary.to_owned()].concat();
    let trace = read(&text).unwrap().0;
    assert_eq!(trace.clock(), Clock::Known);
    assert!((trace.packets()[4].at.as_secs_f64() - 0.4).abs() < 1e-9, "{:?}", trace.packets());
}

/// A given interval applies to texts without times only.
#[test]
fn a_given_interval_is_the_time_between_packets() {
    let interval = Some(Duration::from_millis(100));
    let echo = |number: u32| format!("64 bytes from host: icmp_seq={number} ttl=60 time=1.5 ms\n");
    for text in ["0010".to_owned(), [echo(1), echo(4)].concat(), "lost\n0\n0\n0\n1\n".to_owned()] {
        let Losses::Packets(trace) = reading(&text, 100, interval).unwrap().down.losses else { panic!("{text}") };
        assert_eq!((trace.clock(), trace.packets().len()), (Clock::Known, 4), "{text}");
        assert!((trace.packets()[3].at.as_secs_f64() - 0.3).abs() < 1e-9);
    }
    let timed = reading("sent_s,lost\n0,0\n7,0\n", 100, interval).unwrap();
    let Losses::Packets(trace) = timed.down.losses else { panic!("a table") };
    assert!((trace.packets()[1].at.as_secs_f64() - 7.0).abs() < 1e-9);
}

const WINDOWS: [(&str, &str, &str, &str); 4] = [
    (
        "Pinging example.com [192.0.2.1] with 32 bytes of data:",
        "Reply from 192.0.2.1: bytes=32 time=12ms TTL=57",
        "Request timed out.",
        "Ping statistics for 192.0.2.1:\r\n    Packets: Sent = 5, Received = 3, Lost = 2 (40% loss),\r\n",
    ),
    (
        "Ping wird ausgeführt für 192.0.2.1 mit 32 Bytes Daten:",
        "Antwort von 192.0.2.1: Bytes=32 Zeit<1ms TTL=57",
        "Zeitüberschreitung der Anforderung.",
        "Ping-Statistik für 192.0.2.1:\r\n    Pakete: Gesendet = 5, Empfangen = 3, Verloren = 2\r\n    (40% Verlust),\r\n",
    ),
    (
        "Envoi d'une requête 'Ping'  192.0.2.1 avec 32 octets de données :",
        "Réponse de 192.0.2.1 : octets=32 temps=12 ms TTL=57",
        "Délai d\u{fffd}attente de la demande d\u{fffd}pass\u{fffd}.",
        "Statistiques Ping pour 192.0.2.1:\r\n    Paquets : envoyés = 5, reçus = 3, perdus = 2 (perte 40%),\r\n",
    ),
    (
        "Обмен пакетами с 192.0.2.1 по с 32 байтами данных:",
        "Ответ от 192.0.2.1: число байт=32 время=12мс TTL=57",
        "Превышен интервал ожидания для запроса.",
        "Статистика Ping для 192.0.2.1:\r\n    Пакетов: отправлено = 5, получено = 3, потеряно = 2\r\n    (40% потерь)\r\n",
    ),
];

#[test]
fn ping_of_windows_in_several_languages() {
    for (heading, answer, missing, statistics) in WINDOWS {
        let text =
            format!("\r\n{heading}\r\n{answer}\r\n{missing}\r\n{answer}\r\n{missing}\r\n{answer}\r\n\r\n{statistics}");
        assert_eq!(losses(&text), [false, true, false, true, false], "{text}");
        let reading = whole(&text);
        assert_eq!((reading.form, reading.down.seen.reordered), (Form::Ping, None));
        assert_eq!(read(&text).unwrap().0.packets()[0].bytes, 1500, "order alone is known");
    }
}

#[test]
fn ping_of_windows_is_checked() {
    let (heading, answer, missing, statistics) = WINDOWS[0];
    // A line is missing.
    let short = format!("{heading}\n{answer}\n{missing}\n\n{statistics}");
    assert_eq!(said(&short), "2 echoes, but the statistics count 5 sent: lines are missing");
    // A router answers for the host: the echo is lost.
    let unreachable = "Reply from 192.0.2.9: Destination host unreachable.";
    assert_eq!(losses(&format!("{heading}\n{answer}\n{unreachable}\n{answer}\n")), [false, true, false]);
    // Another line among the echoes is not a loss.
    assert!(said(&format!("{heading}\n{answer}\nmy cat\n{answer}\n")).starts_with("line 3: neither"));
    assert!(said(&format!("{heading}\n{answer}\n\n{heading}\n{answer}\n")).contains("second run"));
    assert!(
        said(&format!("{heading}\nReply from 192.0.2.1: bytes=32 time= TTL=57\n"))
            .starts_with("line 2: reply without a time")
    );
    // There is no TTL over IPv6.
    let over_ipv6 = "Pinging ::1 with 32 bytes of data:\nReply from ::1: time<1ms\nRequest timed out.\n";
    assert_eq!(losses(over_ipv6), [false, true]);
}

/// Output with -D and -l or -c, with a duplicate and a late answer.
#[test]
fn fping_in_lines() {
    let text = "[1700000000.02000] 192.0.2.1 : [0], 64 bytes, 20.0 ms (20.0 avg, 0% loss)\n\
        [1700000000.60000] 192.0.2.1 : [1], timed out (20.0 avg, 50% loss)\n\
        [1700000000.62000] 192.0.2.1 : [3], 64 bytes, 20.0 ms (20.0 avg, 25% loss)\n\
        [1700000000.64000] 192.0.2.1 : [2], 64 bytes, 240 ms (20.0 avg, 25% loss)\n\
        [1700000000.65000] 192.0.2.1 : duplicate for [2], 64 bytes, 250 ms\n";
    let reading = whole(text);
    let seen = reading.down.seen;
    assert_eq!((reading.form, seen.reordered, seen.duplicates), (Form::Fping, Some(1), Some(1)));
    let trace = read(text).unwrap().0;
    let times: Vec<_> =
        trace.packets().iter().map(|sent| ((sent.at.as_secs_f64() * 10.0).round() as u32, sent.lost)).collect();
    assert_eq!(times, [(0, false), (2, true), (4, false), (6, false)]);
    assert!(said(&text.replace("192.0.2.1 : [3]", "192.0.2.9 : [3]")).starts_with("line 3: host 192.0.2.9"));
    assert!(said(&text.replace("[3], 64 bytes, 20.0 ms", "[3], 64 by")).starts_with("line 3: expected BYTES"));
    assert!(said(&text.replace("[3],", "[x],")).starts_with("line 3: expected HOST"));
}

#[test]
fn fping_as_a_list() {
    let reading = whole("192.0.2.1 : 0.038 - 0.034 1.2\n");
    let Losses::Packets(trace) = reading.down.losses else { panic!("a trace") };
    assert_eq!((trace.packets().len(), trace.lost(), trace.clock()), (4, 1, Clock::Unknown));
    assert!(said("a : 1 2\nb : 1 -\n").contains("give the lines of a single host"));
}

const IRTT: &str = r#"{ "version": { "irtt": "0.9.1" },
    "config": { "params": { "interval": 10000000, "length": 172 }, "ip_version": "IPv4" },
    "stats": { "duplicates": 2, "late_packets": 1 },
    "round_trips": [
        { "seqno": 0, "lost": "false", "timestamps": { "client": { "send": { "monotonic": 1000 } } },
          "delay": { "rtt": 30000000, "send": 12000000, "receive": 18000000 } },
        { "seqno": 1, "lost": "true_down", "timestamps": { "client": { "send": { "monotonic": 10001000 } } }, "delay": {} },
        { "seqno": 2, "lost": "true_up", "timestamps": { "client": { "send": { "monotonic": 20001000 } } }, "delay": {} },
        { "seqno": 3, "lost": "false", "timestamps": { "client": { "send": { "monotonic": 30001000 } } },
          "delay": { "rtt": 31000000, "send": 13000000, "receive": 18000000 } } ] }"#;

/// irtt separates the directions: packets lost on the uplink do not count on the downlink.
#[test]
fn irtt_in_both_directions() {
    let reading = whole(IRTT);
    let of = |losses: &Losses| match losses {
        Losses::Packets(trace) => {
            trace.packets().iter().map(|sent| (sent.at.as_secs_f64(), sent.lost)).collect::<Vec<_>>()
        }
        Losses::Counts(_) => panic!("a trace"),
    };
    assert_eq!(of(&reading.down.losses), [(0.0, false), (0.01, true), (0.03, false)]);
    let up = reading.up.unwrap();
    assert_eq!(of(&up.losses), [(0.0, false), (0.01, false), (0.02, true), (0.03, false)]);
    let seen = reading.down.seen;
    assert_eq!((seen.reordered, seen.duplicates, seen.one_way.map(|way| way.most_ms)), (Some(1), Some(2), Some(0.0)));
    assert_eq!(up.seen.one_way.map(|way| way.most_ms), Some(1.0));
    // Otherwise there is one direction.
    let both = whole(&IRTT.replace("true_down", "true").replace("true_up", "true"));
    assert!(both.up.is_none() && of(&both.down.losses).len() == 4);
    assert!(said(&IRTT.replace("\"false\"", "7")).contains("irtt client -o"));
}

/// The receiver counts per interval; a test over TCP has no counts.
#[test]
fn iperf3_by_interval() {
    let sum =
        |lost: u32| format!(r#"{{ "sum": {{ "start": 0, "seconds": 1, "packets": 100, "lost_packets": {lost} }} }}"#);
    let text = format!(
        r#"{{ "start": {{ "test_start": {{ "protocol": "UDP", "blksize": 1200, "reverse": 1 }} }}, "intervals": [ {}, {} ],
        "end": {{ "streams": [ {{ "udp": {{ "out_of_order": 3 }} }} ], "sum": {{ "seconds": 2, "bits_per_second": 1e6 }} }} }}"#,
        sum(2),
        sum(6)
    );
    let reading = whole(&text);
    let Losses::Counts(counts) = &reading.down.losses else { panic!("counts") };
    assert_eq!((counts.packets(), counts.lost(), counts.intervals.len(), counts.bytes), (200, 8, 2, 1228));
    assert_eq!((reading.form, reading.down.seen.reordered), (Form::Iperf3, Some(3)));
    assert!(reading.remarks.iter().any(|remark| remark.contains("server to its client")));
    assert!(said(&text.replace("UDP", "TCP")).contains("run iperf3 with -u"));
    assert!(said(&text.replace("lost_packets", "retransmits")).contains("no lost_packets"));
    assert!(whole(&text.replace("1200", "8000")).remarks.iter().any(|remark| remark.contains("fragmented")));
}

/// The error names a damaged line; for an unknown form it lists all forms.
#[test]
fn one_clear_error() {
    let echo = "64 bytes from 192.0.2.1: icmp_seq=1 ttl=60 time=20.0 ms\n";
    for (text, expected) in [
        (format!("{echo}64 bytes from 192.0.2.1: icmp_seq=x ttl=60 time=20.0 ms\n"), "line 2: icmp_seq: expected"),
        (format!("{echo}64 bytes from 192.0.2.1: icmp_seq=70000 ttl=60 time=20.0 ms\n"), "line 2: icmp_seq: expected"),
        (format!("{echo}64 bytes from 192.0.2.1: icmp_seq=2 ttl=60 time=x ms\n"), "line 2: time: expected"),
        (format!("{echo}64 bytes from 192.0.2.1: ttl=60 time=20.0 ms\n"), "line 2: reply without"),
        ("{ \"x\": 1 }".to_owned(), "line 1: unknown JSON format"),
        ("hello\n".to_owned(), "line 1: 'h'; expected"),
    ] {
        let said = said(&text);
        assert!(said.starts_with(expected) && !said.contains('\n'), "{said}");
    }
    let header = "PING host (192.0.2.1) 56(84) bytes of data.\n";
    assert!(said(&[header, echo, header, echo].concat()).starts_with("line 3: a second run"));
}

/// Every form rejects more packets than the caller permits, and the message says so.
#[test]
fn no_more_packets_than_asked_for() {
    let echo = |number: u32| format!("64 bytes from host: icmp_seq={number} ttl=60 time=1.5 ms\n");
    let line = |number: u32| format!("h : [{number}], 64 bytes, 1.5 ms\n");
    for text in [
        "0110".to_owned(),
        "lost\n0\n1\n1\n0\n".to_owned(),
        [echo(1), echo(4)].concat(),
        [line(0), line(3)].concat(),
        "h : 1 2 - 4\n".to_owned(),
    ] {
        let Losses::Packets(trace) = reading(&text, 4, None).unwrap().down.losses else { panic!("{text}") };
        assert_eq!(trace.packets().len(), 4, "{text}");
        let said = reading(&text, 3, None).unwrap_err();
        assert_eq!((&said, said.to_string().as_str()), (&ReadError::Long(3), "more than 3 packets"), "{text}");
    }
}
