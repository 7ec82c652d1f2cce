//! temporary
use std::path::Path;
fn main() {
    let mut stack = lasthop_conform::lasthop::Lasthop::new(lasthop_conform::lasthop::Model {
        hz: std::env::var("HZ").ok().and_then(|v| v.parse().ok()),
        phase: lasthop_proto::time::Duration::from_micros(
            std::env::var("PHASE").ok().and_then(|v| v.parse().ok()).unwrap_or(0),
        ),
        ..lasthop_conform::lasthop::Model::new(match std::env::args().nth(1).unwrap().as_str() {
            "rfc" => lasthop_proto::tcp::config::Preset::Rfc,
            "rfc-2026" => lasthop_proto::tcp::config::Preset::Rfc2026,
            _ => lasthop_proto::tcp::config::Preset::Linux618,
        })
    });
    for path in std::env::args().skip(2) {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let load = |p: &str| {
            let base = Path::new(&path).parent().unwrap();
            std::fs::read_to_string(base.join(p)).ok()
        };
        match lasthop_conform::parse::parse(&text) {
            Err(e) => println!("PARSE {path}: {e}"),
            Ok(s) => match lasthop_conform::run::run(&s, &mut stack, &load) {
                lasthop_conform::run::Verdict::Passed => println!("PASS {path}"),
                lasthop_conform::run::Verdict::Failed(d) => {
                    println!("FAIL {path}:{}: {:.6} expected {} got {}", d.line, d.at.as_secs_f64(), d.expected, d.got)
                }
                lasthop_conform::run::Verdict::NotApplicable { line, reason } => println!("NA {path}:{line}: {reason}"),
            },
        }
    }
}
