//! The files of a cure, and the next steps.

use lasthop_study::advise::HopRates;
use lasthop_study::install::tunnel::End;
use lasthop_study::install::{Installed, KEY_FILE, Site, installed};
use serde_json::{Value, json};

use crate::refusal::Refusal;
use crate::words::Words;

/// Returns the installation of `cure`: `{"files": [{"name", "text"}], "steps": [..]}`, with files as `lasthop advise
/// --out` writes them. The gateway takes `interface`; the two-ended link `near` and `far` (hosts; one is enough),
/// `near-key` and `far-key` (public keys, generated at each end, so that no private key is sent), `behind-near` and
/// `behind-far` (networks), and the hop's rates `down` and `up` in bits per second, with `turns=1` on a half-duplex
/// medium.
///
/// # Errors
///
/// Returns an error with the parameter, and the expected form.
pub fn configuration(query: &str) -> Result<Value, Refusal> {
    let mut words = Words::read(query)?;
    let cure = words.take("cure").unwrap_or_default();
    let rate = |words: &mut Words, key: &str| words.number(key, [1, 1_000_000_000_000_u64]);
    let (down, up) = (rate(&mut words, "down")?, rate(&mut words, "up")?);
    let takes_turns = words.take("turns").is_some_and(|turns| turns != "0");
    let mut end = |host: &str, key: &str, behind: &str| -> Result<End, Refusal> {
        Ok(End {
            host: words.take(host),
            key_file: KEY_FILE.to_owned(),
            public_key: words.take(key).unwrap_or_default(),
            behind: words.list(behind, |network| Ok(network.to_owned()))?,
        })
    };
    let (near, far) = (end("near", "near-key", "behind-near")?, end("far", "far-key", "behind-far")?);
    let rates = down.zip(up).map(|(down, up)| HopRates { down, up, takes_turns });
    let site = Site { interface: words.take("interface"), near, far, rates };
    words.finish()?;
    let Installed { files, steps } = installed(&cure, &site).map_err(|unfit| Refusal::of(unfit.what, unfit.message))?;
    let files: Vec<Value> = files.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect();
    Ok(json!({ "files": files, "steps": steps }))
}
