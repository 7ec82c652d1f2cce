//! temporary
use lasthop_conform::differential::*;
use lasthop_conform::kernel::campaign::Campaign;
use lasthop_conform::lasthop::Model;
use lasthop_proto::tcp::config::Preset;
use std::collections::BTreeMap;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let kind = Kind::ALL.iter().find(|(n, _)| *n == args[1]).unwrap().1;
    let (count, seed): (u64, u64) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let show: usize = args.get(4).and_then(|v| v.parse().ok()).unwrap_or(5);
    let campaign = Campaign {
        kind,
        model: Model::new(Preset::Linux618),
        congestion: "cubic",
        jobs: 200,
        with_push: std::env::var("PUSH").is_ok(),
    };
    let tally = campaign.run(seed, count, &mut || {}).unwrap();
    let mut by = BTreeMap::<&str, usize>::new();
    for d in &tally.differing {
        *by.entry(d.mismatch.what).or_default() += 1;
    }
    println!("{}: {} same, {} unknown of {count}; {by:?}", kind.name(), tally.same, tally.unknown);
    for d in tally.differing.into_iter().take(show) {
        let s = campaign.shrink(d, &mut || {}).unwrap();
        println!("--- seed {} {:?}", s.case.seed, s.mismatch);
        println!("{}", write(&s.case, &s.run.sent, "x"));
    }
}
