//! The page's controls: each one's value in the scenario, the steps of its slider, and the keys that it sets.

use lasthop_proto::tcp::config::Switch;
use lasthop_scenario::Scenario;
use lasthop_scenario::units::{BitRate, ByteSize, Fraction, QueueSize, TimeSpan};
use lasthop_sim::network::{App, Medium, Network, QueueSpec, QuicConfig, Task};
use serde::Serialize;

use crate::loss::{self, Loss};
use crate::refusal::Refusal;
use crate::stops;

/// Control, as the page shows it.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Control {
    /// Parameter of the request that sets the control.
    pub id: String,
    /// Label of the control.
    pub label: String,
    /// Description in one line.
    pub hint: String,
    /// Value as text; that of the request if it sets one.
    pub text: String,
    /// True if the request sets the control.
    pub set: bool,
    /// Values of the control's slider, in order; each is valid in a request.
    pub stops: Vec<String>,
    /// Index of the stop that is nearest to its value.
    pub at: usize,
    /// Keys of the scenario that the control sets.
    pub keys: Vec<String>,
    /// Reason why it cannot be set in this scenario; `None` if it can.
    pub fixed: Option<String>,
}

/// Names and values of a scenario that the controls refer to.
#[derive(Clone, Debug)]
pub struct Facts {
    network: Network,
    /// Index of the lossy link.
    lossy: usize,
    /// Keys for the link's errors, each with the direction whose model it sets (of both, if one key applies to both).
    error_keys: Vec<(String, usize)>,
    transfer: Option<Transfer>,
    limit: TimeSpan,
    runs: u32,
    seed: u64,
    /// Bytes of a full data frame.
    frame: u32,
    /// Keys of links that a trace replaces.
    recorded: Vec<String>,
}

/// First transfer of a scenario.
#[derive(Clone, Debug)]
struct Transfer {
    /// Name in the scenario.
    name: String,
    bytes: u64,
    /// Number of copies, if the scenario has one.
    copies: Option<usize>,
}

/// Maximum loss on the page: beyond it, hardly anything arrives.
const MOST_LOSS: f64 = 0.5;
/// Maximum burst length on the page, in frames.
const LONGEST_BURST: u32 = 100;

impl Facts {
    /// Collects the properties of `scenario` that controls refer to.
    ///
    /// # Errors
    ///
    /// Returns an error if the scenario is invalid under its own scheme.
    pub fn of(scenario: &Scenario) -> Result<Self, lasthop_scenario::Error> {
        let network = scenario.network(scenario.scheme())?;
        let transfer = network.flows.iter().find_map(|flow| {
            let bytes = match flow.app {
                App::Transfer { bytes, .. } => bytes,
                App::Quic(QuicConfig { task: Task::Bulk { bytes }, .. }) => bytes,
                App::Idle | App::OnOff(_) | App::Call(_) | App::Web | App::Quic(_) => return None,
            };
            // Copies are called `bulk#1`, `bulk#2`, ...
            let name = flow.name.split('#').next().unwrap_or_default();
            let copies = network.flows.iter().filter(|other| other.name.split('#').next() == Some(name)).count();
            // A single flow may be left of many.
            let many = copies > 1 || scenario.gives(&format!("flows.{name}.count"));
            Some(Transfer { name: name.to_owned(), bytes, copies: many.then_some(copies) })
        });
        let tcp = network.flows.first().map(|flow| &flow.tcp[0]);
        let options = tcp.map_or(0, |tcp| if tcp.common.timestamps == Switch::On { 12 } else { 0 });
        let frame = tcp.map_or(1500, |tcp| tcp.common.mss) + 40 + options;
        let lossy = lossy_link(scenario, &network);
        let key = |key: &str| format!("links.{}.{key}", network.links[lossy].name);
        let error_keys = match scenario.gives(&key("errors")) {
            true => vec![(key("errors"), 0)],
            false => vec![(key("errors_down"), 0), (key("errors_up"), 1)],
        };
        let recorded = (0..network.links.len()).flat_map(|link| recorded(scenario, &network, link)).collect();
        Ok(Self {
            lossy,
            error_keys,
            transfer,
            limit: TimeSpan(scenario.limit().since(lasthop_proto::time::Instant::ZERO)),
            runs: scenario.runs(),
            seed: scenario.seed(),
            frame,
            recorded,
            network,
        })
    }

    fn link_key(&self, key: &str) -> String {
        format!("links.{}.{key}", self.network.links[self.lossy].name)
    }

    /// Returns the keys for the lossy link's errors that are not replaced by its trace, with their directions.
    fn free_error_keys(&self) -> impl Iterator<Item = &(String, usize)> {
        self.error_keys.iter().filter(|(key, _)| !self.recorded.contains(key))
    }

    /// Returns the reason why a control of these keys cannot be set: traces replace all of them.
    fn fixed(&self, keys: &[String]) -> Option<String> {
        let all = !keys.is_empty() && keys.iter().all(|key| self.recorded.contains(key));
        all.then(|| "determined by the link's trace; to set it here, remove the trace's column".to_owned())
    }

    /// Returns the loss on the lossy link, in the direction with the higher loss.
    fn loss(&self) -> Option<Loss> {
        let ways = self.network.links[self.lossy].directions.iter();
        let ways: Option<Vec<Loss>> = ways.map(|way| loss::of(&way.errors, self.frame)).collect();
        ways?.into_iter().max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// Returns the controls of this scenario, in the page's order. `given` is what the request sets.
    pub fn controls(&self, given: &[(String, String)]) -> Vec<Control> {
        let lossy = &self.network.links[self.lossy];
        let loss = self.loss();
        let error_keys: Vec<String> = self.error_keys.iter().map(|(key, _)| key.clone()).collect();
        let mut controls = vec![
            Control {
                hint: format!("Share of data frames lost on {}, in either direction.", lossy.name),
                keys: error_keys.clone(),
                ..control("loss", "Frames lost", loss.map_or(String::new(), |loss| percent(loss.share)), stops::LOSS)
            },
            Control {
                hint: "Consecutive frames lost; 1: independent losses.".to_owned(),
                keys: error_keys,
                ..control("burst", "Burst length", loss.map_or(String::new(), |loss| short(loss.burst)), stops::BURST)
            },
        ];
        for (index, link) in self.network.links.iter().enumerate() {
            let what = if index == self.lossy { ", the lossy link" } else { "" };
            controls.push(Control {
                hint: format!("One-way delay of {}{what}.", link.name),
                keys: vec![format!("links.{}.delay", link.name)],
                ..control(
                    &format!("delay.{}", link.name),
                    &format!("Delay, {}", link.name),
                    TimeSpan(link.delay).to_string(),
                    stops::DELAY,
                )
            });
        }
        let way = &lossy.directions[0];
        if !lossy.medium.chooses_rates() {
            controls.push(Control {
                hint: format!("Capacity of {}.", lossy.name),
                keys: vec![self.link_key("rate")],
                ..control("rate", &format!("Rate, {}", lossy.name), BitRate::from(way.rate).to_string(), stops::RATE)
            });
        }
        // With active queue management the limit is a key of the queue's table.
        let key = if matches!(way.queue, QueueSpec::Fifo(_)) { "queue" } else { "queue.limit" };
        let queue = QueueSize::from(way.queue.limit());
        let queue_stops = if matches!(queue, QueueSize::Bytes(_)) { stops::QUEUE_BYTES } else { stops::QUEUE };
        // The default of Wi-Fi is a table that the scenario does not contain.
        if !matches!(lossy.medium, Medium::Wifi { .. }) {
            controls.push(Control {
                hint: format!("Maximum queue in front of {}.", lossy.name),
                keys: vec![self.link_key(key)],
                ..control("queue", "Queue", queue.to_string(), queue_stops)
            });
        }
        if let Some(flow) = self.network.flows.first() {
            let buffer = ByteSize(flow.tcp[0].common.send_buffer.into());
            controls.push(Control {
                hint: "Buffer of each end, which limits the window.".to_owned(),
                keys: ["socket_buffer", "send_buffer", "receive_buffer"].map(|key| format!("tcp.{key}")).into(),
                ..control("window", "Socket buffer", buffer.to_string(), stops::WINDOW)
            });
        }
        match &self.transfer {
            Some(Transfer { name, bytes, copies }) => {
                controls.push(Control {
                    hint: "Bytes to transfer.".to_owned(),
                    keys: vec![format!("flows.{name}.size")],
                    ..control("size", "Transfer", ByteSize(*bytes).to_string(), stops::SIZE)
                });
                if let Some(copies) = copies {
                    controls.push(Control {
                        hint: "Parallel transfers.".to_owned(),
                        keys: vec![format!("flows.{name}.count")],
                        ..control("count", "Flows", copies.to_string(), stops::COUNT)
                    });
                }
            }
            None => controls.push(Control {
                hint: "Duration of a run.".to_owned(),
                keys: vec!["limit".to_owned()],
                ..control("limit", "Time", self.limit.to_string(), stops::LIMIT)
            }),
        }
        controls.push(Control {
            hint: "Runs per scheme, each with its own errors; more runs narrow the interval.".to_owned(),
            keys: vec!["runs".to_owned()],
            ..control("runs", "Runs", self.runs.to_string(), stops::RUNS)
        });
        controls.push(Control {
            hint: "The same seed gives the same numbers.".to_owned(),
            keys: vec!["seed".to_owned()],
            ..control("seed", "Seed", self.seed.to_string(), stops::SEED)
        });
        for control in &mut controls {
            control.fixed = self.fixed(&control.keys);
            if let Some((_, text)) = given.iter().find(|(id, _)| *id == control.id) {
                control.text.clone_from(text);
                control.set = true;
            }
            control.at = nearest(&control.text, &control.stops);
        }
        controls
    }

    /// Returns the keys and values that set the controls of this scenario to `given`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such control, or loss or burst length is invalid.
    pub fn overrides(&self, given: &[(String, String)]) -> Result<Vec<(String, String)>, Refusal> {
        let controls = self.controls(&[]);
        let mut overrides = Vec::new();
        let (mut share, mut burst) = (None, None);
        for (id, text) in given {
            let Some(control) = controls.iter().find(|control| control.id == *id) else {
                let known: Vec<_> = controls.iter().map(|control| control.id.as_str()).collect();
                return Err(Refusal::of(id, format!("no such control; expected one of {}", known.join(", "))));
            };
            if let Some(reason) = &control.fixed {
                return Err(Refusal::of(id, format!("cannot be set: {reason}")));
            }
            match id.as_str() {
                "loss" => share = Some(read_share(text)?),
                "burst" => burst = Some(read_burst(text)?),
                _ => overrides.push((control.keys[0].clone(), text.clone())),
            }
        }
        if share.is_none() && burst.is_none() {
            return Ok(overrides);
        }
        let lossy = &self.network.links[self.lossy];
        let is_recorded =
            |way: usize| self.error_keys.iter().any(|(key, of)| *of == way && self.recorded.contains(key));
        let mut ways = lossy.directions.iter().enumerate().filter(|(way, _)| !is_recorded(*way));
        let lossless = ways.all(|(_, way)| loss::of(&way.errors, self.frame).is_some_and(|l| l.share == 0.0));
        for (key, way) in self.free_error_keys() {
            let way = &lossy.directions[*way];
            let own = loss::of(&way.errors, self.frame);
            // A direction without losses of its own stays lossless beside one with losses.
            if own.is_some_and(|own| own.share == 0.0) && !lossless {
                continue;
            }
            let own = own.unwrap_or(Loss { share: 0.0, burst: 1.0 });
            let wanted = Loss { share: share.unwrap_or(own.share), burst: burst.unwrap_or(own.burst) };
            overrides.push((key.clone(), loss::model(&way.errors, wanted, self.frame)));
        }
        Ok(overrides)
    }
}

/// Returns the link that the schemes are about: the one at which the base station, or another element of the scenario,
/// acts; otherwise the last one that loses frames.
fn lossy_link(scenario: &Scenario, network: &Network) -> usize {
    let helped =
        lasthop_proto::scheme::Scheme::by_name("LL-TCP-AWARE").and_then(|scheme| scenario.network(scheme).ok());
    let element = helped.iter().chain([network]).find_map(|network| network.elements.first());
    let lossy = |link: &lasthop_sim::network::LinkSpec| {
        link.directions.iter().any(|way| way.errors != lasthop_proto::channel::ErrorSpec::None)
    };
    let last = network.links.len().saturating_sub(1);
    element.map_or_else(|| network.links.iter().rposition(lossy).unwrap_or(last), |element| element.link.0)
}

fn control(id: &str, label: &str, text: String, stops: &[&str]) -> Control {
    Control {
        id: id.to_owned(),
        label: label.to_owned(),
        hint: String::new(),
        text,
        set: false,
        stops: stops.iter().map(|stop| (*stop).to_owned()).collect(),
        at: 0,
        keys: Vec::new(),
        fixed: None,
    }
}

/// Returns the keys of a link that have no effect, or cannot be set, because of its trace: each is tried with two
/// values.
fn recorded(scenario: &Scenario, network: &Network, link: usize) -> Vec<String> {
    let spec = &network.links[link];
    let key = |key: &str| format!("links.{}.{key}", spec.name);
    if !scenario.gives(&key("trace")) {
        return Vec::new();
    }
    let errors = ["{ model = \"none\" }", "{ model = \"uniform\", frame_loss = 0.5 }"];
    let keys =
        [("delay", ["1 us", "1 s"]), ("rate", ["1 kbps", "1 Gbps"]), ("errors_down", errors), ("errors_up", errors)];
    let has_effect = |key: &str, value: &str| {
        let other = scenario.with_overrides(&[(key, value)]).and_then(|other| other.network(other.scheme()));
        other.is_ok_and(|other| other.links.get(link) != Some(spec))
    };
    let of_trace = keys.into_iter().map(|(name, values)| (key(name), values));
    of_trace.filter(|(key, values)| !values.iter().any(|value| has_effect(key, value))).map(|(key, _)| key).collect()
}

fn read_share(text: &str) -> Result<f64, Refusal> {
    let refuse = |reason: &str| {
        Refusal::of(
            "loss",
            format!("cannot be \"{text}\" ({reason}); give a share from 0 % to 50 %, e.g. \"2.2 %\" or 0.022"),
        )
    };
    let share: Fraction =
        text.parse().map_err(|error: lasthop_scenario::units::UnitError| refuse(&error.to_string()))?;
    if share.get() > MOST_LOSS { Err(refuse("it is more than 50 %")) } else { Ok(share.get()) }
}

fn read_burst(text: &str) -> Result<f64, Refusal> {
    match text.trim().parse::<u32>() {
        Ok(frames) if (1..=LONGEST_BURST).contains(&frames) => Ok(f64::from(frames)),
        _ => {
            let message = format!("cannot be \"{text}\"; give a whole number of frames from 1 to {LONGEST_BURST}");
            Err(Refusal::of("burst", message))
        }
    }
}

/// Returns the index of the stop nearest to `text` by ratio; 0 if that is not a number.
fn nearest(text: &str, stops: &[String]) -> usize {
    let Some(value) = number(text) else { return 0 };
    // On this scale, zero lies below the lowest positive stop.
    let height = |value: f64| value.max(1e-12).ln();
    let distance = |stop: &String| number(stop).map_or(f64::INFINITY, |stop| (height(stop) - height(value)).abs());
    let nearest = stops.iter().enumerate().min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    nearest.map_or(0, |(index, _)| index)
}

/// Returns the number of a text with or without a unit, in the smallest unit.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let share = || text.parse::<Fraction>().ok().map(Fraction::get);
    let span = || text.parse::<TimeSpan>().ok().map(|TimeSpan(span)| span.as_nanos() as f64);
    let rate = || text.parse::<BitRate>().ok().map(|BitRate(rate)| rate as f64);
    let size = || {
        text.parse::<QueueSize>().ok().map(|size| match size {
            QueueSize::Packets(packets) => f64::from(packets),
            QueueSize::Bytes(ByteSize(bytes)) => bytes as f64,
        })
    };
    let plain = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    plain().or_else(share).or_else(span).or_else(rate).or_else(size)
}

/// Formats a share for display: `2.17 %`.
fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// Formats up to three significant digits.
fn short(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
#[path = "controls_tests.rs"]
mod tests;
