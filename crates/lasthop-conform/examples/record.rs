//! temporary
use lasthop_conform::differential::*;
use lasthop_conform::kernel::live;
use lasthop_conform::script::*;
use lasthop_proto::time::Duration;
fn main() {
    for path in std::env::args().skip(2) {
        let out = std::path::Path::new(&std::env::args().nth(1).unwrap())
            .join(std::path::Path::new(&path).file_name().unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        let remark: Vec<&str> =
            text.lines().take_while(|l| l.starts_with("//")).map(|l| l.trim_start_matches("//").trim()).collect();
        let script = lasthop_conform::parse::parse(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        let (mut steps, mut kind, mut opens, mut carry) = (vec![], Kind::Sender, Opens::Script, Duration::ZERO);
        if text.contains("tcp_ecn=1") {
            kind = Kind::Ecn;
        }
        for e in &script.events {
            let after = match e.time {
                Time::Relative(d) | Time::Absolute(d) => d,
                _ => panic!(),
            };
            carry = carry + after;
            let int = |c: &Call, i: usize| c.args.get(i).and_then(Value::int).unwrap_or(0);
            let what = match &e.action {
                Action::Inbound(s) => Stimulus::Segment(s.clone()),
                Action::Call(c) => match c.name.as_str() {
                    "write" => Stimulus::Write(int(c, 2) as u64),
                    "read" => Stimulus::Read(int(c, 2) as u64),
                    "shutdown" => Stimulus::Shutdown,
                    "close" => Stimulus::Close,
                    "setsockopt" => Stimulus::SetOption("TCP_NODELAY", 1),
                    "connect" => {
                        opens = Opens::Stack;
                        continue;
                    }
                    _ => continue,
                },
                _ => continue,
            };
            steps.push(Step { after: carry, what });
            carry = Duration::ZERO;
        }
        let case = Case { kind, seed: 0, opens, steps };
        let mut run = live::run(kind, std::slice::from_ref(&case), 1, "cubic", &mut || {}).unwrap().pop().unwrap();
        if run.is_late {
            eprintln!("{path}: late");
        }
        let times: Vec<u64> = case
            .steps
            .iter()
            .scan(0, |s, x| {
                *s += x.after.as_nanos();
                Some(*s)
            })
            .collect();
        for s in &mut run.sent {
            let at = s.at.as_nanos();
            let nominal = times.iter().copied().filter(|t| *t <= at + 1000).max().unwrap_or(0);
            s.at = Duration::from_nanos(if at - nominal.min(at) < 2_500_000 {
                nominal
            } else {
                (at + 500_000) / 1_000_000 * 1_000_000
            });
        }
        std::fs::write(out, write(&case, &run.sent, &remark.join("\n"))).unwrap();
    }
}
