//! Formatting of a configuration as the text of a file.

use std::fmt;

use lasthop_settings::reading::{self, ByteSize, List, Off, Or, Value, quote};

use super::{Duration, Gateway, Mode, Rule};
use lasthop_settings::reading::{AbsolutePath, Address};

/// Formats a file from which [`Gateway::parse`] restores the configuration.
impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics: Or<Off, Address> = self.metrics.map(Address).into();
        writeln!(f, "control = {}", AbsolutePath(self.control.clone()).show())?;
        if let Some(group) = &self.control_group {
            writeln!(f, "control_group = {}", group.show())?;
        }
        writeln!(f, "metrics = {}\nlog = {}", metrics.show(), quote(&self.log))?;
        match &self.bridge {
            Some(bridge) => writeln!(f, "bridge.wired = {}", quote(&bridge.wired))?,
            // They are not allowed on a bridge.
            None => {
                let trial: Or<Off, Duration> = self.trial.into();
                writeln!(f, "queue = {}\nmark = {:#010x}\ntrial = {}", self.queue, self.mark, trial.show())?;
            }
        }
        let limits = &self.limits;
        writeln!(f, "\n[limits]\ncache = {}\nflows = {}", ByteSize(limits.cache).show(), limits.flows)?;
        let link: Or<Off, ByteSize> = limits.link.map(ByteSize).into();
        writeln!(f, "idle = {}\nshare = {}\nlink = {}", limits.idle.show(), limits.share.show(), link.show())?;
        self.rules.iter().try_for_each(|rule| write!(f, "\n{rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, mode, interface, addresses, ports, opened_by, ab } = self;
        writeln!(f, "[[rule]]\nname = {}\nmode = {}", quote(name), quote(mode.name()))?;
        writeln!(f, "interface = {}\naddresses = {}", quote(interface), List(addresses.clone()).show())?;
        writeln!(f, "ports = {}\nopened_by = {}\nab = {}", List(ports.clone()).show(), opened_by.show(), ab.show())?;
        match mode {
            Mode::Snoop(config) => write!(f, "[rule.snoop]\n{}", reading::snoop_text(config)),
            Mode::Split(settings) => write!(f, "[rule.split]\n{}", reading::split_text(settings)),
            Mode::Quic | Mode::Observe => Ok(()),
        }
    }
}
