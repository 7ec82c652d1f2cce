//! What a direction does, decided from all estimators together: each behaviour that is recognised, and each quantity that it hides.

use super::behaviour::{
    Aggregation, BehaviourReport, Duplicates, Jitter, OtherTraffic, Quantity, RateStep, Reordering, Slots, TokenBucket,
    Unknown, VaryingRate,
};
use super::form::{Estimate, LoadReport};
use super::milliseconds;
use crate::estimate::{
    Bucket, BucketKind, Bursts, Capacity, Course, LONG, Log, Overtaken, Packet, Purpose, Slope, Stretch, Wander,
    bucket, bursts, busy, capacity, combined, course, edge, kept, kept_up, losses, overtaken, planned, quantile, slots,
    stretches, wander,
};

/// Noise of single packets, in parts of the time that a train of sixteen takes: trains tell the rate below it.
const NOISY: f64 = 0.1;
/// Packets of a train that measures the rate, less one, and bits of each.
const GAPS: f64 = 15.0;
const FULL: f64 = 12e3;
/// What long loads and short trains say agrees when it is so close.
const AGREE: f64 = 0.15;
/// A rate that is known no better than this is unknown.
const VAGUE: f64 = 0.25;
/// Student's 97.5 % quantile for some five loads.
const QUANTILE: f64 = 2.57;
/// Share of trains or packets that is no chance.
const CLEAR: f64 = 0.06;
/// Loads that arrive at less than this part of the rate at which they were sent filled the path.
const KEPT: f64 = 0.93;
/// What one way's rate may be without the probe's packets of the other way, on a shared medium.
const OTHER_WAY: f64 = 1.12;
/// On a shared medium a load gets this part of what a train gets during which the other way is silent, or more.
const TURNS: f64 = 0.5;
/// Reordering that is no chance, and the least jitter in seconds.
const REORDERS: f64 = 5e-4;
const JITTERS: f64 = 0.75e-3;
/// Intervals of bursts that 95 % of the packets sent alone wait at most, if the bursts are aggregates.
const MOST_BURSTS: f64 = 3.0;
/// Share of the idle trains where others use a path by turns.
const IDLE: f64 = 0.03;
/// Of a rate, the stream may take so much before its losses may be its own.
const OWN: f64 = 0.6;
/// Seconds in which the stream's rate is looked at.
const WINDOW: f64 = 0.5;
/// Least half-width of a rate's interval: what clocks tell apart.
const FINEST: f64 = 1e-3;

/// What is known of a direction.
pub(super) struct Findings {
    /// The rate with its interval.
    pub rate: Option<Estimate>,
    /// Whether it is a bound.
    pub lower_bound: bool,
    /// Whether `--max-rate` is what bounds it.
    pub limited: bool,
    /// Bits per second at which packets are on the air, as far as known.
    pub air: f64,
    /// What short trains say.
    pub short: Option<Capacity>,
    /// Whether it is a queue in front of a link of one rate, as the estimators of queue and medium take it.
    pub steady: bool,
    /// Whether packets are delayed each by itself.
    pub noisy: bool,
    /// Times, in the sender's seconds, in which losses may be due to the probe's own packets.
    pub excluded: Vec<[f64; 2]>,
    /// The longest load.
    pub longest: Option<LoadReport>,
    /// Reordering.
    pub overtaken: Option<Overtaken>,
    /// Named behaviour and unknown quantities.
    pub behaviour: BehaviourReport,
}

impl Findings {
    /// Adds a quantity that is unknown.
    pub(super) fn unknown(&mut self, quantity: Quantity, reason: impl Into<String>) {
        if !self.behaviour.unknown.iter().any(|one| one.quantity == quantity) {
            self.behaviour.unknown.push(Unknown { quantity, reason: reason.into() });
        }
    }

    /// Whether a packet tells of the path's own losses.
    pub(super) fn counts(&self, packet: &Packet) -> bool {
        !self.excluded.iter().any(|[from, to]| (*from..*to).contains(&packet.sent))
    }
}

fn mbps(rate: f64) -> String {
    format!("{:.3} Mbps", rate / 1e6)
}

/// All that is looked at.
struct Evidence<'l> {
    log: &'l Log,
    short: Option<Capacity>,
    loads: Vec<Stretch<'l>>,
    /// The rate of long loads that came at once, and its relative error.
    lasting: Option<(f64, f64)>,
    /// Whether both ways were seen to take turns on one medium.
    shared: bool,
    /// Whether loads got less than short trains say, by more than chance.
    slows: bool,
    /// The least rate of paced loads that the path did not keep up with.
    saturated: Option<f64>,
    loss: f64,
    wander: Option<Wander>,
    course: Option<Course>,
    bursts: Option<Bursts>,
    slots: Option<f64>,
    overtaken: Option<Overtaken>,
    noisy: bool,
}

impl<'l> Evidence<'l> {
    fn of(log: &'l Log, other: &Log, shared: bool) -> Self {
        let short = capacity(log);
        let loads = stretches(log);
        let lost: Vec<bool> = log.of(Purpose::Stream).map(|packet| packet.arrived.is_none()).collect();
        let loss = losses(&lost).share;
        let slopes: Vec<Slope> = loads
            .iter()
            .filter_map(|load| Some((load, load.slope()?)))
            .map(|(load, slope)| (load, Slope { rate: slope.rate / (1.0 - loss).max(0.5), ..slope }))
            // A paced load that the path kept up with tells nothing but that it did.
            .filter(|(load, _)| {
                !load.paced || !shared && kept(load, f64::INFINITY, loss).is_some_and(|part| part < KEPT)
            })
            .map(|(_, slope)| slope)
            .collect();
        let mut lasting = combined(&slopes);
        let rate = match (lasting, short) {
            (Some((lasting, _)), Some(short)) => lasting.min(short.rate),
            (Some((lasting, _)), None) => lasting,
            (None, Some(short)) => short.rate,
            (None, None) => f64::INFINITY,
        };
        let overtaken = overtaken(log);
        let edge = edge(log, rate, overtaken.as_ref(), true).filter(|edge| edge.sharp && overtaken.is_some());
        let wander = wander(log, rate, edge.map(|edge| edge.least));
        let noisy = wander.is_some_and(|wander| wander.within > (NOISY * GAPS * FULL / rate).max(0.25e-3));
        if noisy {
            // Trains say something as well, as many as there are.
            let trains = log.trains(Purpose::Capacity);
            let long = trains.iter().filter(|train| train.len() >= 12).filter_map(|train| Slope::of(train));
            let long = long.filter(|slope| slope.count >= 8);
            let all: Vec<Slope> = slopes
                .iter()
                .copied()
                .chain(long.map(|slope| Slope { rate: slope.rate / (1.0 - loss).max(0.5), ..slope }))
                .collect();
            lasting = combined(&all);
        }
        let bursts = bursts(&loads);
        let slots = slots(log);
        let course = course(log, &busy(other));
        let kept_up = kept_up(&loads, rate, loss);
        // Noise of single packets blurs halves of loads, and short trains say nothing; on a shared medium the other way has its turns.
        let keeps = match (shared, noisy) {
            (true, _) => TURNS,
            (false, true) => 0.7,
            (false, false) => 0.9,
        };
        let planned =
            short.filter(|_| !noisy && !shared).and_then(|short| Some(planned(log, Some(short.rate))? / short.rate));
        let slows = kept_up.is_some_and(|part| part < keeps) || planned.is_some_and(|part| part < 0.7);
        let saturated = loads.iter().filter(|load| load.paced).filter_map(|load| Some((load, load.slope()?)));
        let saturated = saturated.filter(|(load, _)| kept(load, f64::INFINITY, loss).is_some_and(|part| part < KEPT));
        let saturated = saturated.map(|(_, slope)| slope.rate).min_by(f64::total_cmp);
        Self {
            log,
            short,
            loads,
            lasting,
            shared,
            slows,
            saturated,
            loss,
            wander,
            course,
            bursts,
            slots,
            overtaken,
            noisy,
        }
    }

    /// Whether something holds packets up and lets them go together.
    fn compressed(&self) -> bool {
        // The other way's packets come between some of a train, where both take turns.
        let usual = if self.shared { 3.0 * CLEAR } else { CLEAR };
        self.course.as_ref().is_some_and(|course| course.compressed > usual)
    }

    /// Paced loads that are long enough to empty a token bucket.
    fn long_loads(&self) -> usize {
        self.loads.iter().filter(|load| load.paced && load.packets.len() >= LONG).count()
    }

    /// Whether trains arrive faster than they were sent.
    fn squeezed(&self) -> bool {
        self.short.is_some_and(|short| short.squeezed)
    }

    /// Whether a train's dispersion is the link's own.
    fn disperses(&self) -> bool {
        !self.squeezed() && !self.noisy && self.bursts.is_none() && self.slots.is_none() && !self.compressed()
    }

    /// The course of a rate that varies. Noise of single packets does not pass for it: trains of one time would overlap those of another.
    fn varying(&self) -> Option<&Course> {
        let even = !self.squeezed() && self.bursts.is_none() && self.slots.is_none() && !self.compressed();
        self.course.as_ref().filter(|course| even && course.varies() && (!self.shared || course.apart > 3.0 * CLEAR))
    }

    /// Bursts that are aggregates of a link layer. A packet alone waits there for one burst at most; jitter that keeps the order delays it
    /// by much more than the bursts are apart.
    fn aggregates(&self) -> Option<Bursts> {
        let explains =
            |bursts: &Bursts| self.wander.is_none_or(|wander| wander.beyond[1] < MOST_BURSTS * bursts.interval);
        self.bursts.filter(|bursts| self.slots.is_none() && explains(bursts))
    }

    /// The share of the time that others take: packets wait, in order, behind what is not the probe's.
    fn others(&self) -> Option<f64> {
        let wander = self.wander.filter(|_| self.disperses() && self.varying().is_none())?;
        let reorders = self.overtaken.as_ref().is_some_and(|overtaken| overtaken.share > REORDERS);
        // In a queue that others fill as well, a load has its part of all that is sent.
        let left = match (self.short, self.saturated) {
            (Some(short), Some(least)) => least > 0.4 * short.rate,
            _ => true,
        };
        let waits = wander.waiting > CLEAR && wander.apart < CLEAR && wander.idle > IDLE;
        (!reorders && left && waits).then_some(wander.waiting)
    }
}

/// What a direction does of which at most `limit` bits per second were sent, and whose medium may be `shared` with the `other`.
pub(super) fn findings([log, other]: [&Log; 2], limit: f64, shared: bool) -> Findings {
    let evidence = Evidence::of(log, other, shared);
    let steady_line = evidence.disperses() && evidence.varying().is_none();
    let found = evidence.short.filter(|_| steady_line);
    let bucket = found.and_then(|short| bucket(&evidence.loads, least(log, short.rate), short.rate, evidence.loss));
    let mut findings = Findings {
        rate: None,
        lower_bound: false,
        limited: false,
        air: f64::INFINITY,
        short: evidence.short,
        steady: steady_line && bucket.is_none(),
        noisy: evidence.noisy,
        excluded: Vec::new(),
        longest: longest(&evidence.loads),
        overtaken: evidence.overtaken.clone(),
        behaviour: BehaviourReport::default(),
    };
    name(&mut findings.behaviour, &evidence, bucket);
    if evidence.slots.is_none() && evidence.bursts.is_some() && evidence.aggregates().is_none() {
        let reason = "packets arrive in bursts, but delays vary by more than bursts are apart: jitter that keeps the order makes bursts too";
        findings.unknown(Quantity::Aggregation, reason);
    }
    rate(&mut findings, &evidence, bucket, limit);
    // The time on the air is that of a packet alone.
    findings.air = match (&findings.rate, bucket, evidence.short) {
        (_, Some(_), Some(short)) => short.rate,
        (Some(rate), ..) => rate.value,
        (None, ..) => evidence.lasting.map_or(f64::INFINITY, |(rate, _)| rate),
    };
    own_losses(&mut findings, &evidence, bucket);
    let waits =
        evidence.wander.is_some_and(|wander| wander.waiting > CLEAR) && steady_line && !shared && bucket.is_none();
    if waits && findings.behaviour.other_traffic.is_none() && findings.behaviour.jitter.is_none() {
        findings.unknown(Quantity::OtherTraffic, "packets waited without load, but not as behind others' packets only");
    }
    let brief = evidence.course.as_ref().filter(|course| steady_line && !shared && course.changes());
    if let Some(course) = brief {
        let share = (1000.0 * course.apart).round() / 10.0;
        let [least, most] = course.range.map(mbps);
        findings.unknown(
            Quantity::VaryingRate,
            format!("for {share} % of the time trains arrived at another rate ({least} to {most}): the link's, or an end stalled"),
        );
    }
    if bucket.is_none() && !findings.limited && evidence.long_loads() == 0 {
        findings.unknown(Quantity::TokenBucket, "no paced load was long enough to empty one");
    }
    findings
}

/// The least time from sending to arriving, less the time on the air: clocks' difference and the path's delay.
fn least(log: &Log, rate: f64) -> f64 {
    let took = |packet: &Packet| Some(packet.arrived? - packet.sent - 8.0 * f64::from(packet.size) / rate);
    log.packets.iter().filter_map(took).min_by(f64::total_cmp).unwrap_or(0.0)
}

/// The longest load of all: the one with most bytes.
fn longest(loads: &[Stretch<'_>]) -> Option<LoadReport> {
    let of = |load: &Stretch<'_>| {
        let times = load.arrivals();
        let seconds = times.last()? - times.first()?;
        let size = f64::from(load.size());
        let bytes = load.packets.iter().map(|packet| u64::from(packet.size)).sum();
        let bits = 8.0 * size * (times.len() - 1) as f64;
        (seconds > 0.0).then(|| LoadReport {
            bytes,
            seconds: (seconds * 1e6).round() / 1e6,
            rate_bps: (bits / seconds).round(),
        })
    };
    loads.iter().filter_map(of).max_by_key(|load| load.bytes)
}

/// Names what is recognised.
fn name(behaviour: &mut BehaviourReport, evidence: &Evidence<'_>, bucket: Option<Bucket>) {
    let log = evidence.log;
    let share = |value: f64| (value * 1e6).round() / 1e6;
    behaviour.reordering = evidence
        .overtaken
        .as_ref()
        .map(|overtaken| Reordering { share: share(overtaken.share), by_ms_p95: milliseconds(overtaken.by) });
    let arrived = log.arrivals.len().max(1) as f64;
    behaviour.duplicates =
        (log.duplicates > 0).then(|| Duplicates { share: share(f64::from(log.duplicates) / arrived) });
    behaviour.slots = evidence.slots.map(|interval| Slots { interval_ms: milliseconds(interval) });
    behaviour.aggregation = evidence.aggregates().map(|bursts| Aggregation {
        packets_mean: (bursts.packets * 100.0).round() / 100.0,
        interval_ms: milliseconds(bursts.interval),
    });
    if let Some(Bucket { kind, rate, burst, .. }) = bucket {
        let line = evidence.short.map_or(rate, |short| short.rate);
        let bucket =
            TokenBucket { rate_bps: rate.round(), burst_bytes: burst.max(0.0) as u64, line_rate_bps: line.round() };
        match kind {
            BucketKind::Policer => behaviour.policer = Some(bucket),
            BucketKind::Shaper => behaviour.shaper = Some(bucket),
        }
    }
    if let Some(course) = evidence.varying() {
        let origin = log.unloaded().first().map_or(0.0, |packet| packet.sent);
        let step = |step: &crate::estimate::RateFrom| RateStep {
            at_s: ((step.at - origin) * 1e3).round() / 1e3,
            rate_bps: step.rate.round(),
        };
        behaviour.varying_rate = Some(VaryingRate {
            least_bps: course.range[0].round(),
            most_bps: course.range[1].round(),
            series: course.steps.iter().map(step).collect(),
        });
    }
    // What waits for tokens waits for nobody else.
    behaviour.other_traffic =
        evidence.others().filter(|_| bucket.is_none()).map(|share| OtherTraffic { share: (share * 1e3).round() / 1e3 });
    behaviour.jitter = jitter(evidence, behaviour);
}

/// Delays that vary without load, and not for a reason that has a name of its own.
fn jitter(evidence: &Evidence<'_>, behaviour: &BehaviourReport) -> Option<Jitter> {
    let wander = evidence.wander?;
    let explained = evidence.slows
        || evidence.long_loads() == 0 && evidence.overtaken.is_none()
        || evidence.shared
        || behaviour.slots.is_some()
        || behaviour.other_traffic.is_some()
        || behaviour.varying_rate.is_some()
        || behaviour.aggregation.is_some() && wander.beyond[1] < 2e-3 * behaviour.aggregation?.interval_ms;
    // Packets that wait in order wait for others, or for what is not known.
    let reorders = evidence.overtaken.as_ref().is_some_and(|overtaken| overtaken.share > REORDERS);
    let apart = wander.apart > 0.01 && reorders || wander.apart > CLEAR || evidence.noisy;
    let [p50, p95, p99] = wander.beyond;
    (!explained && apart && p99 > JITTERS).then(|| Jitter {
        p50_ms: milliseconds(p50),
        p95_ms: milliseconds(p95),
        p99_ms: milliseconds(p99),
    })
}

fn estimate(rate: f64, [low, high]: [f64; 2]) -> Estimate {
    let interval = [low.min(rate * (1.0 - FINEST)).max(0.0).round(), high.max(rate * (1.0 + FINEST)).round()];
    Estimate { value: rate.round(), interval: Some(interval) }
}

/// The rate, from what says most about it; or why it is unknown.
fn rate(findings: &mut Findings, evidence: &Evidence<'_>, bucket: Option<Bucket>, limit: f64) {
    let short = evidence.short;
    let part = if evidence.shared { TURNS } else { 1.0 - AGREE };
    let lasts = |short: &Capacity| !evidence.slows && evidence.lasting.is_none_or(|(rate, _)| rate > part * short.rate);
    // A few trains alone say little: buckets and bursts pass them.
    let checked = evidence.log.of(Purpose::Check).count() >= LONG;
    let known = |short: &Capacity| {
        let long = checked || evidence.long_loads() > 0;
        short.interval[1] < 1.4 * short.rate || long && evidence.others().is_none()
    };
    findings.limited = short.is_some_and(|short| short.rate > 0.9 * limit);
    if let Some(bucket) = bucket {
        findings.limited = false;
        findings.rate = Some(estimate(bucket.rate, bucket.interval));
        return;
    }
    if let Some(course) = evidence.varying() {
        findings.limited = false;
        findings.rate = Some(estimate(course.mean, course.range));
        return;
    }
    let once = evidence.course.as_ref().is_some_and(|course| evidence.disperses() && !evidence.shared && course.once());
    if let Some(short) = short.filter(|_| evidence.disperses() && !once) {
        if (findings.limited || short.by_sender) && lasts(&short) {
            findings.lower_bound = true;
            findings.rate = Some(Estimate { value: short.rate.round(), interval: None });
            return;
        }
        if known(&short)
            && lasts(&short)
            && evidence.lasting.is_none_or(|(rate, error)| rate < (1.0 + AGREE + 2.0 * error) * short.rate)
        {
            findings.rate = Some(estimate(short.rate, short.interval));
            return;
        }
        if evidence.others().is_some() && known(&short) {
            // Others take their part of a load that lasts.
            findings.rate = Some(estimate(short.rate, short.interval));
            return;
        }
    }
    let cause = if evidence.slots.is_some() {
        "packets are delivered at slot times"
    } else if evidence.bursts.is_some() {
        "packets arrive in bursts"
    } else if evidence.noisy || evidence.compressed() {
        "delays vary by more than packets are apart"
    } else if once {
        "trains arrived at another rate for a while, once: the link's, or that behind an empty bucket"
    } else if evidence.slows || evidence.lasting.is_some() {
        "long loads and short trains do not agree"
    } else {
        "few trains arrived"
    };
    findings.limited = false;
    match evidence.lasting {
        Some((rate, error)) if !evidence.disperses() && !evidence.slows && QUANTILE * error < VAGUE => {
            let half = QUANTILE * error.max(0.025);
            // Whether both ways share the medium is unknown then: the probe's own packets the other way may take a tenth of it.
            let together = evidence.bursts.is_some() || evidence.squeezed() || evidence.compressed();
            let more = if together { OTHER_WAY } else { 1.0 };
            findings.rate = Some(estimate(rate, [rate / (1.0 + half), rate * (1.0 + half) * more]));
        }
        Some((rate, _)) => {
            let trains =
                short.map_or_else(|| "say nothing".to_owned(), |short| format!("arrive at {}", mbps(short.rate)));
            findings.unknown(Quantity::Rate, format!("{cause}; short trains {trains}, long loads at {}", mbps(rate)));
        }
        None => findings.unknown(Quantity::Rate, format!("{cause}, and no load was long enough to tell the rate")),
    }
}

/// Finds the times in which the stream took so much of the rate that its losses may be its own.
fn own_losses(findings: &mut Findings, evidence: &Evidence<'_>, bucket: Option<Bucket>) {
    let policed = bucket.filter(|bucket| bucket.kind == BucketKind::Policer);
    let course = evidence.varying();
    if findings.rate.is_none() && evidence.loss > 0.0 {
        let reason = "the rate is unknown, so losses of the path are not told from those of the probe's own packets";
        findings.unknown(Quantity::Loss, reason);
    }
    if policed.is_none() && course.is_none() {
        return;
    }
    let rate_at = |at: f64| match (policed, course) {
        (Some(bucket), _) => bucket.rate,
        (_, Some(course)) => {
            let near = [at - WINDOW, at, at + WINDOW].map(|at| course.rate_at(at));
            near.into_iter().fold(f64::MAX, f64::min)
        }
        _ => f64::MAX,
    };
    let unloaded = evidence.log.unloaded();
    let Some(origin) = unloaded.first().map(|packet| packet.sent) else { return };
    let mut windows: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    for packet in &unloaded {
        *windows.entry(((packet.sent - origin).max(0.0) / WINDOW) as u64).or_default() += 8.0 * f64::from(packet.size);
    }
    let waits = waits(&unloaded, origin, evidence);
    let (mut all, mut out) = (0, 0);
    for (number, bits) in windows {
        let at = origin + number as f64 * WINDOW;
        all += 1;
        let rate = rate_at(at + WINDOW / 2.0);
        let waited = waits.get(&number).is_some_and(|waited| *waited > (8.0 * FULL / rate).max(5e-3));
        if bits / WINDOW > OWN * rate || waited {
            out += 1;
            // What it put into a queue is dropped a while later as well.
            findings.excluded.push([at, at + 2.0 * WINDOW]);
        }
    }
    if 2 * out > all {
        findings.excluded.clear();
        let rate = if policed.is_some() {
            "the policer drops the probe's own packets"
        } else {
            "the rate fell below what the probe sent"
        };
        findings.unknown(Quantity::Loss, format!("{rate}: losses of the path are not told from these"));
    }
}

/// Time that nine of ten packets of each window waited at most, in seconds: a queue that overflowed for a tenth of the window shows in it.
fn waits(packets: &[&Packet], origin: f64, evidence: &Evidence<'_>) -> std::collections::BTreeMap<u64, f64> {
    let rate = evidence.short.map_or(f64::INFINITY, |short| short.rate);
    let mut windows: std::collections::BTreeMap<u64, Vec<f64>> = std::collections::BTreeMap::new();
    let mut least = f64::INFINITY;
    for packet in packets {
        let Some(arrived) = packet.arrived else { continue };
        let took = arrived - packet.sent - 8.0 * f64::from(packet.size) / rate;
        least = least.min(took);
        windows.entry(((packet.sent - origin).max(0.0) / WINDOW) as u64).or_default().push(took);
    }
    let longest = |mut all: Vec<f64>| quantile(&mut all, 0.9).map_or(0.0, |took| took - least);
    windows.into_iter().map(|(number, all)| (number, longest(all))).collect()
}
