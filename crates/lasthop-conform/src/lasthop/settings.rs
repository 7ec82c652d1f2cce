//! Variables of hosts as settings of lasthop's TCP.

use lasthop_proto::tcp::config::{
    ClassicRecovery, Clock, ControlRule, DelayedAck, EcnMode, EcnOption, Recovery, SenderConfig, Switch, TcpConfig,
};
use lasthop_proto::time::Duration;

use super::Model;
use crate::stack::Host;

/// Maximum size of buffers, in bytes.
const MOST_BUFFER: u32 = 1 << 30;

/// Bytes of the timestamps option, padded.
const TIMESTAMPS: u32 = 12;

/// FreeBSD's variable for ECN, which has no values for accurate ECN here.
const FREEBSD_ECN: &str = "net.inet.tcp.ecn.enable";

/// Variables without effect on what scripts observe, or whose effect lasthop has under every value.
const IGNORED: [&str; 43] = [
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fastopen_key",
    "net.ipv4.tcp_fastopen_blackhole_timeout_sec",
    "net.ipv4.tcp_fack",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_tso_rtt_log",
    "net.ipv4.tcp_pacing_ss_ratio",
    "net.ipv4.tcp_pacing_ca_ratio",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_invalid_ratelimit",
    "net.ipv4.tcp_challenge_ack_limit",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_fin_timeout",
    "net.core.wmem_max",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.rmem_default",
    "net.inet.tcp.hostcache.purgenow",
    "net.inet.tcp.hostcache.enable",
    "net.inet.tcp.rexmit_slop",
    "net.inet.tcp.fastopen.client_enable",
    "net.inet.tcp.fastopen.server_enable",
    "net.inet.tcp.syncookies",
    "net.inet.tcp.icmp_may_rst",
    "net.inet.tcp.sendbuf_auto",
    "net.inet.tcp.recvbuf_auto",
    "net.inet.tcp.tso",
    "net.inet.tcp.log_debug",
    "net.inet.tcp.log_in_vain",
    "net.inet.tcp.msl",
    "net.inet.tcp.functions_default",
    "net.inet.tcp.udp_tunneling_overhead",
    "net.inet.tcp.keepintvl",
    "net.inet.tcp.keepidle",
    "net.inet.tcp.keepcnt",
    "net.inet.tcp.ecn.maxretries",
];

/// Variables of which one value is what lasthop does.
const FIXED: [(&str, &[&str]); 17] = [
    ("net.ipv4.tcp_sack", &["1"]),
    ("net.ipv4.tcp_recovery", &["1"]),
    ("net.ipv4.tcp_reordering", &["3"]),
    ("net.ipv4.tcp_mtu_probing", &["0"]),
    ("net.ipv4.tcp_thin_linear_timeouts", &["0"]),
    ("net.ipv4.tcp_stdurg", &["0"]),
    ("net.ipv4.tcp_retrans_collapse", &["0", "1"]),
    ("net.ipv4.tcp_abort_on_overflow", &["0"]),
    ("net.inet.tcp.blackhole", &["0"]),
    ("net.inet.tcp.insecure_rst", &["0"]),
    ("net.inet.tcp.insecure_syn", &["0"]),
    ("net.inet.tcp.syncookies_only", &["0"]),
    ("net.inet.tcp.rexmit_drop_options", &["0"]),
    ("net.inet.tcp.udp_tunneling_port", &["0"]),
    ("net.inet.tcp.path_mtu_discovery", &["1"]),
    ("net.inet.tcp.keepinit", &["75000"]),
    ("net.inet.tcp.drop_synfin", &["0"]),
];

/// Returns the reason why a variable cannot have a value.
pub(super) fn lacks(model: &Model, name: &str, value: &str) -> Option<String> {
    let is_unknown = match FIXED.iter().find(|(fixed, _)| *fixed == name) {
        Some((_, values)) => !values.contains(&value),
        None => !IGNORED.contains(&name) && apply(&mut base(model), &Host::default(), name, value).is_none(),
    };
    is_unknown.then(|| match name {
        "qdisc" => format!("queueing discipline {value}"),
        _ => format!("{name}={value}"),
    })
}

fn base(model: &Model) -> TcpConfig {
    TcpConfig::preset(model.preset).with(|config| {
        // A script's device takes segments at once.
        if let Some(modern) = config.sender.modern_mut() {
            modern.small_queues = Switch::Off;
        }
        if let (Some(hz), Clock::Jiffies { jiffy, .. }) = (model.hz, &mut config.common.clock) {
            *jiffy = Duration::from_nanos(1_000_000_000 / u64::from(hz.max(1)));
        }
    })
}

/// Returns the bytes of options and payload that a packet of the host carries.
pub(super) fn path_mss(host: &Host) -> u32 {
    host.mtu.saturating_sub(if host.is_ipv6 { 60 } else { 40 })
}

/// Returns the limit of unsent data that the host sets.
pub(super) fn unsent_limit(host: &Host) -> Option<u32> {
    let value = host.settings.get("net.ipv4.tcp_notsent_lowat")?;
    value.parse().ok().filter(|bytes| *bytes != u32::MAX)
}

/// Returns the settings of connections of `host`.
pub(super) fn config(model: &Model, host: &Host) -> TcpConfig {
    let mut config = base(model);
    config.common.mss = path_mss(host);
    for (name, value) in &host.settings {
        // What does not apply was refused before.
        let _ = apply(&mut config, host, name, value);
    }
    // The key has the payload beside timestamps.
    if config.common.timestamps.is_on() {
        config.common.mss = config.common.mss.saturating_sub(TIMESTAMPS).max(1);
    }
    config
}

/// Returns the value of the variable for the option of accurate ECN, which also applies to living connections.
pub(super) fn ecn_option(name: &str, value: &str) -> Option<EcnOption> {
    match (name, value) {
        ("net.ipv4.tcp_ecn_option", "0") => Some(EcnOption::Off),
        ("net.ipv4.tcp_ecn_option", "1") => Some(EcnOption::Minimum),
        ("net.ipv4.tcp_ecn_option", "2") => Some(EcnOption::Full),
        ("net.ipv4.tcp_ecn_option", "3") => Some(EcnOption::Persistent),
        _ => None,
    }
}

fn switch(value: &str) -> Option<Switch> {
    match value {
        "0" => Some(Switch::Off),
        "1" | "2" | "3" | "4" => Some(Switch::On),
        _ => None,
    }
}

/// Returns the number `at` of a variable such as `4096 131072 6291456`.
fn size(value: &str, at: usize) -> Option<u32> {
    let number: u64 = value.split_whitespace().nth(at)?.parse().ok()?;
    u32::try_from(number).ok().map(|number| number.min(MOST_BUFFER))
}

/// Changes the settings by one variable; `None` if the variable or value is unknown.
fn apply(config: &mut TcpConfig, host: &Host, name: &str, value: &str) -> Option<()> {
    match name {
        "net.ipv4.tcp_rmem" => config.receiver.receive_buffer = size(value, 2)?.max(2048),
        "net.ipv4.tcp_wmem" => config.common.send_buffer = size(value, 1)?.max(2048),
        "net.ipv4.tcp_timestamps" => config.common.timestamps = switch(value)?,
        "net.ipv4.tcp_window_scaling" => {
            if !switch(value)?.is_on() {
                config.receiver.window_scale = None;
            }
        }
        // A property of sockets.
        "net.ipv4.tcp_notsent_lowat" => {
            value.parse::<i64>().ok()?;
        }
        "net.ipv4.tcp_dsack" => config.receiver.dsack = switch(value)?,
        "net.ipv4.tcp_slow_start_after_idle" => config.common.idle_restart = switch(value)?,
        "net.ipv4.tcp_early_retrans" => config.sender.modern_mut()?.tlp = switch(value)?,
        "net.ipv4.tcp_frto" => config.sender.modern_mut()?.frto = switch(value)?,
        "net.ipv4.tcp_ecn" | FREEBSD_ECN => {
            config.common.ecn = match value {
                "0" => EcnMode::Off,
                "1" => EcnMode::On,
                "2" => EcnMode::Passive,
                "3" if name != FREEBSD_ECN => EcnMode::Accurate,
                "4" if name != FREEBSD_ECN => EcnMode::AccurateAccept,
                "5" if name != FREEBSD_ECN => EcnMode::AccuratePassive,
                _ => return None,
            }
        }
        "net.ipv4.tcp_ecn_option" => config.common.ecn_option = ecn_option(name, value)?,
        "net.ipv4.tcp_ecn_option_beacon" => config.common.ecn_option_beacon = value.parse().ok()?,
        "net.ipv4.tcp_ecn_fallback" => config.common.ecn_fallback = switch(value)?,
        "net.ipv4.tcp_congestion_control" => {
            let rule = ControlRule::all().find(|rule| rule.algorithm().name == value)?;
            config.sender.modern_mut()?.congestion = match rule.hystart() {
                Some(_) => config.sender.modern()?.congestion.hystart().map_or(rule, |start| rule.with_hystart(start)),
                None => rule,
            };
        }
        "module.tcp_cubic.hystart_detect" if value == "3" => {}
        "net.inet.tcp.rfc1323" => {
            config.common.timestamps = switch(value)?;
            if !switch(value)?.is_on() {
                config.receiver.window_scale = None;
            }
        }
        "net.inet.tcp.sack.enable" => {
            if !switch(value)?.is_on() {
                let SenderConfig::Classic(classic) = &mut config.sender else { return None };
                classic.recovery = ClassicRecovery::NewReno;
            } else if config.sender.recovery() == Recovery::NEW_RENO {
                return None;
            } else {
                // FreeBSD's SACK includes RFC 2883, and uses all space for blocks.
                config.receiver.dsack = Switch::On;
                config.receiver.sack_blocks = 4;
            }
        }
        // FreeBSD rounds the buffer up to whole segments.
        "net.inet.tcp.recvspace" => {
            config.receiver.receive_buffer = size(value, 0)?.max(2048).next_multiple_of(path_mss(host).max(1));
        }
        "net.inet.tcp.sendspace" => config.common.send_buffer = size(value, 0)?.max(2048),
        "kern.ipc.maxsockbuf" => {
            let most: u64 = value.parse().ok()?;
            let scale = (0..14).find(|shift| 65_535_u64 << shift >= most).unwrap_or(14);
            config.receiver.window_scale = config.receiver.window_scale.map(|_| scale);
        }
        "net.inet.tcp.rexmit_initial" => {
            config.common.rto_initial = Duration::from_millis(value.parse::<u32>().ok()?.into());
        }
        "net.inet.tcp.delacktime" => {
            let timeout = Duration::from_millis(value.parse::<u32>().ok()?.into());
            config.receiver.delayed_ack = DelayedAck::EverySecond { timeout };
        }
        _ => return None,
    }
    Some(())
}
