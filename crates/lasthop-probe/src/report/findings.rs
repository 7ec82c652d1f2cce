//! Findings of a direction, from all estimators together: each behaviour that is recognised, and each quantity that it
//! hides.

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

/// Maximum noise of single packets, relative to the duration of a train of sixteen, up to which trains give the rate.
const NOISY: f64 = 0.1;
/// Number of gaps in a train that measures the rate, and bits of each packet.
const GAPS: f64 = 15.0;
const FULL: f64 = 12e3;
/// Maximum relative difference between rates of long loads and short trains that agree.
const AGREE: f64 = 0.15;
/// Relative error beyond which a rate is unknown.
const VAGUE: f64 = 0.25;
/// 97.5 % quantile of Student's t distribution for about five loads.
const QUANTILE: f64 = 2.57;
/// Minimum share of trains or packets that excludes chance.
const CLEAR: f64 = 0.06;
/// Minimum ratio of arrival rate to pace; loads below it filled the path.
const KEPT: f64 = 0.93;
/// Factor by which one direction's rate may be higher on a shared medium without the probe's packets in the other
/// direction.
const OTHER_WAY: f64 = 1.12;
/// Minimum ratio, on a shared medium, of a load's rate to that of a train during which the other direction is silent.
const TURNS: f64 = 0.5;
/// Minimum share of reordered packets that excludes chance, and minimum jitter in seconds.
const REORDERS: f64 = 5e-4;
const JITTERS: f64 = 0.75e-3;
/// Intervals of bursts that 95 % of the packets sent alone wait at most, if the bursts are aggregates.
const MOST_BURSTS: f64 = 3.0;
/// Minimum share of trains that find the path idle if other traffic uses it intermittently.
const IDLE: f64 = 0.03;
/// Share of the rate above which the stream may cause its own losses.
const OWN: f64 = 0.6;
/// Length of the windows in which the stream's rate is checked, in seconds.
const WINDOW: f64 = 0.5;
/// Minimum relative half-width of a rate's interval: the resolution of the clocks.
const FINEST: f64 = 1e-3;

/// Findings of a direction.
pub(super) struct Findings {
    /// Rate with its interval.
    pub rate: Option<Estimate>,
    /// True if the rate is a lower bound.
    pub lower_bound: bool,
    /// True if `--max-rate` bounds the rate.
    pub limited: bool,
    /// Transmission rate of packets in bits per second, as far as known.
    pub air: f64,
    /// Rate of short trains.
    pub short: Option<Capacity>,
    /// True if the direction is a queue in front of a link of constant rate, as the estimators of queue and medium
    /// assume.
    pub steady: bool,
    /// True if packets are delayed independently.
    pub noisy: bool,
    /// Periods in which losses may be due to the probe's own packets, in seconds of the sender's clock.
    pub excluded: Vec<[f64; 2]>,
    /// Longest load.
    pub longest: Option<LoadReport>,
    /// Reordering.
    pub overtaken: Option<Overtaken>,
    /// Recognised behaviour and unknown quantities.
    pub behaviour: BehaviourReport,
}

impl Findings {
    /// Lists a quantity as unknown, unless it is listed already.
    pub(super) fn unknown(&mut self, quantity: Quantity, reason: impl Into<String>) {
        if !self.behaviour.unknown.iter().any(|one| one.quantity == quantity) {
            self.behaviour.unknown.push(Unknown { quantity, reason: reason.into() });
        }
    }

    /// Returns whether a packet shows the path's own losses.
    pub(super) fn counts(&self, packet: &Packet) -> bool {
        !self.excluded.iter().any(|[from, to]| (*from..*to).contains(&packet.sent))
    }
}

fn mbps(rate: f64) -> String {
    format!("{:.3} Mbps", rate / 1e6)
}

/// Evidence about a direction.
struct Evidence<'l> {
    log: &'l Log,
    short: Option<Capacity>,
    loads: Vec<Stretch<'l>>,
    /// Rate of long loads that were sent at once, and its relative error.
    lasting: Option<(f64, f64)>,
    /// True if both directions share a half-duplex medium.
    shared: bool,
    /// True if the rate of loads is below that of short trains, by more than chance.
    slows: bool,
    /// Minimum rate of paced loads that the path did not keep up with.
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
            // A paced load that the path kept up with gives only a lower bound.
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
            // Trains add some information.
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
        // With noise of single packets, halves of loads are uncertain and short trains say nothing; on a shared medium
        // the other direction has its share.
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

    /// Returns whether packets are held up and released together.
    fn compressed(&self) -> bool {
        // On a shared medium, packets of the other direction are interleaved with some trains.
        let usual = if self.shared { 3.0 * CLEAR } else { CLEAR };
        self.course.as_ref().is_some_and(|course| course.compressed > usual)
    }

    /// Returns the number of paced loads that are long enough to empty a token bucket.
    fn long_loads(&self) -> usize {
        self.loads.iter().filter(|load| load.paced && load.packets.len() >= LONG).count()
    }

    /// Returns whether trains arrive faster than they were sent.
    fn squeezed(&self) -> bool {
        self.short.is_some_and(|short| short.squeezed)
    }

    /// Returns whether a train's dispersion is the link's own.
    fn disperses(&self) -> bool {
        !self.squeezed() && !self.noisy && self.bursts.is_none() && self.slots.is_none() && !self.compressed()
    }

    /// Returns the rate over time if it varies. Noise of single packets does not look like that: trains of one period
    /// would overlap with those of another.
    fn varying(&self) -> Option<&Course> {
        let even = !self.squeezed() && self.bursts.is_none() && self.slots.is_none() && !self.compressed();
        self.course.as_ref().filter(|course| even && course.varies() && (!self.shared || course.apart > 3.0 * CLEAR))
    }

    /// Returns the bursts if aggregation by a link layer explains them. Aggregation delays a packet sent alone by one
    /// burst interval at most; jitter without reordering delays it by several.
    fn aggregates(&self) -> Option<Bursts> {
        let explains =
            |bursts: &Bursts| self.wander.is_none_or(|wander| wander.beyond[1] < MOST_BURSTS * bursts.interval);
        self.bursts.filter(|bursts| self.slots.is_none() && explains(bursts))
    }

    /// Returns the share of the time that other traffic occupies: packets wait, in order, although the probe sends
    /// nothing.
    fn others(&self) -> Option<f64> {
        let wander = self.wander.filter(|_| self.disperses() && self.varying().is_none())?;
        let reorders = self.overtaken.as_ref().is_some_and(|overtaken| overtaken.share > REORDERS);
        // In a queue that other traffic fills as well, a load has its share of the total.
        let left = match (self.short, self.saturated) {
            (Some(short), Some(least)) => least > 0.4 * short.rate,
            _ => true,
        };
        let waits = wander.waiting > CLEAR && wander.apart < CLEAR && wander.idle > IDLE;
        (!reorders && left && waits).then_some(wander.waiting)
    }
}

/// Returns the findings of a direction. `limit` is the maximum sending rate in bits per second; `shared` says that it
/// shares a half-duplex medium with `other`.
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
        let reason = "packets arrive in bursts, but delays vary by more than the burst interval; jitter without reordering also causes bursts";
        findings.unknown(Quantity::Aggregation, reason);
    }
    rate(&mut findings, &evidence, bucket, limit);
    // The transmission time is that of a single packet.
    findings.air = match (&findings.rate, bucket, evidence.short) {
        (_, Some(_), Some(short)) => short.rate,
        (Some(rate), ..) => rate.value,
        (None, ..) => evidence.lasting.map_or(f64::INFINITY, |(rate, _)| rate),
    };
    own_losses(&mut findings, &evidence, bucket);
    let waits =
        evidence.wander.is_some_and(|wander| wander.waiting > CLEAR) && steady_line && !shared && bucket.is_none();
    if waits && findings.behaviour.other_traffic.is_none() && findings.behaviour.jitter.is_none() {
        findings.unknown(
            Quantity::OtherTraffic,
            "packets waited without load, but other traffic alone does not explain the delays",
        );
    }
    let brief = evidence.course.as_ref().filter(|course| steady_line && !shared && course.changes());
    if let Some(course) = brief {
        let share = (1000.0 * course.apart).round() / 10.0;
        let [least, most] = course.range.map(mbps);
        findings.unknown(
            Quantity::VaryingRate,
            format!("for {share} % of the time trains arrived at another rate ({least} to {most}): the link's rate changed, or an end stalled"),
        );
    }
    if bucket.is_none() && !findings.limited && evidence.long_loads() == 0 {
        findings.unknown(Quantity::TokenBucket, "no paced load was long enough to empty one");
    }
    findings
}

/// Returns the minimum transit time without the transmission time, in seconds: the path's delay plus the clock offset.
fn least(log: &Log, rate: f64) -> f64 {
    let took = |packet: &Packet| Some(packet.arrived? - packet.sent - 8.0 * f64::from(packet.size) / rate);
    log.packets.iter().filter_map(took).min_by(f64::total_cmp).unwrap_or(0.0)
}

/// Returns the load with the most bytes.
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

/// Names the behaviour that is recognised.
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
    // Waiting for tokens is not waiting for other traffic.
    behaviour.other_traffic =
        evidence.others().filter(|_| bucket.is_none()).map(|share| OtherTraffic { share: (share * 1e3).round() / 1e3 });
    behaviour.jitter = jitter(evidence, behaviour);
}

/// Returns the jitter: delays that vary without load, unless another behaviour explains them.
fn jitter(evidence: &Evidence<'_>, behaviour: &BehaviourReport) -> Option<Jitter> {
    let wander = evidence.wander?;
    let explained = evidence.slows
        || evidence.long_loads() == 0 && evidence.overtaken.is_none()
        || evidence.shared
        || behaviour.slots.is_some()
        || behaviour.other_traffic.is_some()
        || behaviour.varying_rate.is_some()
        || behaviour.aggregation.is_some() && wander.beyond[1] < 2e-3 * behaviour.aggregation?.interval_ms;
    // Packets that wait in order wait for other traffic, or for an unknown reason.
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

/// Determines the rate from the best evidence, or the reason for which it is unknown.
fn rate(findings: &mut Findings, evidence: &Evidence<'_>, bucket: Option<Bucket>, limit: f64) {
    let short = evidence.short;
    let part = if evidence.shared { TURNS } else { 1.0 - AGREE };
    let lasts = |short: &Capacity| !evidence.slows && evidence.lasting.is_none_or(|(rate, _)| rate > part * short.rate);
    // A few trains alone say little: they may fit into a token bucket or a burst.
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
            // Other traffic takes its share of a long load.
            findings.rate = Some(estimate(short.rate, short.interval));
            return;
        }
    }
    let cause = if evidence.slots.is_some() {
        "packets are delivered in time slots"
    } else if evidence.bursts.is_some() {
        "packets arrive in bursts"
    } else if evidence.noisy || evidence.compressed() {
        "delays vary by more than the spacing of packets"
    } else if once {
        "trains arrived at another rate during one period: the link's rate changed, or a token bucket was empty"
    } else if evidence.slows || evidence.lasting.is_some() {
        "long loads and short trains disagree"
    } else {
        "too few trains arrived"
    };
    findings.limited = false;
    match evidence.lasting {
        Some((rate, error)) if !evidence.disperses() && !evidence.slows && QUANTILE * error < VAGUE => {
            let half = QUANTILE * error.max(0.025);
            // Whether the directions share the medium is unknown in this case: the probe's packets in the other
            // direction may take a tenth of it.
            let together = evidence.bursts.is_some() || evidence.squeezed() || evidence.compressed();
            let more = if together { OTHER_WAY } else { 1.0 };
            findings.rate = Some(estimate(rate, [rate / (1.0 + half), rate * (1.0 + half) * more]));
        }
        Some((rate, _)) => {
            let trains =
                short.map_or_else(|| "are inconclusive".to_owned(), |short| format!("arrive at {}", mbps(short.rate)));
            findings.unknown(
                Quantity::Rate,
                format!("{cause}; short trains {trains}, long loads arrive at {}", mbps(rate)),
            );
        }
        None => findings.unknown(Quantity::Rate, format!("{cause}, and no load was long enough to determine the rate")),
    }
}

/// Finds the periods in which the stream used so much of the rate that it may have caused its own losses.
fn own_losses(findings: &mut Findings, evidence: &Evidence<'_>, bucket: Option<Bucket>) {
    let policed = bucket.filter(|bucket| bucket.kind == BucketKind::Policer);
    let course = evidence.varying();
    if findings.rate.is_none() && evidence.loss > 0.0 {
        let reason =
            "the rate is unknown, so losses on the path cannot be distinguished from losses that the probe causes";
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
            // Packets that it added to a queue may cause drops a while later.
            findings.excluded.push([at, at + 2.0 * WINDOW]);
        }
    }
    if 2 * out > all {
        findings.excluded.clear();
        let rate = if policed.is_some() {
            "the policer drops the probe's own packets"
        } else {
            "the path's rate fell below the probe's sending rate"
        };
        findings.unknown(Quantity::Loss, format!("{rate}; other losses cannot be distinguished from these"));
    }
}

/// Returns the 90th percentile of the waiting times of each window, in seconds: a queue that overflowed for a tenth of the window
/// shows in it.
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
