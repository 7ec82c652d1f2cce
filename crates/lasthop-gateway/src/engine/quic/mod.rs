//! Connections of QUIC under rules with [`super::rules::Mode::Quic`], in a table separate from that of TCP.
//!
//! A connection is treated if its beginning was seen: a datagram that starts like a QUIC Initial packet, and a reply
//! with a long header. Everything else passes, such as datagrams of a connection that has migrated.
//!
//! | module | contents |
//! |---|---|
//! | [`flow`] | one connection |
//! | [`treatment`] | the mechanism of a rule, and the bytes of its datagrams |

pub(super) mod flow;
pub(super) mod treatment;

use lasthop_daemon::ab::Arm;
use lasthop_daemon::flows::{Client, Key, side};
use lasthop_proto::node::Port;
use lasthop_proto::packet::{FlowId, HeaderForm};
use lasthop_proto::time::Instant;
use lasthop_wire::Datagram;

use self::flow::{Progress, QuicFlow};
use self::treatment::Arrived;
use super::offloaded::Offloaded;
use super::verdict::{Injection, Verdict};
use super::{Engine, SWEEP_ON, arm, quic_limit};

/// Largest packet that is not a super-segment if the MTU is unknown: Ethernet's MTU.
const USUAL_MTU: usize = 1500;

impl Engine {
    /// Processes a UDP datagram that arrived at `port`.
    pub(super) fn handle_datagram(
        &mut self,
        now: Instant,
        port: Port,
        (packet, datagram): (&[u8], &Datagram),
        offloaded: Offloaded,
        out: &mut Vec<Injection>,
    ) -> Verdict {
        let Some(id) = self.find_or_admit_datagram(now, port, datagram, out) else {
            self.unmatched += 1;
            return Verdict::Accept;
        };
        let mtu = self.mtu.into_iter().flatten().max().unwrap_or(0).max(USUAL_MTU);
        let Some(flow) = self.quic_flows.get_mut(id) else { return Verdict::Accept };
        let treatment = &mut self.treatments[flow.rule];
        treatment.on_packet(port, datagram.total_len());
        let from = side(&flow.first, &datagram.route);
        if flow.port_of(from) != port {
            // The datagram was routed back, or the addresses are spoofed.
            return Verdict::Accept;
        }
        flow.seen = now;
        let payload = datagram.payload(packet);
        let is_aggregate = offloaded.size.is_some() || datagram.total_len() > mtu;
        let before = flow.progress;
        let begins = flow.take(port, payload, is_aggregate);
        if begins {
            treatment.on_flow();
        }
        if flow.progress != before
            && let (Some(quic), Progress::Passing(why)) = (&mut treatment.quic, flow.progress)
        {
            quic.counters.count(why);
        }
        if port == Port::WIRED {
            flow.meter.on_data(now, payload.len());
        }
        let (rule, is_treated) = (flow.rule, flow.progress == Progress::Established);
        let (arm, standing, was_treated) = (flow.arm, flow.standing(), before == Progress::Established);
        self.quic_flows.touch(id, standing);
        if standing != before.standing() {
            while let Some(old) = self.quic_flows.crowded_out(id) {
                self.evict_datagrams(now, old, out);
            }
        }
        let Some(quic) = &mut self.treatments[rule].quic else { return Verdict::Accept };
        if !is_treated {
            if was_treated {
                quic.remove(now, id, arm, out);
            }
            return Verdict::Accept;
        }
        let form = HeaderForm::of(payload);
        let arrived = Arrived { now, port, id, from, form, packet, datagram, checksum: offloaded.checksum };
        quic.treat(&arrived, arm, out)
    }

    /// Returns the connection of a datagram, and admits it if it is new. `None` if no rule matches.
    fn find_or_admit_datagram(
        &mut self,
        now: Instant,
        port: Port,
        datagram: &Datagram,
        out: &mut Vec<Injection>,
    ) -> Option<FlowId> {
        let key = Key::of(&datagram.route);
        if let Some(id) = self.quic_flows.find(&key) {
            let flow = self.quic_flows.get_mut(id)?;
            if flow.progress == Progress::Established || flow.port_of(side(&flow.first, &datagram.route)) == port {
                return Some(id);
            }
            // The datagram arrived from the other side before the connection was established: the first one was spoofed.
            self.forget_datagrams(now, id, out);
        }
        let ends = [datagram.route.source, datagram.route.destination];
        let (wired, wireless) = if port == Port::WIRED { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
        let rule = self.config.quic_rule_for(wired, wireless)?;
        let client = Client::of(wireless.ip());
        if let Some(old) = self.quic_flows.surplus(client) {
            self.evict_datagrams(now, old, out);
        }
        let arm = arm(&self.config.rules[rule], &key, self.ab_keys);
        self.quic_flows.insert(key, client, QuicFlow::new(datagram.route, port, rule, arm))
    }

    fn evict_datagrams(&mut self, now: Instant, id: FlowId, out: &mut Vec<Injection>) {
        if let Some(rule) = self.forget_datagrams(now, id, out) {
            self.treatments[rule].counters.flows_evicted += 1;
        }
    }

    /// Removes a connection's state and keeps its measured goodput. Returns the index of its rule.
    fn forget_datagrams(&mut self, now: Instant, id: FlowId, out: &mut Vec<Injection>) -> Option<usize> {
        let flow = self.quic_flows.remove(id)?;
        let treatment = &mut self.treatments[flow.rule];
        if let Some(quic) = &mut treatment.quic {
            quic.remove(now, id, flow.arm, out);
        }
        if let Some(goodput) = flow.goodput(self.config.measured_bytes) {
            treatment.arms[flow.arm as usize].push(goodput, &mut self.sample);
        }
        Some(flow.rule)
    }

    /// Applies another configuration to the connections, whose rules have the indices `moved`. The mechanisms of rules
    /// that are gone have released everything before.
    pub(super) fn reconfigure_datagrams(&mut self, now: Instant, moved: &[Option<usize>], out: &mut Vec<Injection>) {
        let mut homeless = Vec::new();
        for (id, flow) in self.quic_flows.iter_mut() {
            match moved.get(flow.rule).copied().flatten() {
                Some(rule) => flow.rule = rule,
                None => homeless.push(id),
            }
        }
        // A rule that newly matches them did not see their beginning.
        for id in homeless {
            self.quic_flows.remove(id);
        }
        self.quic_flows.set_limit(quic_limit(&self.config));
        while let Some(id) = self.quic_flows.beyond_limit() {
            self.evict_datagrams(now, id, out);
        }
    }

    /// Removes connections that have been idle for too long, at most `left`.
    pub(super) fn sweep_datagrams(&mut self, now: Instant, mut left: usize, out: &mut Vec<Injection>) {
        for standing in [Progress::New.standing(), Progress::Established.standing()] {
            while let Some(id) = self.quic_flows.oldest(standing)
                && self.quic_flows.get_mut(id).is_some_and(|flow| now.since(flow.seen) >= self.config.idle)
            {
                if left == 0 {
                    self.sweep = now + SWEEP_ON;
                    return;
                }
                left -= 1;
                self.forget_datagrams(now, id, out);
            }
        }
    }

    /// Adds the active connections to the statistics of the rules.
    pub(super) fn report_datagrams(&mut self, mut report: impl FnMut(usize, Arm, Option<f64>)) {
        let least = self.config.measured_bytes;
        for (_, flow) in self.quic_flows.iter_mut() {
            report(flow.rule, flow.arm, flow.goodput(least));
        }
    }
}

#[cfg(test)]
#[path = "../engine_quic_tests.rs"]
mod tests;
