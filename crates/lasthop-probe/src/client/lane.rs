//! Orders of one direction, as the caller issues them.

use std::collections::VecDeque;

use lasthop_proto::time::{Duration, Instant};

use crate::estimate::{Known, Log, Overload, Purpose, capacity, delays, losses, planned, queue};
use crate::order::{Order, SMALLEST, Stream, Task, Train, Trains};
use crate::plan::{Path, Plan, Step};

/// Minimum share of the planned rate that the path must have; below it, the plan slows down.
const SLOWER: f64 = 0.7;
/// Maximum pace of loads, as a multiple of the planned rate; trains may suggest a higher one.
const MOST_FASTER: f64 = 1.5;

/// Orders of one direction and their purposes.
#[derive(Default)]
pub(super) struct Lane {
    /// Purposes by order number, from 1.
    purposes: Vec<Purpose>,
    waiting: VecDeque<Order>,
    /// Time to repeat the first order.
    again: Option<Instant>,
    plan: Option<(Plan, Path)>,
    steps: VecDeque<(Instant, Purpose)>,
    overloads: [usize; 2],
    loads: usize,
    /// Beginning and end of the plan.
    began: Instant,
    until: Instant,
    /// End of the first two seconds, in seconds of the sender's clock.
    pub settled: f64,
}

impl Lane {
    /// Appends an order.
    pub(super) fn add(&mut self, purpose: Purpose, task: Task, rest: [Duration; 2]) {
        self.purposes.push(purpose);
        self.waiting.push_back(crate::plan::order(self.purposes.len() as u16, task, rest));
    }

    /// Cancels all orders that have not been sent, and replaces the running stream or trains by one that
    /// ends at once.
    pub(super) fn end(&mut self) {
        self.steps.clear();
        // The first order may have been accepted already.
        while self.waiting.len() > 1 {
            self.waiting.pop_back();
            self.purposes.pop();
        }
        if self.purposes.contains(&Purpose::Train) {
            let train = Train { count: 1, size: SMALLEST, gap: Duration::ZERO };
            let last = Trains { seed: 0, shift: 0, train, interval: Duration::from_millis(1), number: 1 };
            self.add(Purpose::Quiet, Task::Trains(last), [Duration::ZERO; 2]);
        } else if let Some((plan, _)) = &self.plan {
            let stream = Stream { lasts: Duration::ZERO, ..plan.stream };
            self.add(Purpose::Stream, Task::Stream(stream), [Duration::ZERO; 2]);
        }
    }

    /// Returns the purpose of an order.
    pub(super) fn purpose(&self, order: u16) -> Purpose {
        let at = usize::from(order).checked_sub(1);
        at.and_then(|at| self.purposes.get(at)).copied().unwrap_or(Purpose::Protocol)
    }

    /// Returns the first order if it has to be sent now. It is repeated until it is accepted.
    pub(super) fn due(&mut self, now: Instant, again: Duration) -> Option<Order> {
        let order = *self.waiting.front()?;
        if self.again.is_some_and(|at| now < at) {
            return None;
        }
        self.again = Some(now + again);
        Some(order)
    }

    /// Records that order `id` was accepted.
    pub(super) fn taken(&mut self, id: u16) {
        if self.waiting.front().is_some_and(|order| order.id == id) {
            self.waiting.pop_front();
            self.again = None;
        }
    }

    /// Starts the plan, or only takes note of it if it is not `executed`.
    pub(super) fn begin(&mut self, now: Instant, until: Instant, path: Path, plan: Plan, settled: f64, executed: bool) {
        (self.began, self.until) = (now, until);
        self.settled = settled;
        if executed {
            self.steps = plan.steps.iter().map(|Step { at, purpose }| (now + *at, *purpose)).collect();
            self.add(Purpose::Stream, Task::Stream(plan.stream), [Duration::ZERO; 2]);
        }
        self.plan = Some((plan, path));
    }

    /// Returns whether the other end has accepted all orders so far.
    pub(super) fn is_accepted(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the time of the next step or of the next transmission of an order.
    pub(super) fn next_step(&self) -> Option<Instant> {
        let order = self.waiting.front().map(|_| self.again.unwrap_or(Instant::ZERO));
        self.steps.front().map(|(at, _)| *at).into_iter().chain(order).min()
    }

    /// Returns the next step of the plan if it is due.
    pub(super) fn step(&mut self, now: Instant) -> Option<Purpose> {
        let (at, purpose) = *self.steps.front()?;
        (at <= now).then(|| self.steps.pop_front())?;
        Some(purpose)
    }

    /// Returns the known properties of the direction, once there is a plan.
    pub(super) fn path(&self) -> Option<Path> {
        self.plan.as_ref().map(|(_, path)| *path)
    }

    /// Returns the plan's total byte budget for trains.
    pub(super) fn budget(&self) -> f64 {
        self.plan.as_ref().map_or(0.0, |(plan, _)| plan.budget())
    }

    /// Deducts the cost of a train from the budget; returns false if too little is left.
    pub(super) fn pay(&mut self, train: Train) -> bool {
        self.plan.as_mut().is_some_and(|(plan, _)| plan.pay(train).is_some())
    }

    /// Returns the next train that measures the rate, if the budget allows it.
    pub(super) fn capacity(&mut self) -> Option<Train> {
        self.plan.as_mut()?.0.capacity()
    }

    /// Reduces the rate of the plan if `log` shows that the path is much slower than planned.
    pub(super) fn slow_down(&mut self, now: Instant, log: &Log) {
        let Some((plan, path)) = &mut self.plan else { return };
        let Some(rate) = planned(log, capacity(log).map(|found| found.rate)) else { return };
        if rate < SLOWER * path.rate && now < self.until {
            path.rate = rate;
            let later = log.packets.iter().filter(|packet| packet.sent > self.settled);
            let sent = later.map(|packet| f64::from(packet.size)).sum();
            let stream = plan.slow_down(rate, self.until.since(now), sent, now.since(self.began));
            self.add(Purpose::Stream, Task::Stream(stream), [Duration::ZERO; 2]);
        }
    }

    /// Orders a load, as several trains if it is long. `log` contains the packets so far.
    fn load(&mut self, log: &Log) {
        let Some((plan, path)) = &mut self.plan else { return };
        let rate = capacity(log).map_or(path.rate, |found| found.rate.min(path.rate * MOST_FASTER));
        let (path, number) = (*path, self.loads);
        let trains = plan.load(rate, number);
        self.loads += 1;
        let count = trains.len();
        for (at, train) in trains.into_iter().enumerate() {
            let [before, after] = Plan::rest(path, Task::Train(train));
            let rest =
                [if at == 0 { before } else { Duration::ZERO }, if at + 1 == count { after } else { Duration::ZERO }];
            self.add(Purpose::Load, Task::Train(train), rest);
        }
    }

    /// Orders a step of the plan if the budget allows it. `log` contains the packets so far.
    pub(super) fn plan(&mut self, purpose: Purpose, log: Option<&Log>, ladder: Duration) {
        if let (Purpose::Load, Some(log)) = (purpose, log) {
            self.load(log);
            return;
        }
        let Some((plan, path)) = &mut self.plan else { return };
        let path = *path;
        let task = match purpose {
            Purpose::Capacity => plan.capacity().map(Task::Train),
            Purpose::Ladder => Some(Task::Ladder(ladder)),
            Purpose::Overload => {
                let sizes = Plan::sizes(path);
                let found = log.map_or([None, None], |log| overloads(log, path, sizes));
                let task = plan.overload(found, self.overloads);
                if let Some(Task::Train(train)) = task {
                    self.overloads[usize::from(train.size != sizes[0])] += 1;
                }
                task
            }
            Purpose::Protocol
            | Purpose::Stream
            | Purpose::Both
            | Purpose::Small
            | Purpose::Quiet
            | Purpose::Check
            | Purpose::Train
            | Purpose::Load => None,
        };
        if let Some(task) = task {
            self.add(purpose, task, Plan::rest(path, task));
        }
    }
}

/// Returns what the overloads with packets of these sizes show so far.
fn overloads(log: &Log, path: Path, sizes: [u16; 2]) -> [Option<Overload>; 2] {
    let rate = capacity(log).map_or(path.rate, |found| found.rate);
    let Some(base) = delays(log, rate).map(|delays| delays.base) else { return [None, None] };
    let lost: Vec<bool> = log.of(Purpose::Stream).map(|packet| packet.arrived.is_none()).collect();
    let known = Known { rate, base, loss: losses(&lost).share };
    sizes.map(|size| queue(log, size, known))
}
