//! The scripts of this crate, which describe observed behaviour of Linux 6.18.

use std::path::Path;

use lasthop_conform::lasthop::{Lasthop, Model};
use lasthop_conform::run::Verdict;
use lasthop_conform::suite::{Outcome, run_file, scripts};
use lasthop_proto::tcp::config::Preset;

#[test]
fn lasthop_does_what_the_kernel_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut stack = Lasthop::new(Model::new(Preset::Linux618));
    let mut failed = Vec::new();
    let paths = scripts(&folder).unwrap();
    assert!(paths.len() >= 66, "{}", paths.len());
    for path in paths {
        match run_file(&path, &mut stack).unwrap() {
            Outcome::Ran(Verdict::Passed) => {}
            outcome => failed.push(format!("{}: {outcome:?}", path.display())),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The runner detects each kind of difference: a script with one changed part fails at that line.
#[test]
fn every_changed_part_is_detected() {
    let script = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
        +0 < S 0:0(0) win 60000 <mss 1000,sackOK,nop,nop,nop,wscale 7>\n\
        +0 > S. 0:0(0) ack 1 win 64240 <mss 1460,nop,nop,sackOK,nop,wscale 10>\n\
        +.05 < . 1:1(0) ack 1 win 468\n+0 accept(3, ..., ...) = 4\n+0 write(4, ..., 3000) = 3000\n\
        +0 > P. 1:3001(3000) ack 1\n+.05 < . 1:1(0) ack 3001 win 468\n\
        +0 < . 2001:3001(1000) ack 3001 win 468\n+0 > . 3001:3001(0) ack 1 <nop,nop,sack 2001:3001>\n\
        +0 %{ assert tcpi_unacked == 0, tcpi_unacked }%\n+0 read(4, ..., 1) = ...\n";
    let script = script.replace("+0 read(4, ..., 1) = ...\n", "");
    let run = |text: &str| {
        let mut stack = Lasthop::new(Model::new(Preset::Linux618));
        lasthop_conform::suite::run_text(text, &mut stack, &|_| None)
    };
    assert_eq!(run(&script), Outcome::Ran(Verdict::Passed));
    for (part, changed, line) in [
        ("win 64240", "win 64241", 5),
        ("mss 1460", "mss 1461", 5),
        ("wscale 10", "wscale 9", 5),
        (",nop,nop,sackOK", "", 5),
        ("= 3000", "= 2999", 8),
        ("+0 > P. 1:3001", "+0 > . 1:3001", 9),
        ("1:3001(3000) ack 1\n", "1:2001(2000) ack 1\n", 12),
        ("1:3001(3000) ack 1\n", "1:3001(3000) ack 2\n", 9),
        ("+0 > P. 1:3001", "+.01 > P. 1:3001", 9),
        ("<nop,nop,sack 2001:3001>", "<nop,nop,sack 2001:3002>", 12),
        ("tcpi_unacked == 0", "tcpi_unacked == 1", 13),
    ] {
        let changed_script = script.replacen(part, changed, 1);
        assert_ne!(changed_script, script, "{part}");
        match run(&changed_script) {
            Outcome::Ran(Verdict::Failed(difference)) => assert_eq!(difference.line, line, "{changed}"),
            outcome => panic!("{changed}: {outcome:?}"),
        }
    }
}
