//! The gateway among strangers, for hours: `cargo run --release -p lasthop-live --example strangers -- [RUNS] [SEED] [--bare]`.
//!
//! Draws random scripts of attacks and runs each against models of both ends (`fuzz/src/hostile` says what must hold): through
//! the gateway's engine with bytes or, with `--bare`, through the mechanism alone, which is faster. The same SEED draws the same
//! scripts. Prints how many ran every 10 s, and each script that shows a fault: a file with these bytes is a seed for
//! `fuzz/seeds/hostile`, and one for `LASTHOP_TRACE=1 LASTHOP_SCRIPT=FILE cargo test -p lasthop-live --test hostile -- --ignored
//! one_script --nocapture`. Ends with status 1 if there was one. RUNS is 100,000,000 and SEED 1 unless told.

#[path = "../../../fuzz/src/hostile/mod.rs"]
#[allow(dead_code, missing_docs)]
mod hostile;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hostile::middle::{Bare, Bytes};
use hostile::world::{Demand, run};
use lasthop_proto::random::Root;

/// Between two reports.
const INTERVAL: Duration = Duration::from_secs(10);
/// Scripts between two looks at the clock.
const STRIDE: u64 = 256;
/// A script is shorter than this, in bytes.
const LONGEST: u64 = 82;
/// Without this bit in its first byte a script has strangers in it.
const ALONE: u8 = 0x40;
/// Characters of what a fault says.
const MOST_TEXT: usize = 300;
/// So many faults are shown; one cause shows in many scripts.
const SHOWN: u64 = 20;

/// What is asked for.
struct Asked {
    runs: u64,
    seed: u64,
    bare: bool,
}

fn asked() -> Result<Asked, String> {
    let (mut numbers, mut bare) = (Vec::new(), false);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--bare" => bare = true,
            word => numbers.push(word.parse::<u64>().map_err(|_| format!("{word:?}: neither a number nor --bare"))?),
        }
    }
    match numbers[..] {
        [] => Ok(Asked { runs: 100_000_000, seed: 1, bare }),
        [runs] => Ok(Asked { runs, seed: 1, bare }),
        [runs, seed] => Ok(Asked { runs, seed, bare }),
        _ => Err("at most two numbers: RUNS and SEED".to_owned()),
    }
}

fn main() -> ExitCode {
    let Asked { runs, seed, bare } = match asked() {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("strangers: {error}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let mut random = Root(seed).stream("strangers");
    let (start, mut reported, mut faults) = (Instant::now(), Instant::now(), 0_u64);
    let report = |ran: u64, faults: u64| {
        let seconds = start.elapsed().as_secs_f64();
        let what = if bare { "the mechanism" } else { "the engine" };
        println!(
            "{seconds:.0} s: {ran} scripts of {runs} through {what}, seed {seed}, {:.0}/s, {faults} faults",
            ran as f64 / seconds
        );
    };
    for ran in 0..runs {
        let len = 2 + random.below(LONGEST - 2) as usize;
        let mut script: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        script[0] &= !ALONE;
        let one = || if bare { run::<Bare>(&script, Demand::All) } else { run::<Bytes>(&script, Demand::All) };
        if let Err(panic) = std::panic::catch_unwind(one) {
            faults += 1;
            if faults <= SHOWN {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                let text: String = text.as_deref().unwrap_or("?").chars().take(MOST_TEXT).collect();
                println!("fault {faults}, script {ran}: {script:?}: {text}");
            }
        }
        if ran % STRIDE == 0 && reported.elapsed() >= INTERVAL {
            report(ran + 1, faults);
            reported = Instant::now();
        }
    }
    report(runs, faults);
    ExitCode::from(u8::from(faults > 0))
}
