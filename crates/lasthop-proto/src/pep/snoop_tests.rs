use super::super::rig::{Loss, Outcome, transfer};
use super::*;
use crate::tcp::config::{Preset, Switch, TcpConfig};
use LocalDetection::{DuplicateAcks, Smart};
use TcpAwareness::{Aware, Unaware};
extern crate std;

#[test]
fn look() {
    for (name, buffer, delay) in [("LAN8", 8192, 3), ("LAN32", 32768, 3), ("WAN32", 32768, 65)] {
        for detection in [DuplicateAcks, Smart] {
            for awareness in [Unaware, Aware] {
                for burst in [1, 2, 4, 6] {
                    let mut all: std::vec::Vec<Outcome> = std::vec![];
                    for seed in 0..10 {
                        let mut tcp = TcpConfig::preset(Preset::BsdLite);
                        (tcp.send_buffer, tcp.receive_buffer) = (buffer, buffer);
                        if detection == Smart { tcp.smart_acks = Switch::On; }
                        let base = Snoop::new(SnoopConfig::new(detection, awareness));
                        all.push(transfer(base, tcp, Duration::from_millis(delay), Loss { mean_bytes: 65536.0, burst }, 8_000_000, seed));
                    }
                    let n = all.len() as f64;
                    let sum = |f: &dyn Fn(&Outcome) -> f64| all.iter().map(f).sum::<f64>() / n;
                    std::println!("{name} {detection:?} {awareness:?} b{burst}: {:.2} Mbps to {:.1} fr {:.1} src {:.1} lost {:.0} local {:?} sup {:.0} redundant {:.1}",
                        sum(&|o| o.mbps), sum(&|o| o.timeouts as f64), sum(&|o| o.fast_retransmits as f64), sum(&|o| o.source_resends as f64), sum(&|o| o.lost as f64),
                        all[0].local, sum(&|o| o.suppressed as f64), sum(&|o| o.redundant as f64));
                }
            }
        }
    }
}
