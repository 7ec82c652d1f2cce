//! Shrinks a script that shows a fault, so that a person can read it.

/// Number of passes over a script, each of which takes as many runs as the script has bytes, several times.
const PASSES: usize = 8;

/// Returns the script without bytes that `shows`, which runs it, does not require, and with zeros for bytes whose value
/// does not matter.
pub fn shrink(script: &[u8], shows: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut script = script.to_vec();
    for _ in 0..PASSES {
        let before = script.clone();
        let mut span = script.len() / 2;
        while span > 0 {
            let mut at = 0;
            while at + span <= script.len() {
                let mut shorter = script.clone();
                shorter.drain(at..at + span);
                if shows(&shorter) { script = shorter } else { at += span }
            }
            span /= 2;
        }
        for at in 0..script.len() {
            for simpler in [0, script[at] & 0x0f, script[at] & 0xf0] {
                if simpler != script[at] {
                    let mut other = script.clone();
                    other[at] = simpler;
                    if shows(&other) {
                        script = other;
                        break;
                    }
                }
            }
        }
        if script == before {
            break;
        }
    }
    script
}
