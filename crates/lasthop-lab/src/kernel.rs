//! Support for a scenario's TCP in the kernel, and the kernel's names for it.

use lasthop_proto::tcp::config::{
    AckCongestion, ControlRule, EcnEcho, EcnMode, Qdisc, Recovery, SackCompression, SendAutotune, SenderConfig,
    TcpConfig,
};
use lasthop_scenario::LabSpec;
use lasthop_sim::element::AnyElement;

/// Returns the feature of an endpoint that no kernel has, if any.
pub fn beyond_kernels(config: &TcpConfig) -> Option<&'static str> {
    if config.common.ack_congestion != AckCongestion::Off {
        return Some("acknowledgment congestion control");
    }
    if let Err(title) = congestion(config) {
        return Some(title);
    }
    if config.sender.modern().is_some_and(|modern| modern.qdisc == Qdisc::Fq) {
        return Some("pacing by the queue discipline fq, which the lab does not set up");
    }
    if config.receiver.ecn_echo == EcnEcho::PerPacket {
        return Some("ECN echoes per packet");
    }
    match config.sender.recovery() {
        Recovery::SMART => Some("SMART recovery"),
        Recovery::ELN => Some("ELN"),
        Recovery::ELN_RXMT => Some("ELN with retransmission"),
        Recovery::SACK if config.common.sack_eln.is_on() => Some("SACK coupled with ELN"),
        Recovery::RENO | Recovery::NEW_RENO | Recovery::SACK | Recovery::Rack if config.receiver.smart_acks.is_on() => {
            Some("SMART acknowledgments")
        }
        Recovery::RENO | Recovery::NEW_RENO | Recovery::SACK | Recovery::Rack => None,
    }
}

/// Returns the feature of a host's TCP that no kernel has, if any. A congestion control in `[lab]` replaces the
/// scenario's.
pub fn beyond(config: &TcpConfig, lab: &LabSpec) -> Option<&'static str> {
    if lab.congestion.is_some() {
        return beyond_kernels(&config.clone().with(|c| {
            if let Some(modern) = c.sender.modern_mut() {
                modern.congestion = ControlRule::RENO;
            }
        }));
    }
    beyond_kernels(config)
}

/// Returns the feature of a relay that no kernel has, if any.
pub fn beyond_relays(element: &AnyElement) -> Option<&'static str> {
    element.endpoints()?.into_iter().find_map(|tcp| beyond_kernels(tcp))
}

/// Returns the kernel's name of the endpoint's congestion control. The recoveries of the 1990s have Reno's windows.
///
/// # Errors
///
/// Returns the congestion control's title if no kernel has it.
pub fn congestion(config: &TcpConfig) -> Result<&'static str, &'static str> {
    match &config.sender {
        SenderConfig::Modern(modern) => {
            let algorithm = modern.congestion.algorithm();
            algorithm.kernel_name.ok_or(algorithm.title)
        }
        SenderConfig::Classic(_) => Ok("reno"),
    }
}

/// Returns the size of a socket's receive buffer in bytes; `None` if the kernel tunes it, up to the limit set by
/// [`always`].
pub fn receive_buffer(config: &TcpConfig) -> Option<u32> {
    (!config.receiver.tunes_itself()).then_some(config.receiver.receive_buffer)
}

/// Size from which a send buffer mostly contains large packets, which are nearly all data.
const LARGE_BUFFER: u32 = 1 << 20;

/// Returns the value for `SO_SNDBUF` in bytes; `None` if the kernel tunes it, up to the limit set by [`always`]. The
/// kernel doubles the value for its own overhead, which small packets use. Large packets do not; but the application
/// only writes when a third is free (`sk_stream_write_space`), so the buffer is five sixths full on average.
pub fn send_buffer(config: &TcpConfig) -> Option<u32> {
    let bytes = config.common.send_buffer;
    let asked = if bytes < LARGE_BUFFER { bytes } else { bytes / 5 * 3 };
    let tunes = config.sender.modern().is_some_and(|modern| modern.send_autotune == SendAutotune::Linux);
    (!tunes).then_some(asked)
}

/// Returns kernel parameters that the lab sets regardless of its settings: ECN, and the limits of buffer tuning.
pub fn always(config: &TcpConfig) -> Vec<(&'static str, String)> {
    let ecn = match config.common.ecn {
        EcnMode::Off => 0,
        EcnMode::On => 1,
        EcnMode::Passive => 2,
        EcnMode::Accurate => 3,
        EcnMode::AccurateAccept => 4,
        EcnMode::AccuratePassive => 5,
    };
    let mut values = vec![("net/ipv4/tcp_ecn", ecn.to_string())];
    if ecn > 2 {
        values.push(("net/ipv4/tcp_ecn_option", (config.common.ecn_option as u8).to_string()));
        values.push(("net/ipv4/tcp_ecn_option_beacon", config.common.ecn_option_beacon.to_string()));
    }
    if !config.common.ecn_fallback.is_on() {
        values.push(("net/ipv4/tcp_ecn_fallback", "0".to_owned()));
    }
    if config.receiver.tunes_itself() {
        // Minimum, initial and maximum size: the first two are the kernel's defaults.
        values.push(("net/ipv4/tcp_rmem", format!("4096 131072 {}", config.receiver.receive_buffer)));
    }
    if send_buffer(config).is_none() {
        values.push(("net/ipv4/tcp_wmem", format!("4096 16384 {}", config.common.send_buffer.max(16_384))));
    }
    values
}

/// Returns kernel parameters of the scenario's TCP.
pub fn sysctls(config: &TcpConfig) -> Vec<(&'static str, String)> {
    let switch = |on: bool| u8::from(on).to_string();
    let mut values = vec![
        ("net/ipv4/tcp_timestamps", switch(config.common.timestamps.is_on())),
        ("net/ipv4/tcp_window_scaling", switch(config.receiver.window_scale.is_some())),
        ("net/ipv4/tcp_slow_start_after_idle", switch(config.common.idle_restart.is_on())),
        ("net/ipv4/tcp_reordering", config.common.dupack_threshold.to_string()),
    ];
    let modern = config.sender.modern();
    let if_on = |on: bool, value: &str| if on { value.to_owned() } else { "0".to_owned() };
    // Recoveries of the 1990s have neither.
    values.push(("net/ipv4/tcp_frto", if_on(modern.is_some_and(|modern| modern.frto.is_on()), "2")));
    values.push(("net/ipv4/tcp_early_retrans", if_on(modern.is_some_and(|modern| modern.tlp.is_on()), "3")));
    if modern.is_some() {
        values.push(("net/ipv4/tcp_dsack", switch(config.receiver.dsack.is_on())));
        let compressed = if config.receiver.sack_compression == SackCompression::Linux { "44" } else { "0" };
        values.push(("net/ipv4/tcp_comp_sack_nr", compressed.to_owned()));
    }
    values
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::{Congestion, Ends, SCHEMES};
    use lasthop_scenario::Scenario;

    use super::*;

    fn sender(scheme: &str, set: &[(&str, &str)]) -> (TcpConfig, LabSpec) {
        let scenario = Scenario::builtin("farm-radio").unwrap().with_overrides(set).unwrap();
        let scheme = SCHEMES.iter().find(|known| known.name == scheme).unwrap();
        let network = scenario.network(scheme).unwrap();
        (TcpConfig::clone(&network.flows[0].tcp[0]), scenario.lab().clone())
    }

    #[test]
    fn each_scheme_has_its_congestion_control() {
        for scheme in &SCHEMES {
            let set: &[_] = if matches!(scheme.ends, Ends::Scenario) { &[("tcp.preset", "bsd-lite")] } else { &[] };
            let (config, lab) = sender(scheme.name, set);
            let expected = match scheme.ends {
                Ends::Scenario => Some("reno"),
                Ends::Modern(Some(Congestion::Cubic) | None) => Some("cubic"),
                Ends::Modern(Some(Congestion::Bbr)) => Some("bbr"),
                Ends::Modern(Some(Congestion::Bbr3)) => None,
            };
            assert_eq!(congestion(&config).ok(), expected, "{}", scheme.name);
            let third = scheme.ends == Ends::Modern(Some(Congestion::Bbr3));
            assert_eq!(beyond(&config, &lab).is_some_and(|what| what.contains("BBR")), third, "{}", scheme.name);
        }
        // Each congestion control of scenarios has a kernel's name, or is known to be unsupported by kernels: none is
        // replaced by another.
        for name in ["reno", "cubic", "cubic-rfc9438", "bbr", "bbr3", "bbr3-google", "prague"] {
            let (config, lab) = sender("E2E", &[("tcp.preset", "linux-6.18"), ("tcp.congestion", name)]);
            assert_eq!(congestion(&config).is_err(), beyond(&config, &lab).is_some(), "{name}");
            assert_eq!(
                congestion(&config).ok(),
                name.split('-').next().filter(|name| !["bbr3", "prague"].contains(name)),
                "{name}"
            );
        }
        // Naming a kernel's congestion control selects the kernel.
        let (config, lab) = sender("E2E-BBR3", &[("lab.congestion", "bbr")]);
        assert_eq!(beyond(&config, &lab), None);
    }

    #[test]
    fn a_modern_kernel_tunes_its_buffers_and_knows_its_probes() {
        let value = |config: &TcpConfig, key: &str| {
            let mut values = sysctls(config).into_iter().chain(always(config));
            values.find_map(|(known, value)| (known == format!("net/ipv4/{key}")).then_some(value))
        };
        let (config, _) = sender("E2E-CUBIC", &[]);
        assert_eq!(receive_buffer(&config), None);
        let keys = ["tcp_rmem", "tcp_frto", "tcp_early_retrans", "tcp_ecn", "tcp_dsack", "tcp_comp_sack_nr"];
        let values = keys.map(|key| value(&config, key).unwrap_or_default());
        assert_eq!(values, ["4096 131072 33554432", "2", "3", "2", "1", "44"]);
        let (fixed, _) = sender("E2E-CUBIC", &[("tcp.socket_buffer", "64 KiB"), ("tcp.tlp", "off")]);
        assert_eq!(receive_buffer(&fixed), Some(65_536));
        assert_eq!([value(&fixed, "tcp_rmem"), value(&fixed, "tcp_early_retrans")], [None, Some("0".to_owned())]);
        assert_eq!((send_buffer(&config), value(&config, "tcp_wmem")), (Some(2_516_580), None));
        assert_eq!(send_buffer(&fixed), Some(65_536));
        let (tuned, _) = sender("E2E-CUBIC", &[("tcp.send_autotune", "linux")]);
        assert_eq!((send_buffer(&tuned), value(&tuned, "tcp_wmem")), (None, Some("4096 16384 4194304".to_owned())));
        // Recoveries of the 1990s keep their earlier settings.
        let (old, _) = sender("E2E", &[("tcp.preset", "bsd-lite")]);
        assert_eq!(
            keys.map(|key| value(&old, key)),
            [None, Some("0".into()), Some("0".into()), Some("0".into()), None, None]
        );
    }
}
