//! The scenarios of `scenarios/`, built in.

/// Names and texts of the scenarios.
pub(crate) const BUILTINS: [(&str, &str); 35] = [
    ("wavelan-lan", include_str!("../../../scenarios/wavelan-lan.toml")),
    ("wavelan-lan-8k", include_str!("../../../scenarios/wavelan-lan-8k.toml")),
    ("wavelan-wan", include_str!("../../../scenarios/wavelan-wan.toml")),
    ("peer-transfer", include_str!("../../../scenarios/peer-transfer.toml")),
    ("many-flows", include_str!("../../../scenarios/many-flows.toml")),
    ("multilayer-lan", include_str!("../../../scenarios/multilayer-lan.toml")),
    ("multilayer-wan", include_str!("../../../scenarios/multilayer-wan.toml")),
    ("multilayer-udp-lan", include_str!("../../../scenarios/multilayer-udp-lan.toml")),
    ("multilayer-udp-wan", include_str!("../../../scenarios/multilayer-udp-wan.toml")),
    ("multilayer-web-lan", include_str!("../../../scenarios/multilayer-web-lan.toml")),
    ("multilayer-web-wan", include_str!("../../../scenarios/multilayer-web-wan.toml")),
    ("multilayer-web-udp-lan", include_str!("../../../scenarios/multilayer-web-udp-lan.toml")),
    ("multilayer-web-udp-wan", include_str!("../../../scenarios/multilayer-web-udp-wan.toml")),
    ("satellite", include_str!("../../../scenarios/satellite.toml")),
    ("farm-radio", include_str!("../../../scenarios/farm-radio.toml")),
    ("ship-satellite", include_str!("../../../scenarios/ship-satellite.toml")),
    ("call-radio", include_str!("../../../scenarios/call-radio.toml")),
    ("full-wifi", include_str!("../../../scenarios/full-wifi.toml")),
    ("home-wifi-1", include_str!("../../../scenarios/home-wifi-1.toml")),
    ("home-wifi-5", include_str!("../../../scenarios/home-wifi-5.toml")),
    ("home-wifi-20", include_str!("../../../scenarios/home-wifi-20.toml")),
    ("train-lte", include_str!("../../../scenarios/train-lte.toml")),
    ("5g-fwa", include_str!("../../../scenarios/5g-fwa.toml")),
    ("thin-return", include_str!("../../../scenarios/thin-return.toml")),
    ("satellite-handover", include_str!("../../../scenarios/satellite-handover.toml")),
    ("starlink", include_str!("../../../scenarios/starlink.toml")),
    ("satellite-rain", include_str!("../../../scenarios/satellite-rain.toml")),
    ("l4s-lossy", include_str!("../../../scenarios/l4s-lossy.toml")),
    ("van", include_str!("../../../scenarios/van.toml")),
    ("ship-coast", include_str!("../../../scenarios/ship-coast.toml")),
    ("two-dsl", include_str!("../../../scenarios/two-dsl.toml")),
    ("moving-host", include_str!("../../../scenarios/moving-host.toml")),
    ("mixed-losses", include_str!("../../../scenarios/mixed-losses.toml")),
    ("packet-radio-chain", include_str!("../../../scenarios/packet-radio-chain.toml")),
    ("atlas-link", include_str!("../../../scenarios/atlas-link.toml")),
];

/// Returns the names of the built-in scenarios.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name)
}
