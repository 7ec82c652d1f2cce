//! Attacks on the gateway: selected and random scripts, run against models of both ends. `fuzz/src/hostile` defines the
//! requirements. `LASTHOP_HOSTILE_RUNS` is the number of random scripts for each gateway (default 4,000).

use std::collections::BTreeMap;
use std::path::Path;

use crate::hostile::middle::{Bare, Bytes, Middle};
use crate::hostile::world::{Demand, run};
use lasthop_proto::random::Root;

/// Runs a script, and prints it if a requirement is violated.
fn check<M: Middle>(script: &[u8]) {
    let outcome = std::panic::catch_unwind(|| run::<M>(script, Demand::All));
    if let Err(panic) = outcome {
        eprintln!("the script was {script:?}");
        std::panic::resume_unwind(panic);
    }
}

fn random_scripts<M: Middle>(seed: u64) {
    let runs = std::env::var("LASTHOP_HOSTILE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(4_000);
    let mut random = Root(seed).stream("hostile");
    for _ in 0..runs {
        let len = 2 + random.below(120) as usize;
        let script: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        check::<M>(&script);
    }
}

#[test]
fn random_strangers_change_nothing_for_the_engine() {
    random_scripts::<Bytes>(1);
}

#[test]
fn random_strangers_change_nothing_for_the_mechanism() {
    random_scripts::<Bare>(2);
}

/// Attacks found earlier have no effect.
#[test]
fn known_attacks_change_nothing() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/hostile");
    let mut count = 0;
    for entry in std::fs::read_dir(&seeds).expect("seeds") {
        let script = std::fs::read(entry.expect("a seed").path()).expect("a seed");
        check::<Bytes>(&script);
        check::<Bare>(&script);
        count += 1;
    }
    assert!(count >= 6, "{count} seeds");
}

/// Prints violations by kind, each with the shortest script that shows it, for work on the gateway and on the model:
/// `RUNS=20000 cargo test -p lasthop-gateway --test all -- --ignored --nocapture survey`.
#[test]
#[ignore = "prints violations and asserts nothing; runs if RUNS is set"]
fn survey() {
    if std::env::var_os("RUNS").is_none() {
        return;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default);
    let (runs, mask, bits) = (number("RUNS", 20_000), number("MASK", 0), number("BITS", 0));
    let demand = if number("OUTCOME", 0) == 1 { Demand::Outcome } else { Demand::All };
    let mut found: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
    let mut random = Root(number("SEED", 1)).stream("survey");
    let start = std::time::Instant::now();
    for _ in 0..runs {
        let len = 2 + random.below(80) as usize;
        let mut script: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        script[0] = script[0] & !(mask as u8) | bits as u8;
        let bare = number("BARE", 0) == 1;
        let run = || if bare { run::<Bare>(&script, demand) } else { run::<Bytes>(&script, demand) };
        if let Err(panic) = std::panic::catch_unwind(run) {
            let text = panic.downcast_ref::<String>().map_or("?", |text| text);
            let kind: String =
                text.split(['{', '[', '(']).next().unwrap_or("?").chars().filter(|at| !at.is_ascii_digit()).collect();
            let entry = found.entry(kind).or_insert_with(|| (0, script.clone()));
            entry.0 += 1;
            if script.len() < entry.1.len() {
                entry.1 = script;
            }
        }
    }
    let _ = std::panic::take_hook();
    println!("{runs} scripts in {:?}", start.elapsed());
    for (kind, (count, script)) in found {
        println!("{count:6} {kind}: {script:?}");
    }
}
