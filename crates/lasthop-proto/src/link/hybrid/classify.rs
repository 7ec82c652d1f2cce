//! Which class a packet is of, and how far back its flow's previous one is.

use alloc::collections::BTreeMap;

use super::frame::{Class, Traffic};
use super::numbers::Symbol;
use crate::time::{Duration, Instant};

/// Flows that are remembered; the one that was quiet for longest makes room.
const FLOWS: usize = 4096;

/// Over which a flow's rate is taken.
const SPAN: Duration = Duration::from_millis(500);

/// A flow of datagrams with more than this share of the rate (30 %) is a transfer, whatever it says.
const TRANSFER: (u64, u64) = (3, 10);

/// A flow with at most one part in so many of the rate is light.
const LIGHT: u64 = 50;

#[derive(Clone, Debug)]
struct Flow {
    /// Its last symbol that others may have to wait for.
    last: Option<Symbol>,
    /// Since when `bytes` are counted.
    since: Instant,
    bytes: u64,
    /// Bits per second over the span before.
    rate: u64,
    touched: u64,
}

/// What is known of the flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Classifier {
    flows: BTreeMap<u32, Flow>,
    /// Flow by when it was touched last.
    order: BTreeMap<u64, u32>,
    touches: u64,
}

impl Classifier {
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    fn touch(&mut self, now: Instant, key: u32) -> &mut Flow {
        self.touches += 1;
        if let Some(flow) = self.flows.get(&key) {
            self.order.remove(&flow.touched);
        } else if self.flows.len() == FLOWS
            && let Some((_, quiet)) = self.order.pop_first()
        {
            self.flows.remove(&quiet);
        }
        self.order.insert(self.touches, key);
        let fresh = Flow { last: None, since: now, bytes: 0, rate: 0, touched: 0 };
        let flow = self.flows.entry(key).or_insert(fresh);
        flow.touched = self.touches;
        flow
    }

    /// The class of a packet of `bytes` of a flow, on a hop of `rate` bits per second.
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

    /// Whether a flow takes so little of a hop of `rate` bits per second that a copy of each of its packets costs next to nothing.
    pub fn is_light(&self, key: u32, rate: u64) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.rate.saturating_mul(LIGHT) <= rate)
    }

    /// The flow's ordered symbol before `symbol`, which is its last from now on.
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
