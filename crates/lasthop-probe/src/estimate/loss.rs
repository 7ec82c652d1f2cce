//! Loss, and its bursts.

/// Losses in a sequence of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Losses {
    /// Number of packets.
    pub packets: u64,
    /// Number of lost packets.
    pub lost: u64,
    /// Lost packets over sent packets.
    pub share: f64,
    /// 95 % interval of `share`, wider if losses are bursty.
    pub interval: [f64; 2],
}

/// Runs of lost packets.
#[derive(Clone, PartialEq, Debug)]
pub struct Runs {
    /// Number of packets in each run, in order.
    pub lengths: Vec<u32>,
    /// Mean length; 0 without runs.
    pub mean: f64,
    /// 95 % interval of the mean; `None` with fewer than three runs.
    pub interval: Option<[f64; 2]>,
}

/// Minimum number of blocks for estimating their variance.
const FEWEST_BLOCKS: usize = 16;
/// 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_964;

/// Returns the loss with Wilson's interval for an effective number of independent packets. The variance of the loss in
/// blocks of 1, 2, 4, ... packets, which grows with burstiness, gives that number.
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
            // Few blocks, or few runs in them, give an uncertain variance.
            quantile = student(number.min(occasions) - 1.0);
        }
        block *= 2;
    }
    let of = count as f64 / inflation;
    Losses { packets: count as u64, lost: hits as u64, share, interval: wilson(share, of, quantile) }
}

/// Returns the 97.5 % quantile of Student's t distribution, by the first terms of the Cornish-Fisher expansion.
fn student(freedom: f64) -> f64 {
    Z + (Z * Z * Z + Z) / (4.0 * freedom.max(1.0))
}

fn wilson(share: f64, of: f64, z: f64) -> [f64; 2] {
    let z2 = z * z;
    let middle = (share + z2 / (2.0 * of)) / (1.0 + z2 / of);
    let half = z / (1.0 + z2 / of) * libm::sqrt(share * (1.0 - share) / of + z2 / (4.0 * of * of));
    // Without losses the lower end is 0 except for rounding.
    let low = if share == 0.0 { 0.0 } else { (middle - half).max(0.0) };
    [low, (middle + half).min(1.0)]
}

/// Returns the runs of lost packets.
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
