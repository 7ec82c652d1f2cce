//! Paths of different tiers.

use std::cell::Cell;

use lasthop_proto::link::hybrid::{Bundle, Copies, Multipath, PathId, RateRule, Repair, Terms, Tier};
use lasthop_proto::node::Port;
use lasthop_proto::random::Root;
use lasthop_proto::time::Duration;
use proptest::prelude::*;

use super::link::*;

fn tier() -> impl Strategy<Value = Tier> {
    prop::sample::select(vec![Tier::Primary, Tier::Secondary, Tier::Backup, Tier::Off])
}

fn terms() -> impl Strategy<Value = Terms> {
    let copies = prop::sample::select(vec![Copies::None, Copies::Light, Copies::All]);
    (tier(), copies).prop_map(|(tier, copies)| Terms { tier, copies })
}

fn multipath() -> impl Strategy<Value = Multipath> {
    prop::sample::select(vec![Multipath::Bond, Multipath::Redundant, Multipath::Failover])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Over three paths of any tiers, which change on the way, each packet arrives at most once, and in order while none is
    /// passed on early. A path that is off carries nothing.
    #[test]
    fn packets_arrive_once_and_never_on_a_path_that_is_off(
        before in prop::array::uniform3(terms()), after in prop::array::uniform3(terms()), multipath in multipath(),
        delays in prop::array::uniform3(1u64..120), losses in prop::array::uniform3(0u64..15),
        pause in 300u64..3000, seed in any::<u64>(),
    ) {
        let works = |terms: &[Terms; 3]| terms.iter().any(|terms| terms.tier != Tier::Off);
        // Without a path, packets wait.
        let off = |terms: &[Terms; 3]| terms.map(|path| path.tier == Tier::Off && works(terms));
        let (is_off, on_off) = (Cell::new(off(&before)), Cell::new(0_u32));
        let mut random = Root(seed).stream("tiers");
        let more = vec![(RateRule::Fixed(RATE), config(Repair::Adaptive).header); 2];
        let bundle = Bundle { multipath, more, terms: before.to_vec() };
        let mut link = Link::with_bundle(config(Repair::Adaptive), &bundle, |_, _, port, _| {
            let path = usize::from(port.0 - Port::WIRELESS.0);
            on_off.set(on_off.get() + u32::from(is_off.get()[path]));
            if random.below(100) < losses[path] { vec![] } else { vec![millis(delays[path])] }
        });
        let mut count = 0;
        while link.now < ms(3000) {
            link.offer(0, segment(0, count));
            count += 1;
            let next = link.now + Duration::from_micros(pause);
            link.run_until(next);
            if count == 1000 {
                for (path, terms) in (0..).zip(after) {
                    for end in &mut link.ends {
                        end.hop_mut().set_terms(PathId(path), terms);
                    }
                }
                is_off.set(off(&after));
            }
        }
        link.run_until(ms(12_000));
        let numbers = once_and_in_order(&link)?;
        let counters = link.ends[0].hop().counters();
        if works(&before) && works(&after) && counters.given_up == 0 && counters.dropped == 0 {
            prop_assert_eq!(numbers.len(), count as usize);
        }
        drop(link);
        prop_assert_eq!(on_off.get(), 0);
    }
}
