//! Tests that every key of `[tcp]` reaches the endpoints.

use lasthop_proto::scheme::SCHEMES;
use lasthop_proto::tcp::config::{
    ClassicConfig, CommonConfig, DelayedAck, EcnMode, ModernConfig, ReceiveAutotune, ReceiverConfig, SackCompression,
    SenderConfig, Switch, TcpConfig,
};
use lasthop_scenario::Scenario;

/// Defines a value for each field of a part of `TcpConfig` that no preset has. A new field does not compile until it is
/// added here.
macro_rules! keys {
    ($($type:ident { $($field:ident: $key:literal = $value:literal),* $(,)? })*) => {
        const KEYS: &[(&str, &str, &str, &str)] = &[$($((stringify!($type), stringify!($field), $key, $value),)*)*];
        $(impl Fields for $type {
            fn fields(&self) -> Vec<(&'static str, String)> {
                let Self { $($field,)* } = self;
                vec![$((stringify!($field), format!("{:?}", $field))),*]
            }
        })*
    };
}

/// Part of a configuration.
trait Fields {
    fn fields(&self) -> Vec<(&'static str, String)>;
}

keys! {
    CommonConfig {
        mss: "mss" = "777",
        send_buffer: "send_buffer" = "54321 B",
        timestamps: "timestamps" = "on",
        paws: "paws" = "linux",
        headers: "headers" = "ns2-acks-only",
        sack_eln: "sack_eln" = "on",
        clock: "slow_tick" = "123 ms",
        tick_phase: "tick_phase" = "7 ms",
        rtt_rule: "rtt_rule" = "rfc6298",
        rtt_granularity: "rtt_granularity" = "7 ms",
        rto_initial: "rto_initial" = "7 s",
        rto_min: "rto_min" = "7 ms",
        rto_max: "rto_max" = "77 s",
        max_backoff: "max_backoff" = "7",
        max_retries: "max_retries" = "7",
        ecn: "ecn" = "passive",
        ecn_option: "ecn_option" = "off",
        ecn_option_beacon: "ecn_option_beacon" = "7",
        ecn_fallback: "ecn_fallback" = "off",
        ack_congestion: "ack_congestion" = "rfc5690",
        initial_window: "initial_window" = "7",
        initial_ssthresh: "initial_ssthresh" = "7 KiB",
        max_cwnd: "max_cwnd" = "77 KiB",
        dupack_threshold: "dupack_threshold" = "7",
        idle_restart: "idle_restart" = "off",
        nagle: "nagle" = "off",
        handshake_ack: "handshake_ack" = "own",
        window_probe: "window_probe" = "empty",
        time_wait: "time_wait" = "7 s",
    }
    ReceiverConfig {
        receive_buffer: "receive_buffer" = "54321 B",
        window_scale: "window_scale" = "3",
        sack_blocks: "sack_blocks" = "2",
        delayed_ack: "delayed_ack" = "every-second",
        sack_compression: "sack_compression" = "linux",
        receive_autotune: "receive_autotune" = "linux",
        dsack: "dsack" = "on",
        ack_before_read: "ack_before_read" = "off",
        smart_acks: "smart_acks" = "on",
        ecn_echo: "ecn_echo" = "per-packet",
        gro: "gro" = "on",
        gro_flush_timeout: "gro_flush_timeout" = "7 us",
    }
    ClassicConfig {
        recovery: "recovery" = "eln-rxmt",
        sack_algorithm: "sack_algorithm" = "rfc6675",
        limited_transmit: "limited_transmit" = "on",
        growth: "growth" = "rfc5681",
        deflation: "deflation" = "always",
        header_prediction: "header_prediction" = "off",
        impure_duplicates: "impure_duplicates" = "ignored",
        recovery_guard: "recovery_guard" = "careful",
        partial_ack_timer: "partial_ack_timer" = "impatient",
        partial_deflation: "partial_deflation" = "by-acked",
        eln_inflation: "eln_inflation" = "off",
        recovery_burst: "recovery_burst" = "7",
        smart_rtt: "smart_rtt" = "7 ms",
    }
    ModernConfig {
        send_autotune: "send_autotune" = "linux",
        congestion: "congestion" = "cubic",
        window_reduction: "window_reduction" = "linux",
        undo: "undo" = "off",
        frto: "frto" = "off",
        tlp: "tlp" = "off",
        small_queues: "small_queues" = "on",
        send_quantum: "send_quantum" = "7",
        qdisc: "qdisc" = "fq",
        tso: "tso" = "on",
        window_edge: "window_edge" = "cut",
        push: "push" = "bursts",
    }
}

fn config(values: &[(String, &str)]) -> TcpConfig {
    let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(values).unwrap();
    let network = scenario.network(&SCHEMES[0]).unwrap();
    TcpConfig::clone(&network.flows[0].tcp[0])
}

fn fields(config: &TcpConfig) -> Vec<(&'static str, String)> {
    let sender = match &config.sender {
        SenderConfig::Classic(classic) => classic.fields(),
        SenderConfig::Modern(modern) => modern.fields(),
    };
    [config.common.fields(), config.receiver.fields(), sender].concat()
}

#[test]
fn each_key_changes_its_own_value_and_no_other() {
    // The scenario's send and receive buffer are one key, which excludes a key for each.
    let separate = ("tcp".to_owned(), "{ preset = \"bsd-lite\" }");
    // Parts of Linux's receiver need it.
    let linux = ("tcp".to_owned(), "{ preset = \"bsd-lite\", delayed_ack = \"linux\", ack_before_read = \"off\" }");
    // Acknowledgment congestion control needs the receiver that it controls.
    let every_second = ("tcp".to_owned(), "{ preset = \"bsd-lite\", delayed_ack = \"every-second\" }");
    // The modern sender's keys are not part of another endpoint.
    let modern = ("tcp".to_owned(), "{ preset = \"bsd-lite\", recovery = \"rack\" }");
    for (part, field, key, value) in KEYS {
        let tcp = match *key {
            "sack_compression" | "receive_autotune" | "gro" => &linux,
            "ack_congestion" => &every_second,
            _ if *part == "ModernConfig" => &modern,
            _ => &separate,
        };
        let base = fields(&config(std::slice::from_ref(tcp)));
        let set = fields(&config(&[tcp.clone(), (format!("tcp.{key}"), value)]));
        let changed: Vec<_> = base.iter().zip(&set).filter(|(base, set)| base != set).map(|(base, _)| base.0).collect();
        assert_eq!(changed, [*field], "{key} = {value}");
    }
}

#[test]
fn numbers_without_a_limit() {
    for (key, largest) in [("max_cwnd", u32::MAX), ("max_retries", u32::MAX), ("recovery_burst", u32::MAX)] {
        let config = config(&[(format!("tcp.{key}"), "unlimited")]);
        let value = match key {
            "max_cwnd" => config.common.max_cwnd,
            "max_retries" => config.common.max_retries,
            _ => config.sender.classic().unwrap().recovery_burst,
        };
        assert_eq!(value, largest, "{key}");
    }
    assert_eq!(config(&[("tcp.initial_ssthresh".to_owned(), "unlimited")]).common.initial_ssthresh, Some(u32::MAX));
    assert_eq!(config(&[("tcp.initial_ssthresh".to_owned(), "send-buffer")]).common.initial_ssthresh, None);
}

#[test]
fn both_forms_of_a_switch_are_read() {
    for on in ["on", "true"] {
        assert!(config(&[("tcp.timestamps".to_owned(), on)]).common.timestamps.is_on());
    }
}

/// A Linux receiver is one choice with dependent parts.
#[test]
fn parts_of_a_linux_receiver_need_it() {
    let of = |tcp: &str| {
        let scenario = Scenario::builtin("wavelan-lan").unwrap();
        scenario.with_overrides(&[("tcp", tcp)]).and_then(|scenario| scenario.network(&SCHEMES[0]))
    };
    let linux = "{ preset = \"rfc\", delayed_ack = \"linux\", sack_compression = \"linux\", receive_autotune = \"linux\", dsack = true, \
                 ecn = \"on\" }";
    let network = of(linux).unwrap();
    let tcp = &network.flows[0].tcp[1];
    assert_eq!((tcp.receiver.delayed_ack, tcp.receiver.sack_compression), (DelayedAck::Linux, SackCompression::Linux));
    assert_eq!(
        (tcp.receiver.receive_autotune, tcp.common.ecn, tcp.receiver.dsack),
        (ReceiveAutotune::Linux, EcnMode::On, Switch::On)
    );
    // Another receiver over a preset disables its parts automatically.
    let network = of("{ preset = \"linux-6.18\", delayed_ack = \"off\" }").unwrap();
    let tcp = &network.flows[0].tcp[1];
    assert_eq!(
        (tcp.receiver.sack_compression, tcp.receiver.receive_autotune),
        (SackCompression::Off, ReceiveAutotune::Off)
    );
    for (tcp, expected) in [
        (
            "{ preset = \"rfc\", sack_compression = \"linux\" }",
            "sack_compression = \"linux\" requires delayed_ack = \"linux\"",
        ),
        (
            "{ preset = \"rfc\", receive_autotune = \"linux\" }",
            "receive_autotune = \"linux\" requires delayed_ack = \"linux\"",
        ),
        ("{ preset = \"rfc\", gro = true }", "gro = \"on\" requires delayed_ack = \"linux\""),
        ("{ preset = \"bsd-lite\", delayed_ack = \"linux\" }", "exclude each other"),
        ("{ preset = \"rfc\", delayed_ack = \"linux\", delayed_ack_timeout = \"40 ms\" }", "requires delayed_ack = "),
        ("{ preset = \"linux-6.18\", ack_congestion = \"rfc5690\" }", "requires delayed_ack = \"every-second\""),
        ("{ preset = \"rfc\", ack_congestion = \"on\" }", "give \"off\" or \"rfc5690\""),
        ("{ ecn = \"yes\" }", "give one of \"off\", \"passive\", \"on\""),
    ] {
        let error = of(tcp).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
