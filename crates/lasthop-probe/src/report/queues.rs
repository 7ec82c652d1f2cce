//! The queue of a direction, and whether it explains the delays under load.

use super::behaviour::Quantity;
use super::findings::Findings;
use super::form::{Bound, QueueReport};
use super::milliseconds;
use crate::client::Way;
use crate::estimate::{
    Delays, Known, Log, Overload, Purpose, QueueFound, QueueLimit, delays as delays_of, queue as queue_at, queue_kind,
};

/// Minimum share of the delay under load that a queue must explain. A queue that explains less, by at least
/// `UNEXPLAINED` seconds, is rejected, because packets also waited for other traffic.
const EXPLAINED: f64 = 1.0 / 3.0;
const UNEXPLAINED: f64 = 0.01;

/// Queue, and the maximum delay in seconds of the packets that filled it.
struct Queue {
    report: QueueReport,
    waits: f64,
}

/// Reason for which the queue may be wrong.
struct Doubt {
    words: String,
    queue_stands: bool,
}

/// Compares the delays with those that the queue explains.
fn doubt(queue: &Queue, delays: &Delays) -> Option<Doubt> {
    let ms = |seconds: f64| (seconds * 1e4).round() / 10.0;
    let loaded = delays.loaded_p95.unwrap_or(0.0);
    let Queue { report: QueueReport { packets, .. }, waits } = queue;
    if *waits < EXPLAINED * loaded && *waits < loaded - UNEXPLAINED {
        let words = format!(
            "packets waited for {} ms under load, of which a queue of {packets} packets explains {} ms; its size is unknown",
            ms(loaded),
            ms(*waits)
        );
        return Some(Doubt { words, queue_stands: false });
    }
    // The queue was hardly ever empty.
    (delays.median > UNEXPLAINED && delays.median > EXPLAINED * waits).then(|| Doubt {
        words: format!("packets waited for {} ms without load; this may affect losses and queue", ms(delays.median)),
        queue_stands: true,
    })
}

/// Returns the queue of a direction, unless its behaviour hides it or packets waited longer than the queue explains.
pub(super) fn queue(
    way: Way,
    log: &Log,
    known: Known,
    delays: Option<Delays>,
    found: &mut Findings,
    remarks: &mut Vec<String>,
) -> Option<QueueReport> {
    if let Some(reason) = hidden(log, found) {
        found.unknown(Quantity::Queue, reason);
        return None;
    }
    // If the rate is a lower bound, the queue is sized for that rate.
    let known = match (found.lower_bound, found.rate) {
        (true, Some(rate)) => {
            let base = delays_of(log, rate.value).map_or(0.0, |delays| delays.base);
            Known { rate: rate.value, base, ..known }
        }
        _ => known,
    };
    let queue = queue_of(log, known)?;
    let doubt = delays.and_then(|delays| doubt(&queue, &delays));
    if let Some(Doubt { words, queue_stands }) = doubt {
        let steady = found.steady && found.behaviour.jitter.is_none();
        if queue_stands {
            remarks.extend(steady.then(|| format!("{way}: other traffic on the path, or load on its ends: {words}")));
        } else {
            let words = if steady { format!("other traffic on the path, or load on its ends: {words}") } else { words };
            remarks.push(format!("{way}: {words}"));
            found.unknown(Quantity::Queue, words);
            return None;
        }
    }
    Some(queue.report)
}

/// Returns the reason for which overloads do not show the queue, if there is one.
fn hidden(log: &Log, found: &Findings) -> Option<&'static str> {
    let behaviour = &found.behaviour;
    if log.of(Purpose::Overload).next().is_none() {
        return Some("nothing was sent fast enough to fill it");
    }
    if behaviour.policer.is_some() {
        return Some("the policer drops packets before a queue fills");
    }
    if behaviour.shaper.is_some() {
        return Some("overloads fill it at the line rate and at the shaper's rate");
    }
    let varies = behaviour.unknown.iter().any(|unknown| unknown.quantity == Quantity::VaryingRate);
    if behaviour.varying_rate.is_some() || varies {
        return Some("the rate changed between overloads");
    }
    if found.rate.is_none() {
        return Some("the rate at which it drains is unknown");
    }
    None
}

/// Returns the queue, from overloads with packets of one size or of two.
fn queue_of(log: &Log, known: Known) -> Option<Queue> {
    let trains = log.trains(Purpose::Overload);
    let usual = trains.first()?.first()?.size;
    let other = trains.iter().map(|train| train[0].size).find(|size| *size != usual);
    let found = queue_at(log, usual, known)?;
    let second = other.and_then(|size| queue_at(log, size, known));
    let (QueueFound { packets, size }, filled, bound) = match (found, second) {
        (Overload::Filled(one), Some(Overload::Filled(two))) => (one, true, queue_kind(one, two)),
        // The small packets did not fill it although they were as many: the limit is in bytes.
        (Overload::Filled(one), Some(Overload::Holds(two))) if two.packets > one.packets + one.packets / 6 => {
            (one, true, QueueLimit::Bytes)
        }
        (Overload::Filled(one), _) => (one, true, QueueLimit::Unknown),
        (Overload::Holds(one), _) => (one, false, QueueLimit::Unknown),
    };
    let waits = 8.0 * f64::from(packets + 1) * f64::from(size) / known.rate;
    let full = log.of(Purpose::Capacity).map(|packet| packet.size).max().unwrap_or(size);
    let size = if bound == QueueLimit::Packets { full } else { size };
    let bytes = u64::from(packets) * u64::from(size);
    let report = QueueReport {
        packets,
        bytes,
        milliseconds: milliseconds(8.0 * bytes as f64 / known.rate),
        packet_bytes: size,
        filled,
        bound: match bound {
            QueueLimit::Packets => Bound::Packets,
            QueueLimit::Bytes => Bound::Bytes,
            QueueLimit::Unknown => Bound::Unknown,
        },
    };
    Some(Queue { report, waits })
}
