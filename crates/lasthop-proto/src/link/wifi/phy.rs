//! Physical layer of IEEE 802.11: rates and airtimes.
//!
//! Source: IEEE 802.11-2020, clauses 17 (OFDM), 18 (ERP), 19 (HT), 21 (VHT), and 802.11ax-2021, clause 27 (HE).

use crate::time::Duration;

/// Generation of the physical layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standard {
    /// 802.11a, and 802.11g at 2.4 GHz without 802.11b stations.
    Ofdm,
    /// 802.11n.
    Ht,
    /// 802.11ac.
    Vht,
    /// 802.11ax.
    He,
}

/// Frequency band. It decides the interframe spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Band {
    /// 2.4 GHz: SIFS 10 µs, signal extension 6 µs.
    Ghz2,
    /// 5 or 6 GHz: SIFS 16 µs.
    Ghz5,
}

/// Guard interval between symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// 0.4 µs; HT and VHT.
    Short,
    /// 0.8 µs.
    Normal,
    /// 1.6 µs; HE.
    Double,
    /// 3.2 µs; HE.
    Quadruple,
}

/// Parameters of a transmitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phy {
    /// Generation.
    pub standard: Standard,
    /// Band.
    pub band: Band,
    /// Channel width in MHz: 20, 40 (HT and later), 80, 160 (VHT and later).
    pub width: u32,
    /// Spatial streams, 1 to 8. 1 for OFDM, at most 4 for HT.
    pub streams: u32,
    /// Guard interval.
    pub guard: Guard,
}

/// Index of a rate: the MCS of one stream, or the place in [`OFDM_RATES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RateIndex(pub u8);

/// Rates of OFDM in Mbps.
pub const OFDM_RATES: [u32; 8] = [6, 9, 12, 18, 24, 36, 48, 54];

/// Coded bits per subcarrier, and code rate as a fraction, of the MCS 0 to 11.
const MCS: [(u32, u32, u32); 12] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
    (10, 3, 4),
    (10, 5, 6),
];

/// Service bits of a PPDU, and service and tail bits.
const SERVICE_BITS: u64 = 16;
const SERVICE_AND_TAIL: u64 = 22;
/// Longest PPDU of HT (mixed format), VHT and HE (aPPDUMaxTime).
const LONGEST: Duration = Duration::from_micros(5_484);

impl Phy {
    /// Returns the number of rates.
    pub const fn rates(&self) -> u8 {
        match self.standard {
            Standard::Ofdm | Standard::Ht => 8,
            // MCS 9 is excluded at 20 MHz, except for 3 and 6 streams (clause 21.5).
            Standard::Vht if self.width == 20 && !self.streams.is_multiple_of(3) => 9,
            Standard::Vht => 10,
            Standard::He => 12,
        }
    }

    /// Returns the data bits per symbol, N_DBPS, of a rate.
    pub fn bits_per_symbol(&self, rate: RateIndex) -> u32 {
        let index = usize::from(rate.0);
        if self.standard == Standard::Ofdm {
            return OFDM_RATES[index.min(OFDM_RATES.len() - 1)] * 4;
        }
        let (bits, part, whole) = MCS[index.min(MCS.len() - 1)];
        self.subcarriers() * bits * self.streams * part / whole
    }

    /// Returns the number of data subcarriers, N_SD.
    const fn subcarriers(&self) -> u32 {
        match (self.standard, self.width) {
            (Standard::Ofdm, _) => 48,
            (Standard::He, 20) => 234,
            (Standard::He, 40) | (Standard::Vht, 160) => 468,
            (Standard::He, 80) => 980,
            (Standard::He, _) => 1960,
            (_, 20) => 52,
            (_, 40) => 108,
            (_, _) => 234,
        }
    }

    /// Returns the duration of a symbol with its guard interval.
    pub const fn symbol(&self) -> Duration {
        let guard = match self.guard {
            Guard::Short => 400,
            Guard::Normal => 800,
            Guard::Double => 1_600,
            Guard::Quadruple => 3_200,
        };
        let useful = if matches!(self.standard, Standard::He) { 12_800 } else { 3_200 };
        Duration::from_nanos(useful + guard)
    }

    /// Returns the duration of the preamble and the physical header.
    pub const fn preamble(&self) -> Duration {
        // Number of long training fields for the streams.
        let training = match self.streams {
            1 => 1,
            2 => 2,
            3 | 4 => 4,
            5 | 6 => 6,
            _ => 8,
        };
        Duration::from_micros(match self.standard {
            Standard::Ofdm => 20,
            Standard::Ht => 32 + 4 * training,
            Standard::Vht => 36 + 4 * training,
            Standard::He => 36 + 8 * training,
        })
    }

    /// Returns the airtime of a PPDU with a payload (PSDU) of `bytes`.
    pub fn airtime(&self, rate: RateIndex, bytes: u32) -> Duration {
        self.until(rate, SERVICE_AND_TAIL + 8 * u64::from(bytes)) + self.extension()
    }

    /// Returns the time from the start of a PPDU until `bytes` of its payload are received.
    pub fn received_after(&self, rate: RateIndex, bytes: u32) -> Duration {
        self.until(rate, SERVICE_BITS + 8 * u64::from(bytes))
    }

    /// Returns the time from the start of a PPDU to the end of the symbol with the last of `bits` of its data.
    fn until(&self, rate: RateIndex, bits: u64) -> Duration {
        let symbols = bits.div_ceil(u64::from(self.bits_per_symbol(rate)));
        self.preamble() + Duration::from_nanos(self.symbol().as_nanos() * symbols)
    }

    /// Returns the signal extension behind a PPDU at 2.4 GHz.
    const fn extension(&self) -> Duration {
        match self.band {
            Band::Ghz2 => Duration::from_micros(6),
            Band::Ghz5 => Duration::ZERO,
        }
    }

    /// Returns the airtime of a control frame of `bytes` that belongs to a data frame at `rate`: at the highest of the
    /// basic rates 6, 12 and 24 Mbps that is not above the (non-HT reference) rate of the data.
    pub fn control_airtime(&self, rate: RateIndex, bytes: u32) -> Duration {
        let basic = match (self.standard, rate.0) {
            (Standard::Ofdm, 0 | 1) => 6,
            (Standard::Ofdm, 2 | 3) => 12,
            (Standard::Ofdm, _) => 24,
            (_, 0) => 6,
            (_, 1 | 2) => 12,
            _ => 24,
        };
        self.basic_airtime(basic, bytes)
    }

    /// Returns the airtime of an OFDM frame of `bytes` at 6, 12 or 24 Mbps.
    pub fn basic_airtime(&self, mbps: u32, bytes: u32) -> Duration {
        let symbols = (SERVICE_AND_TAIL + 8 * u64::from(bytes)).div_ceil(u64::from(mbps) * 4);
        Duration::from_micros(20 + 4 * symbols) + self.extension()
    }

    /// Returns whether frames are aggregated (A-MPDU).
    pub const fn aggregates(&self) -> bool {
        !matches!(self.standard, Standard::Ofdm)
    }

    /// Returns the longest airtime of a PPDU with several frames.
    pub const fn longest(&self) -> Duration {
        LONGEST
    }

    /// Returns the maximum size of an A-MPDU in bytes.
    pub const fn largest_aggregate(&self) -> u32 {
        match self.standard {
            Standard::Ofdm => 0,
            Standard::Ht => 65_535,
            Standard::Vht => 1_048_575,
            Standard::He => 6_500_631,
        }
    }

    /// Returns the number of frames that a block acknowledgment covers by default: 64, and 256 for HE.
    pub const fn acknowledged_at_once(&self) -> u32 {
        match self.standard {
            Standard::Ofdm => 1,
            Standard::Ht | Standard::Vht => 64,
            Standard::He => 256,
        }
    }

    /// Returns the size of a frame on the air: packet, LLC and SNAP header (8 bytes), MAC header and checksum (28 bytes,
    /// with quality of service 30).
    pub const fn frame_bytes(&self, packet: u32) -> u32 {
        packet.saturating_add(if self.aggregates() { 38 } else { 36 })
    }

    /// Returns SIFS.
    pub const fn sifs(&self) -> Duration {
        Duration::from_micros(match self.band {
            Band::Ghz2 => 10,
            Band::Ghz5 => 16,
        })
    }

    /// Returns the number of slots of the interframe space by default: 2 for OFDM (DIFS), otherwise 3 (AIFS of best
    /// effort).
    pub const fn aifsn(&self) -> u32 {
        if self.aggregates() { 3 } else { 2 }
    }

    /// Returns the data rate in bits per second.
    pub fn bits_per_second(&self, rate: RateIndex) -> u64 {
        u64::from(self.bits_per_symbol(rate)) * 1_000_000_000 / self.symbol().as_nanos()
    }
}

/// Slot of the backoff.
pub const SLOT: Duration = Duration::from_micros(9);
