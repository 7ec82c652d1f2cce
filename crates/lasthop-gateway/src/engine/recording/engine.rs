//! An engine with an optional recorder.

use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;

use super::recorder::Recorder;
use crate::configuration::Gateway;
use crate::engine::counters::Counters;
use crate::engine::rules::EngineConfig;
use crate::engine::{Engine, Injection, Offloaded, Verdict};
use crate::settings;
use lasthop_daemon::ab::RuleArms;

/// Engine with an optional recording of its inputs and decisions.
pub struct RecordedEngine {
    engine: Engine,
    recorder: Option<Recorder>,
    /// MTU by port as recorded last; repeated values are not recorded.
    mtu: [Option<u16>; 2],
    /// Latest time passed in.
    now: Instant,
}

impl RecordedEngine {
    /// Creates an engine with the configuration and the seed that `recorder` was started with.
    pub fn new(gateway: &Gateway, seed: u64, recorder: Option<Recorder>) -> Self {
        let engine = Engine::new(settings::engine(gateway), seed);
        Self { engine, recorder, mtu: [None; 2], now: Instant::ZERO }
    }

    /// Calls [`Engine::reconfigure`]; `text` is the text of the configuration file.
    pub fn reconfigure(&mut self, now: Instant, gateway: &Gateway, text: &str, out: &mut Vec<Injection>) {
        let before = out.len();
        self.engine.reconfigure(now, settings::engine(gateway), out);
        self.event(now, &out[before..], || format!("configure\n{text}"));
    }

    /// Stops treating packets, and sends those that are held back.
    pub fn release(&mut self, now: Instant, out: &mut Vec<Injection>) {
        let before = out.len();
        self.engine.reconfigure(now, EngineConfig::new(Vec::new()), out);
        self.event(now, &out[before..], || "release".to_owned());
    }

    /// Calls [`Engine::set_mtu`].
    pub fn set_mtu(&mut self, port: Port, mtu: u16) {
        let known = self.mtu[usize::from(port.0 & 1)].replace(mtu);
        self.engine.set_mtu(port, mtu);
        if known != Some(mtu) {
            let name = if port == Port::WIRED { "wired" } else { "wireless" };
            self.event(self.now, &[], || format!("mtu {name} {mtu}"));
        }
    }

    /// Calls [`Engine::handle_packet`].
    pub fn handle_packet(
        &mut self,
        now: Instant,
        port: Port,
        packet: &[u8],
        offloaded: Offloaded,
        out: &mut Vec<Injection>,
    ) -> Verdict {
        let before = out.len();
        let verdict = self.engine.handle_packet(now, port, packet, offloaded, out);
        self.now = now;
        if let Some(recorder) = &mut self.recorder {
            recorder.packet(now, port, packet, offloaded, &verdict, &out[before..]);
        }
        verdict
    }

    /// Calls [`Engine::leaves_alone`].
    pub const fn leaves_alone(&self) -> bool {
        self.engine.leaves_alone()
    }

    /// Calls [`Engine::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant, out: &mut Vec<Injection>) {
        let before = out.len();
        self.engine.handle_timeout(now, out);
        self.event(now, &out[before..], || "timeout".to_owned());
    }

    fn event(&mut self, now: Instant, sent: &[Injection], text: impl FnOnce() -> String) {
        self.now = now;
        if let Some(recorder) = &mut self.recorder {
            recorder.event(now, &text(), sent);
        }
    }

    /// Calls [`Engine::poll_deadline`].
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.engine.poll_deadline()
    }

    /// Calls [`Engine::counters`].
    pub fn counters(&mut self) -> Counters {
        self.engine.counters()
    }

    /// Calls [`Engine::arms`].
    pub fn arms(&mut self) -> Vec<RuleArms> {
        self.engine.arms()
    }
}
