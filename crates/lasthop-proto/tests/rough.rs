//! rough
mod util;
use lasthop_proto::random::Root;
use lasthop_proto::pep::split::SplitRelay;
use lasthop_proto::tcp::TickPhase;
use lasthop_proto::tcp::State;
use lasthop_proto::tcp::config::*;
use util::*;
use std::sync::Arc;
const PRESETS: [Preset; 3] = [Preset::BsdLite, Preset::Ns2, Preset::Rfc];
const RECOVERIES: [(Recovery, SackAlgorithm); 7] = [
    (Recovery::Reno, SackAlgorithm::Sack1),
    (Recovery::NewReno, SackAlgorithm::Sack1),
    (Recovery::Smart, SackAlgorithm::Sack1),
    (Recovery::Sack, SackAlgorithm::Sack1),
    (Recovery::Sack, SackAlgorithm::Rfc6675),
    (Recovery::Eln, SackAlgorithm::Sack1),
    (Recovery::ElnRxmt, SackAlgorithm::Sack1),
];
fn config(preset: Preset, recovery: (Recovery, SackAlgorithm)) -> TcpConfig {
    let smart_acks = if recovery.0 == Recovery::Smart { Switch::On } else { Switch::Off };
    TcpConfig { recovery: recovery.0, sack_algorithm: recovery.1, smart_acks, ..TcpConfig::preset(preset) }
}
#[test]
fn rough() {
    let mut bad = 0;
    for split in [false, true] {
    for preset in PRESETS {
        for recovery in RECOVERIES {
            let mut total = 0.0; let mut to = 0;
            for seed in 0..60u64 {
                let result = std::panic::catch_unwind(|| {
                let mut rng = Root(seed).stream("x");
                let mut left = 40;
                let c = config(preset, recovery);
                let mut pair = Pair::of(c.clone()).with_iss(u32::MAX - 100_000, u32::MAX-50_000)
                    .with_time_per_byte(lasthop_proto::time::Duration::from_nanos(5000))
                    .judged_by(move |_| {
                        if left == 0 { return Fate::Arrive; }
                        let u = rng.below(100);
                        let f = match u { 0..=4 => Fate::Lose, 5 => Fate::Damage, 6 => Fate::Twice, 7 => Fate::Late(millis(rng.below(300))), _ => Fate::Arrive };
                        if f != Fate::Arrive { left -= 1; }
                        f
                    });
                if split { pair = pair.with_middle(SplitRelay::new(65536, Arc::new(c.clone()), Arc::new(c.clone()), TickPhase::default(), Switch::Off)); }
                pair.connect();
                pair.client().write(1 << 18);
                pair.client().close();
                pair.server().write(100_000);
                pair.server().close();
                pair.finish();
                assert_eq!(pair.server().received(), 1 << 18, "{preset:?} {recovery:?} {seed} {split}");
                assert_eq!(pair.client().received(), 100_000, "{preset:?} {recovery:?}");
                assert_eq!(pair.states(), (State::Closed, State::Closed), "{preset:?} {recovery:?}");
                let t = pair.arrived.iter().rev().find(|a| a.2.len > 0).unwrap().0;
                (t.as_secs_f64(), pair.timeouts())
                });
                match result { Ok(r) => { total += r.0; to += r.1 } Err(_) => { bad += 1; eprintln!("BAD {split} {preset:?} {recovery:?} {seed}"); } }
            }
            eprintln!("{split} {preset:?} {recovery:?} mean {:.1} s, timeouts {}", total / 60.0, to);
        }
    }}
    assert_eq!(bad, 0);
}
