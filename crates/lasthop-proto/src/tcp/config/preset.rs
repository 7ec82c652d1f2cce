//! Presets: the values of all settings of an endpoint for 4.4BSD, ns-2, RFCs and Linux.

use super::{
    AckCongestion, ClassicConfig, ClassicRecovery, Clock, CommonConfig, ControlRule, Deflation, DelayedAck, EcnEcho,
    EcnMode, EcnOption, Growth, HandshakeAck, HeaderAccounting, HystartRule, ImpureDuplicates, ModernConfig, Nagle,
    PartialAckTimer, PartialDeflation, PawsRule, Push, Qdisc, ReceiveAutotune, ReceiverConfig, Recovery, RecoveryGuard,
    RttRule, SackAlgorithm, SackCompression, SendAutotune, Switch, WindowEdge, WindowProbe, WindowReduction,
};
use crate::time::Duration;

/// A named set of values for every setting of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// 4.4BSD-Lite as in BSD/OS 2.x, quirks included: the 1997 study.
    BsdLite,
    /// ns-2.35's one-way agents.
    Ns2,
    /// RFC 5681, 6298, 6582, 6675, 6928, 7323.
    Rfc,
    /// Linux 6.18 at 250 Hz with CUBIC.
    Linux618,
    /// Linux 6.18 with BBR, version 1.
    Linux618Bbr,
    /// Standards as of 2026: RFC 9438, 9406, 8985, 9937, 5682, 6298.
    Rfc2026,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 6] = [Self::BsdLite, Self::Ns2, Self::Rfc, Self::Linux618, Self::Linux618Bbr, Self::Rfc2026];

    /// Returns the loss recovery that applies under every scheme; `None` if the scheme determines it.
    pub const fn recovery(self) -> Option<Recovery> {
        match self {
            Self::BsdLite | Self::Ns2 | Self::Rfc => None,
            Self::Linux618 | Self::Linux618Bbr | Self::Rfc2026 => Some(Recovery::Rack),
        }
    }
}

impl CommonConfig {
    /// Returns the values of `preset`.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::BsdLite => Self::bsd_lite(),
            Preset::Ns2 => Self::ns2(),
            Preset::Rfc => Self::rfc(),
            Preset::Linux618 | Preset::Linux618Bbr => Self::linux_6_18(),
            Preset::Rfc2026 => Self::rfc_2026(),
        }
    }

    fn bsd_lite() -> Self {
        Self {
            mss: 1400,
            send_buffer: 32 * 1024,
            timestamps: Switch::Off,
            paws: PawsRule::Rfc7323,
            headers: HeaderAccounting::Full,
            sack_eln: Switch::Off,
            clock: Clock::Ticks { slow: Duration::from_millis(500), fast: Duration::from_millis(200) },
            tick_phase: None,
            rtt_rule: RttRule::Bsd,
            rtt_granularity: Duration::from_millis(500),
            rto_initial: Duration::from_secs(6),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(64),
            max_backoff: 64,
            max_retries: 12,
            ecn: EcnMode::Off,
            ecn_option: EcnOption::Full,
            ecn_option_beacon: 3,
            ecn_fallback: Switch::On,
            ack_congestion: AckCongestion::Off,
            initial_window: 1,
            initial_ssthresh: Some(65535),
            max_cwnd: 65535,
            dupack_threshold: 3,
            idle_restart: Switch::On,
            nagle: Nagle::On,
            handshake_ack: HandshakeAck::WithData,
            window_probe: WindowProbe::Byte,
            time_wait: Duration::from_secs(60),
        }
    }

    fn ns2() -> Self {
        Self {
            mss: 1400,
            send_buffer: 23 * 1400,
            headers: HeaderAccounting::Ns2,
            clock: Clock::Fine,
            // The draw of ns-2's default seed for its first agent when the run starts: 5.558807 ms before a tick.
            tick_phase: Some(Duration::from_nanos(10_000_000 - 5_558_807)),
            rtt_rule: RttRule::Ns2,
            rtt_granularity: Duration::from_millis(10),
            rto_initial: Duration::from_secs(3),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            max_retries: u32::MAX,
            initial_window: 2,
            initial_ssthresh: None,
            max_cwnd: u32::MAX,
            nagle: Nagle::Off,
            ..Self::bsd_lite()
        }
    }

    fn rfc() -> Self {
        Self {
            mss: 1460,
            send_buffer: 256 * 1024,
            timestamps: Switch::On,
            clock: Clock::Fine,
            rtt_rule: RttRule::Rfc6298,
            rtt_granularity: Duration::from_millis(1),
            rto_initial: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            max_retries: 15,
            initial_window: 10,
            initial_ssthresh: Some(u32::MAX),
            max_cwnd: u32::MAX,
            ..Self::bsd_lite()
        }
    }

    fn linux_6_18() -> Self {
        let jiffy = Duration::from_millis(4);
        Self {
            mss: 1448,
            send_buffer: 4 << 20,
            paws: PawsRule::Linux,
            clock: Clock::Jiffies { jiffy, wheel: Switch::On },
            rtt_rule: RttRule::Linux,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(120),
            max_backoff: 65_536,
            ecn: EcnMode::Passive,
            nagle: Nagle::Minshall,
            window_probe: WindowProbe::Empty,
            ..Self::rfc()
        }
    }

    fn rfc_2026() -> Self {
        Self { mss: 1448, send_buffer: 4 << 20, ..Self::rfc() }
    }
}

impl ReceiverConfig {
    /// Returns the values of `preset`.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::BsdLite => Self::bsd_lite(),
            Preset::Ns2 => Self::ns2(),
            Preset::Rfc => Self::rfc(),
            Preset::Linux618 | Preset::Linux618Bbr => Self::linux_6_18(),
            Preset::Rfc2026 => Self::rfc_2026(),
        }
    }

    fn bsd_lite() -> Self {
        Self {
            receive_buffer: 32 * 1024,
            window_scale: None,
            sack_blocks: 3,
            delayed_ack: DelayedAck::WindowUpdate,
            sack_compression: SackCompression::Off,
            dsack: Switch::Off,
            receive_autotune: ReceiveAutotune::Off,
            ack_before_read: Switch::On,
            smart_acks: Switch::Off,
            ecn_echo: EcnEcho::Rfc3168,
            gro: Switch::Off,
            gro_flush_timeout: Duration::ZERO,
        }
    }

    fn ns2() -> Self {
        Self {
            receive_buffer: 23 * 1400,
            window_scale: None,
            delayed_ack: DelayedAck::Off,
            ack_before_read: Switch::Off,
            ..Self::bsd_lite()
        }
    }

    fn rfc() -> Self {
        Self {
            receive_buffer: 256 * 1024,
            window_scale: Some(7),
            delayed_ack: DelayedAck::EverySecond { timeout: Duration::from_millis(200) },
            ack_before_read: Switch::Off,
            ..Self::bsd_lite()
        }
    }

    fn linux_6_18() -> Self {
        Self {
            receive_buffer: 32 << 20,
            window_scale: Some(10),
            delayed_ack: DelayedAck::Linux,
            sack_compression: SackCompression::Linux,
            dsack: Switch::On,
            receive_autotune: ReceiveAutotune::Linux,
            ..Self::rfc()
        }
    }

    fn rfc_2026() -> Self {
        Self { receive_buffer: 4 << 20, window_scale: Some(10), dsack: Switch::On, ..Self::rfc() }
    }
}

impl ClassicConfig {
    /// Returns the values of `preset`.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::BsdLite => Self::bsd_lite(),
            Preset::Ns2 => Self::ns2(),
            Preset::Rfc | Preset::Linux618 | Preset::Linux618Bbr | Preset::Rfc2026 => Self::rfc(),
        }
    }

    fn bsd_lite() -> Self {
        Self {
            recovery: ClassicRecovery::Reno,
            sack_algorithm: SackAlgorithm::Sack1,
            limited_transmit: Switch::Off,
            growth: Growth::BsdLite,
            deflation: Deflation::AboveThreshold,
            impure_duplicates: ImpureDuplicates::RestartCount,
            partial_deflation: PartialDeflation::ToThreshold,
            eln_inflation: Switch::On,
            header_prediction: Switch::On,
            recovery_guard: RecoveryGuard::None,
            partial_ack_timer: PartialAckTimer::SlowButSteady,
            recovery_burst: u32::MAX,
            smart_rtt: None,
        }
    }

    fn ns2() -> Self {
        Self {
            limited_transmit: Switch::On,
            growth: Growth::Ns2,
            deflation: Deflation::Always,
            impure_duplicates: ImpureDuplicates::Ignored,
            partial_deflation: PartialDeflation::ByAcked,
            eln_inflation: Switch::Off,
            header_prediction: Switch::Off,
            recovery_guard: RecoveryGuard::Ns2,
            partial_ack_timer: PartialAckTimer::Impatient,
            recovery_burst: 2,
            ..Self::bsd_lite()
        }
    }

    fn rfc() -> Self {
        Self {
            recovery: ClassicRecovery::Sack,
            sack_algorithm: SackAlgorithm::Rfc6675,
            limited_transmit: Switch::On,
            growth: Growth::Rfc5681,
            deflation: Deflation::Always,
            impure_duplicates: ImpureDuplicates::Ignored,
            partial_deflation: PartialDeflation::ByAcked,
            eln_inflation: Switch::Off,
            header_prediction: Switch::Off,
            recovery_guard: RecoveryGuard::Careful,
            partial_ack_timer: PartialAckTimer::Impatient,
            ..Self::bsd_lite()
        }
    }
}

impl ModernConfig {
    /// Returns the values of `preset`.
    pub fn preset(preset: Preset) -> Self {
        match preset {
            Preset::BsdLite | Preset::Ns2 | Preset::Rfc => Self::older(),
            Preset::Linux618 => Self::linux_6_18(),
            Preset::Linux618Bbr => Self { congestion: ControlRule::BBR, ..Self::linux_6_18() },
            Preset::Rfc2026 => Self::rfc_2026(),
        }
    }

    /// Returns the values of presets whose own recovery is classic.
    fn older() -> Self {
        Self {
            congestion: ControlRule::RENO,
            window_reduction: WindowReduction::Rfc9937,
            undo: Switch::On,
            frto: Switch::On,
            tlp: Switch::On,
            small_queues: Switch::Off,
            send_autotune: SendAutotune::Off,
            send_quantum: u32::MAX,
            qdisc: Qdisc::Fifo,
            tso: Switch::Off,
            window_edge: WindowEdge::Whole,
            push: Push::Never,
        }
    }

    fn linux_6_18() -> Self {
        Self {
            congestion: ControlRule::cubic(HystartRule::Linux),
            window_reduction: WindowReduction::Linux,
            small_queues: Switch::On,
            window_edge: WindowEdge::Cut,
            push: Push::Bursts,
            ..Self::older()
        }
    }

    fn rfc_2026() -> Self {
        Self { congestion: ControlRule::cubic_rfc9438(HystartRule::Rfc9406), small_queues: Switch::On, ..Self::older() }
    }
}
