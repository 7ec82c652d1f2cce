//! Details of TCP as explicit keys, with presets on top of them.

mod classic;
mod common;
mod modern;
mod preset;
mod receiver;

pub use self::classic::{
    ClassicConfig, ClassicRecovery, Deflation, Growth, ImpureDuplicates, PartialAckTimer, PartialDeflation,
    RecoveryGuard, SackAlgorithm,
};
pub use self::common::{
    AckCongestion, Clock, CommonConfig, EcnMode, EcnOption, HandshakeAck, HeaderAccounting, Nagle, PawsRule, RttRule,
    Switch, WindowProbe,
};
pub use self::modern::{ModernConfig, Push, Qdisc, SendAutotune, WindowEdge, WindowReduction};
pub use self::preset::Preset;
pub(crate) use self::receiver::AUTOTUNE_START;
pub use self::receiver::{DelayedAck, EcnEcho, ReceiveAutotune, ReceiverConfig, SackCompression};
pub use crate::tcp::congestion::{ControlRule, HystartRule};

/// All details of an endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpConfig {
    /// Settings of both halves.
    pub common: CommonConfig,
    /// Settings of the receiving half.
    pub receiver: ReceiverConfig,
    /// Sender, with its settings.
    pub sender: SenderConfig,
}

/// Choice of the sender, with the settings that only this sender reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SenderConfig {
    /// Sender with windows in bytes and a recovery of the 1990s.
    Classic(ClassicConfig),
    /// Sender with RACK-TLP.
    Modern(ModernConfig),
}

/// Algorithm by which an endpoint detects and repairs losses. It determines the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// One of the classic sender.
    Classic(ClassicRecovery),
    /// RACK-TLP (RFC 8985) over selective acknowledgments, of the modern sender.
    Rack,
}

impl Recovery {
    /// [`ClassicRecovery::Reno`].
    pub const RENO: Self = Self::Classic(ClassicRecovery::Reno);
    /// [`ClassicRecovery::NewReno`].
    pub const NEW_RENO: Self = Self::Classic(ClassicRecovery::NewReno);
    /// [`ClassicRecovery::Smart`].
    pub const SMART: Self = Self::Classic(ClassicRecovery::Smart);
    /// [`ClassicRecovery::Sack`].
    pub const SACK: Self = Self::Classic(ClassicRecovery::Sack);
    /// [`ClassicRecovery::Eln`].
    pub const ELN: Self = Self::Classic(ClassicRecovery::Eln);
    /// [`ClassicRecovery::ElnRxmt`].
    pub const ELN_RXMT: Self = Self::Classic(ClassicRecovery::ElnRxmt);

    /// All recoveries, with each algorithm of [`ClassicRecovery::Sack`] separately.
    pub const ALL: [(Self, SackAlgorithm); 8] = [
        (Self::RENO, SackAlgorithm::Sack1),
        (Self::NEW_RENO, SackAlgorithm::Sack1),
        (Self::SMART, SackAlgorithm::Sack1),
        (Self::SACK, SackAlgorithm::Sack1),
        (Self::SACK, SackAlgorithm::Rfc6675),
        (Self::ELN, SackAlgorithm::Sack1),
        (Self::ELN_RXMT, SackAlgorithm::Sack1),
        (Self::Rack, SackAlgorithm::Sack1),
    ];

    /// Returns whether the sender asks the peer for selective acknowledgments.
    pub const fn uses_sack(self) -> bool {
        matches!(self, Self::SACK | Self::Rack)
    }
}

impl SenderConfig {
    /// Returns the settings of `preset` for the sender with `recovery`.
    pub fn new(preset: Preset, recovery: Recovery) -> Self {
        match recovery {
            Recovery::Classic(recovery) => Self::Classic(ClassicConfig { recovery, ..ClassicConfig::preset(preset) }),
            Recovery::Rack => Self::Modern(ModernConfig::preset(preset)),
        }
    }

    /// Returns the loss recovery.
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::Classic(classic) => Recovery::Classic(classic.recovery),
            Self::Modern(_) => Recovery::Rack,
        }
    }

    /// Returns the settings of the classic sender; `None` if the sender is modern.
    pub const fn classic(&self) -> Option<&ClassicConfig> {
        match self {
            Self::Classic(classic) => Some(classic),
            Self::Modern(_) => None,
        }
    }

    /// Returns the settings of the classic sender for modification; `None` if the sender is modern.
    pub const fn classic_mut(&mut self) -> Option<&mut ClassicConfig> {
        match self {
            Self::Classic(classic) => Some(classic),
            Self::Modern(_) => None,
        }
    }

    /// Returns the settings of the modern sender; `None` if the sender is classic.
    pub const fn modern(&self) -> Option<&ModernConfig> {
        match self {
            Self::Classic(_) => None,
            Self::Modern(modern) => Some(modern),
        }
    }

    /// Returns the settings of the modern sender for modification; `None` if the sender is classic.
    pub const fn modern_mut(&mut self) -> Option<&mut ModernConfig> {
        match self {
            Self::Classic(_) => None,
            Self::Modern(modern) => Some(modern),
        }
    }
}

impl TcpConfig {
    /// Returns the settings of `preset`, with its own loss recovery.
    pub fn preset(preset: Preset) -> Self {
        let recovery = preset.recovery().unwrap_or(Recovery::Classic(ClassicConfig::preset(preset).recovery));
        Self::new(preset, recovery)
    }

    /// Returns the settings of `preset`, with the sender that has `recovery`.
    pub fn new(preset: Preset, recovery: Recovery) -> Self {
        Self {
            common: CommonConfig::preset(preset),
            receiver: ReceiverConfig::preset(preset),
            sender: SenderConfig::new(preset, recovery),
        }
    }

    /// Returns the settings after `change`.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns whether acknowledgment congestion control is offered and accepted.
    pub(crate) fn controls_acks(&self) -> bool {
        let every_second = matches!(self.receiver.delayed_ack, DelayedAck::EverySecond { .. });
        self.common.ack_congestion == AckCongestion::Rfc5690 && every_second
    }

    /// Returns whether acknowledgments report that the next segment arrived corrupted (ELN).
    pub(crate) fn reports_damage(&self) -> bool {
        let by_recovery = self.sender.classic().is_some_and(|classic| classic.recovery.uses_eln());
        by_recovery || self.common.sack_eln.is_on()
    }

    /// Returns whether a connection limits its share of the host's queue.
    #[inline]
    pub fn bounds_host_queue(&self) -> bool {
        self.sender.modern().is_some_and(|modern| modern.small_queues.is_on())
    }
}
