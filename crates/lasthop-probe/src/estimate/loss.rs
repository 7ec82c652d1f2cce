//! How much is lost, and how it comes together.

/// Losses of packets in a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Losses {
    /// Packets.
    pub packets: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Lost over sent.
    pub share: f64,
    /// Its 95 % interval, wider where losses come together.
    pub interval: [f64; 2],
}

/// Runs of lost packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Runs {
    /// How many packets each had, in order.
    pub lengths: Vec<u32>,
    /// Their mean; 0 without any.
    pub mean: f64,
    /// Its 95 % interval; `None` for fewer than three runs.
    pub interval: Option<[f64; 2]>,
}

/// Blocks that are needed to see how they vary.
const FEWEST_BLOCKS: usize = 16;
/// The normal distribution's 97.5 % quantile.
const Z: f64 = 1.959_964;

/// Loss with its interval: Wilson's, for as many packets as would say as much if each were lost by itself. How many these are shows
/// in blocks of 1, 2, 4, ... packets, whose losses vary more where losses come together.
pub fn losses(lost: &[bool]) -> Losses {
    let count = lost.len();
    let hits = lost.iter().filter(|lost| **lost).count();
    if count == 0 {
        return Losses { packets: 0, lost: 0, share: 0.0, interval: [0.0, 1.0] };
    }
    let share = hits as f64 / count as f64;
    let mut inflation = 1.0_f64;
    let mut quantile = Z;
    let occasions = runs(lost).lengths.len() as f64;
    let mut block = 2;
    while hits > 0 && hits < count && count / block >= FEWEST_BLOCKS {
        let blocks: Vec<f64> = lost
            .chunks_exact(block)
            .map(|block| block.iter().filter(|lost| **lost).count() as f64 / block.len() as f64)
            .collect();
        let number = blocks.len() as f64;
        let mean = blocks.iter().sum::<f64>() / number;
        let variance = blocks.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>() / (number - 1.0);
        let found = variance * block as f64 / (share * (1.0 - share));
        if found > inflation {
            inflation = found;
            // Few blocks, and few runs in them, say less of how they vary.
            quantile = student(number.min(occasions) - 1.0);
        }
        block *= 2;
    }
    let of = count as f64 / inflation;
    Losses { packets: count as u64, lost: hits as u64, share, interval: wilson(share, of, quantile) }
}

/// Student's 97.5 % quantile, as Cornish and Fisher expand it.
fn student(freedom: f64) -> f64 {
    Z + (Z * Z * Z + Z) / (4.0 * freedom.max(1.0))
}

fn wilson(share: f64, of: f64, z: f64) -> [f64; 2] {
    let z2 = z * z;
    let middle = (share + z2 / (2.0 * of)) / (1.0 + z2 / of);
    let half = z / (1.0 + z2 / of) * libm::sqrt(share * (1.0 - share) / of + z2 / (4.0 * of * of));
    // Where nothing is lost, the lower end is 0 but for rounding.
    let low = if share == 0.0 { 0.0 } else { (middle - half).max(0.0) };
    [low, (middle + half).min(1.0)]
}

/// Runs of lost packets.
pub fn runs(lost: &[bool]) -> Runs {
    let mut lengths = Vec::new();
    let mut run = 0;
    for lost in lost {
        if *lost {
            run += 1;
        } else if run > 0 {
            lengths.push(std::mem::take(&mut run));
        }
    }
    lengths.extend((run > 0).then_some(run));
    let count = lengths.len() as f64;
    let mean = if lengths.is_empty() { 0.0 } else { lengths.iter().sum::<u32>() as f64 / count };
    let interval = (lengths.len() >= 3).then(|| {
        let spread = lengths.iter().map(|&run| (f64::from(run) - mean) * (f64::from(run) - mean)).sum::<f64>();
        let half = student(count - 1.0) * libm::sqrt(spread / (count - 1.0) / count);
        [(mean - half).max(1.0), mean + half]
    });
    Runs { lengths, mean, interval }
}
