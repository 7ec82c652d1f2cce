//! Files that are no scripts, or that ask for too much.

use lasthop_conform::lasthop::{Lasthop, Model};
use lasthop_conform::parse::parse;
use lasthop_conform::run::Verdict;
use lasthop_conform::suite::{Outcome, run_text};
use lasthop_proto::tcp::config::Preset;

fn run(text: &str) -> Outcome {
    run_text(text, &mut Lasthop::new(Model::new(Preset::Linux618)), &|_| None)
}

/// Errors have the line and a remedy.
#[test]
fn errors_name_the_line_and_the_remedy() {
    for (text, line, part) in [
        ("", 1, "no event"),
        ("0 socket(", 1, "expected an argument"),
        ("\n\n+x < . 1:1(0)", 3, "expected a time"),
        ("0 < . 1:2(0) ack 1 win 5", 1, "does not fit"),
        ("0 < Q 1:1(0)", 1, "write letters of"),
        ("0 < . 1:1(0) ack 1 win 70000", 1, "at most 65535"),
        ("0 > . 1:1(0) <mess 4>", 1, "unknown TCP option"),
        ("0 %{ assert 1", 1, "}%"),
        ("0 `sysctl", 1, "backquote"),
        ("/* x", 1, "*/"),
        ("+.2~+.1 > . 1:1(0)", 1, "ends before it starts"),
        ("#ifdef X\n0 close(3) = 0\n", 1, "#endif"),
        ("0 close(3)", 1, "= result"),
        ("1e9 close(3) = 0", 1, "expected"),
        ("99999999 close(3) = 0", 1, "at most"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.message.contains(part), "{text}: {error}");
    }
}

/// Every prefix of a script, and every script with one byte replaced, is handled.
#[test]
fn damaged_scripts_are_handled() {
    let script = include_str!("../scripts/rule-05-undo-keeps-flight.pkt");
    for end in (0..script.len()).filter(|end| script.is_char_boundary(*end)) {
        run(&script[..end]);
    }
    for at in 0..script.len() {
        for byte in [b'0', b'~', b'(', b'"', b'<', b' '] {
            let mut bytes = script.as_bytes().to_vec();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes) {
                run(&text);
            }
        }
    }
}

#[test]
fn unsupported_features_are_named() {
    for (text, reason) in [
        ("0 socket(..., SOCK_DGRAM, 0) = 3", "sockets other than of TCP"),
        ("0 epoll_create(1) = 3", "call epoll_create()"),
        ("`iptables -F`\n0 socket(..., SOCK_STREAM, 0) = 3", "shell command `iptables`"),
        ("`sysctl -q net.ipv4.tcp_sack=0`\n0 socket(..., SOCK_STREAM, 0) = 3", "net.ipv4.tcp_sack=0"),
        ("0 < S 0:0(0) win 5 <FO>", "TCP Fast Open"),
        ("0 < icmp unreachable", "ICMP packets"),
        ("--tcp_md5_secret=x\n0 socket(..., SOCK_STREAM, 0) = 3", "TCP MD5 signatures"),
        ("0 %{ assert tcpi_x == 1 }%", "tcp_info field tcpi_x"),
    ] {
        match run(text) {
            Outcome::Ran(Verdict::NotApplicable { reason: found, .. }) => assert_eq!(found, reason, "{text}"),
            outcome => panic!("{text}: {outcome:?}"),
        }
    }
}

/// Times at the limits, calls on sockets that do not exist, and calls that block for ever end.
#[test]
fn extreme_scripts_end() {
    for text in [
        "0 close(99) = 0",
        "0 socket(..., SOCK_STREAM, 0) = 3\n+0...1 read(3, ..., 1) = 1\n+86400 close(3) = 0",
        "0 socket(..., SOCK_STREAM, 0) = 3\n+0 listen(3, 1) = 0\n+0...1 accept(3, ..., ...) = 4\n* > . 1:1(0)",
        "0 socket(..., SOCK_STREAM, 0) = 3\n+0 fcntl(3, F_SETFL, O_NONBLOCK) = 0\n\
         +0 connect(3, ..., ...) = -1 EINPROGRESS\n* > . 1:1(0)",
        "0 < S 4294967295:4294967295(0) win 65535 <mss 0,wscale 255>",
    ] {
        run(text);
    }
}
