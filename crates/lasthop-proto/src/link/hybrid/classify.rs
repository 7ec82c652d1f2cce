//! Classification of packets, and the distance to the previous packet of a flow.

use alloc::collections::BTreeMap;

use super::frame::{Class, Traffic};
use super::numbers::Symbol;
use crate::time::{Duration, Instant};

/// Maximum number of tracked flows; the least recently used one is evicted.
const FLOWS: usize = 4096;

/// Interval over which a flow's rate is measured.
const SPAN: Duration = Duration::from_millis(500);

/// Share of the rate (30 %) above which a flow of datagrams is treated as a transfer.
const TRANSFER: (u64, u64) = (3, 10);

/// Divisor of the rate up to which a flow is light.
const LIGHT: u64 = 50;

#[derive(Clone, Debug)]
struct Flow {
    /// Last symbol of the flow that others may have to wait for.
    last: Option<Symbol>,
    /// Start of the count `bytes`.
    since: Instant,
    bytes: u64,
    /// Rate in the previous interval, in bits per second.
    rate: u64,
    touched: u64,
}

/// State of all flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Classifier {
    flows: BTreeMap<u32, Flow>,
    /// Flows by the time of their last use.
    order: BTreeMap<u64, u32>,
    touches: u64,
    /// Flow used last.
    latest: Option<u32>,
}

impl Classifier {
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    fn touch(&mut self, now: Instant, key: u32) -> &mut Flow {
        if self.latest != Some(key) {
            self.latest = Some(key);
            self.touches += 1;
            if let Some(flow) = self.flows.get(&key) {
                self.order.remove(&flow.touched);
            } else if self.flows.len() == FLOWS
                && let Some((_, quiet)) = self.order.pop_first()
            {
                self.flows.remove(&quiet);
            }
            self.order.insert(self.touches, key);
        }
        let fresh = Flow { last: None, since: now, bytes: 0, rate: 0, touched: 0 };
        let flow = self.flows.entry(key).or_insert(fresh);
        flow.touched = self.touches;
        flow
    }

    /// Returns the class of a packet of `bytes` bytes of a flow, on a hop of `rate` bits per second.
    pub fn classify(&mut self, now: Instant, key: u32, traffic: Traffic, bytes: u32, rate: u64) -> Class {
        let flow = self.touch(now, key);
        let span = now.since(flow.since);
        if span >= SPAN {
            flow.rate = (u128::from(flow.bytes) * 8_000_000_000 / u128::from(span.as_nanos().max(1))) as u64;
            (flow.since, flow.bytes) = (now, 0);
        }
        flow.bytes += u64::from(bytes);
        match traffic {
            Traffic::Stream => Class::Ordered,
            Traffic::Acknowledgment | Traffic::Bare => Class::AtOnce,
            Traffic::Datagram if flow.rate.saturating_mul(TRANSFER.1) > rate.saturating_mul(TRANSFER.0) => {
                Class::Ordered
            }
            Traffic::Call | Traffic::Datagram => Class::RealTime,
        }
    }

    /// Returns whether a flow uses so little of a hop of `rate` bits per second that copies of its packets cost almost
    /// nothing.
    pub fn is_light(&self, key: u32, rate: u64) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.rate.saturating_mul(LIGHT) <= rate)
    }

    /// Returns whether a flow is light, and has sent so little in this interval that it stays light.
    pub fn stays_light(&self, key: u32, rate: u64) -> bool {
        let most = u128::from(rate) * u128::from(SPAN.as_nanos()) / 8_000_000_000 / u128::from(LIGHT);
        self.is_light(key, rate) && self.flows.get(&key).is_some_and(|flow| u128::from(flow.bytes) <= most)
    }

    /// Returns the flow's ordered symbol before `symbol`, which becomes its last one.
    pub fn chain(&mut self, now: Instant, key: u32, symbol: Symbol) -> Option<Symbol> {
        self.touch(now, key).last.replace(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_datagrams_are_a_transfer() {
        let mut classifier = Classifier::default();
        let mut now = Instant::ZERO;
        let mut classes = [Class::Ordered; 2];
        for _ in 0..1000 {
            now += Duration::from_millis(2);
            // 4 Mbps and 0.8 Mbps of 10.
            classes = [(1, 1000), (2, 200)]
                .map(|(flow, bytes)| classifier.classify(now, flow, Traffic::Datagram, bytes, 10_000_000));
        }
        assert_eq!(classes, [Class::Ordered, Class::RealTime]);
        // Unless they are marked as a call.
        assert_eq!(classifier.classify(now, 1, Traffic::Call, 1000, 10_000_000), Class::RealTime);
    }

    #[test]
    fn the_quietest_flow_is_forgotten() {
        let mut classifier = Classifier::default();
        let now = Instant::ZERO;
        assert_eq!(classifier.chain(now, 0, Symbol(0)), None);
        assert_eq!(classifier.chain(now, 1, Symbol(1)), None);
        for flow in 2..FLOWS as u32 {
            classifier.chain(now, flow, Symbol(u64::from(flow)));
        }
        assert_eq!(classifier.chain(now, 0, Symbol(5000)), Some(Symbol(0)));
        classifier.chain(now, 9999, Symbol(5001));
        assert_eq!(classifier.len(), FLOWS);
        assert_eq!(classifier.chain(now, 0, Symbol(5002)), Some(Symbol(5000)));
        assert_eq!(classifier.chain(now, 1, Symbol(5003)), None);
    }
}
