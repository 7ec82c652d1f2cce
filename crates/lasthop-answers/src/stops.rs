//! Values of the sliders.

pub const LOSS: &[&str] = &[
    "0 %", "0.1 %", "0.2 %", "0.3 %", "0.5 %", "0.7 %", "1 %", "1.5 %", "2 %", "2.5 %", "3 %", "4 %", "5 %", "6 %",
    "7 %", "8 %", "10 %", "12 %", "15 %", "20 %", "25 %", "30 %",
];

pub const BURST: &[&str] = &["1", "2", "3", "4", "5", "6", "7", "8", "10", "12", "16", "20", "30", "50"];

pub const DELAY: &[&str] = &[
    "1 us", "10 us", "100 us", "200 us", "350 us", "500 us", "1 ms", "2 ms", "3 ms", "5 ms", "7 ms", "10 ms", "15 ms",
    "20 ms", "30 ms", "40 ms", "50 ms", "60 ms", "75 ms", "100 ms", "135 ms", "150 ms", "200 ms", "270 ms", "400 ms",
    "500 ms", "750 ms", "1 s",
];

pub const RATE: &[&str] = &[
    "16 kbps", "32 kbps", "64 kbps", "128 kbps", "256 kbps", "512 kbps", "1 Mbps", "1.5 Mbps", "2 Mbps", "3 Mbps",
    "5 Mbps", "7 Mbps", "10 Mbps", "20 Mbps", "50 Mbps", "100 Mbps", "200 Mbps", "500 Mbps", "1 Gbps",
];

pub const QUEUE: &[&str] = &[
    "1 packet",
    "2 packets",
    "3 packets",
    "4 packets",
    "5 packets",
    "6 packets",
    "8 packets",
    "10 packets",
    "15 packets",
    "20 packets",
    "30 packets",
    "50 packets",
    "75 packets",
    "100 packets",
    "200 packets",
    "500 packets",
    "1000 packets",
    "10000 packets",
    "100000 packets",
];

pub const QUEUE_BYTES: &[&str] = &[
    "4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB", "8 MiB",
];

pub const WINDOW: &[&str] = &[
    "2 KiB", "4 KiB", "5000 B", "8 KiB", "12 KiB", "16 KiB", "24 KiB", "32 KiB", "48 KiB", "64 KiB", "96 KiB",
    "128 KiB", "192 KiB", "256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB",
];

pub const SIZE: &[&str] = &[
    "32 KiB", "64 KiB", "128 KiB", "256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB", "8 MiB", "16 MiB", "32 MiB",
    "64 MiB",
];

pub const COUNT: &[&str] = &["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000", "2000", "5000", "10000"];

pub const LIMIT: &[&str] =
    &["10 s", "20 s", "50 s", "100 s", "200 s", "300 s", "500 s", "1000 s", "1500 s", "2000 s", "3600 s"];

pub const RUNS: &[&str] = &["1", "2", "3", "5", "10", "20", "30", "50", "100", "200"];

pub const SEED: &[&str] = &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];
