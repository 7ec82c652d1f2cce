//! An engine that is recorded, or not.

use lasthop_proto::node::Port;
use lasthop_proto::time::Instant;

use super::recorder::Recorder;
use crate::configuration::Gateway;
use crate::engine::counters::Counters;
use crate::engine::rules::EngineConfig;
use crate::engine::{Engine, Injection, Offloaded, Verdict};
use crate::settings;
use lasthop_daemon::ab::RuleArms;

/// An engine, and a recording of all that it is told, if one is wanted.
pub struct RecordedEngine {
    engine: Engine,
    recorder: Option<Recorder>,
    /// As told last: the same again is not recorded.
    mtu: [Option<u16>; 2],
    /// The latest time told.
    now: Instant,
}

impl RecordedEngine {
    /// A new one with the configuration and the seed that `recorder` was started with.
    pub fn new(gateway: &Gateway, seed: u64, recorder: Option<Recorder>) -> Self {
        let engine = Engine::new(settings::engine(gateway), seed);
        Self { engine, recorder, mtu: [None; 2], now: Instant::ZERO }
    }

    /// [`Engine::reconfigure`], to the configuration of which `text` is the file.
    pub fn reconfigure(&mut self, now: Instant, gateway: &Gateway, text: &str, out: &mut Vec<Injection>) {
        let before = out.len();
        self.engine.reconfigure(now, settings::engine(gateway), out);
        self.event(now, &out[before..], || format!("configure\n{text}"));
    }

    /// Treats nothing from now on, and sends what is held back.
    pub fn release(&mut self, now: Instant, out: &mut Vec<Injection>) {
        let before = out.len();
        self.engine.reconfigure(now, EngineConfig::new(Vec::new()), out);
        self.event(now, &out[before..], || "release".to_owned());
    }

    /// [`Engine::set_mtu`]
    pub fn set_mtu(&mut self, port: Port, mtu: u16) {
        let known = self.mtu[usize::from(port.0 & 1)].replace(mtu);
        self.engine.set_mtu(port, mtu);
        if known != Some(mtu) {
            let name = if port == Port::WIRED { "wired" } else { "wireless" };
            self.event(self.now, &[], || format!("mtu {name} {mtu}"));
        }
    }

    /// [`Engine::handle_packet`]
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

    /// [`Engine::leaves_alone`]
    pub const fn leaves_alone(&self) -> bool {
        self.engine.leaves_alone()
    }

    /// [`Engine::handle_timeout`]
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

    /// [`Engine::poll_deadline`]
    pub fn poll_deadline(&self) -> Option<Instant> {
        self.engine.poll_deadline()
    }

    /// [`Engine::counters`]
    pub fn counters(&mut self) -> Counters {
        self.engine.counters()
    }

    /// [`Engine::arms`]
    pub fn arms(&mut self) -> Vec<RuleArms> {
        self.engine.arms()
    }
}
