//! rough
mod util;
use lasthop_proto::random::Root;
use lasthop_proto::pep::split::SplitRelay;
use lasthop_proto::tcp::TickPhase;
use lasthop_proto::tcp::config::*;
use util::*;
use std::sync::Arc;
#[test]
fn rough() {
                let mut rng = Root(29).stream("x");
                let mut left = 40;
                let c = TcpConfig { recovery: Recovery::Sack, ..TcpConfig::preset(Preset::Ns2) };
                let mut pair = Pair::of(c.clone()).with_iss(u32::MAX-100000,u32::MAX-50000)
                    .with_time_per_byte(lasthop_proto::time::Duration::from_nanos(5000))
                    .judged_by(move |_| {
                        if left == 0 { return Fate::Arrive; }
                        let u = rng.below(100);
                        let f = match u { 0..=4 => Fate::Lose, 5 => Fate::Damage, 6 => Fate::Twice, 7 => Fate::Late(millis(rng.below(300))), _ => Fate::Arrive };
                        if f != Fate::Arrive { left -= 1; }
                        f
                    });

pair = pair.with_middle(SplitRelay::new(65536, Arc::new(c.clone()), Arc::new(c.clone()), TickPhase::default(), Switch::Off)); pair.connect();
                pair.client().write(1 << 18);
                pair.client().close();
                pair.server().write(100_000);
                pair.server().close();
let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pair.finish()));
                for s in &pair.trace { println!("{} {:?} {} seq {} ack {} len {} {:?} {:?} fl {:x} win {}", s.at, s.from, s.by_middle, s.seq, s.ack, s.len, s.cause, s.fate, s.segment.flags.0, s.segment.window); }
                println!("{:?} {:?}", pair.states(), pair.events);
                println!("{:?} {}", pair.ends, pair.now);r.unwrap();
}
