//! Long-running attacks on the gateway:
//! `cargo run --release -p lasthop-gateway --example strangers -- [RUNS] [SEED] [--bare]`, or `[--bare] FILE` for one
//! script.
//!
//! Draws random scripts of attacks and runs each against models of both ends (`fuzz/src/hostile` defines the
//! requirements): through the gateway's engine with bytes or, with `--bare`, through the mechanism alone, which is
//! faster. The same SEED draws the same scripts. Prints the number of completed runs every 10 s, and each script that
//! reveals a fault, in shortened form: a file with these bytes is a seed for `fuzz/seeds/hostile`. With
//! `LASTHOP_TRACE=1` and a file name, it prints the events of that script. Exits with status 1 if there was a fault.
//! The defaults are 100,000,000 RUNS and SEED 1.

#[path = "../../../fuzz/src/hostile/mod.rs"]
#[allow(dead_code, missing_docs)]
mod hostile;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hostile::middle::{Bare, Bytes};
use hostile::shrink::shrink;
use hostile::world::{Demand, run};
use lasthop_proto::random::Root;

/// Interval between reports.
const INTERVAL: Duration = Duration::from_secs(10);
/// Number of scripts between checks of the clock.
const STRIDE: u64 = 256;
/// Upper bound of a script's length, in bytes.
const LONGEST: u64 = 82;
/// Bit in a script's first byte that disables attackers.
const ALONE: u8 = 0x40;
/// Maximum number of characters shown of a fault's description.
const MOST_TEXT: usize = 300;
/// Maximum number of faults to show: one cause appears in many scripts.
const SHOWN: u64 = 20;

/// Parsed arguments.
enum Asked {
    Random { runs: u64, seed: u64, bare: bool },
    File { script: Vec<u8>, bare: bool },
}

fn asked() -> Result<Asked, String> {
    let (mut numbers, mut file, mut bare) = (Vec::new(), None, false);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--bare" => bare = true,
            word => match word.parse::<u64>() {
                Ok(number) => numbers.push(number),
                Err(_) => file = Some(std::fs::read(word).map_err(|error| format!("{word}: {error}"))?),
            },
        }
    }
    match (&numbers[..], file) {
        ([], Some(script)) => Ok(Asked::File { script, bare }),
        ([], None) => Ok(Asked::Random { runs: 100_000_000, seed: 1, bare }),
        (&[runs], None) => Ok(Asked::Random { runs, seed: 1, bare }),
        (&[runs, seed], None) => Ok(Asked::Random { runs, seed, bare }),
        _ => Err("either a file, or at most two numbers: RUNS and SEED".to_owned()),
    }
}

/// Runs a script, and returns a description of the fault that it reveals.
fn fault(script: &[u8], bare: bool) -> Option<String> {
    let one = || if bare { run::<Bare>(script, Demand::All) } else { run::<Bytes>(script, Demand::All) };
    let panic = std::panic::catch_unwind(one).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    Some(text.unwrap_or_else(|| "?".to_owned()))
}

fn main() -> ExitCode {
    let (runs, seed, bare) = match asked() {
        Ok(Asked::Random { runs, seed, bare }) => (runs, seed, bare),
        Ok(Asked::File { script, bare }) => return ExitCode::from(u8::from(fault(&script, bare).is_some())),
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
        if fault(&script, bare).is_some() {
            faults += 1;
            if faults <= SHOWN {
                let short = shrink(&script, |script| fault(script, bare).is_some());
                let text: String = fault(&short, bare).unwrap_or_default().chars().take(MOST_TEXT).collect();
                println!("fault {faults}, script {ran}: {short:?}, of {script:?}: {text}");
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
