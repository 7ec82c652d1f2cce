//! Values of a lab, computed as the page computes them: requests to `lasthop-answers`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use lasthop_answers::{Catalogue, Part, Request};
use serde_json::Value as Json;
use toml::Value;

use super::expression;
use super::folder;
use super::lab::{Lab, Page, Selection, Shown, Spec, Take, View};
use super::numerals::numerals;

/// Answers of the program by request, and the values so far.
#[derive(Default, Debug)]
pub struct Values {
    answers: Mutex<BTreeMap<(&'static str, String), Vec<Json>>>,
    known: Mutex<BTreeMap<String, f64>>,
}

impl Values {
    /// Returns the value of an expression.
    pub fn number(&self, lab: &Lab, text: &str) -> f64 {
        let value = expression::number(text, &|name| self.value(lab, name));
        value.unwrap_or_else(|error| panic!("{}: {text}: {error}", lab.name))
    }

    /// Returns whether a comparison holds.
    pub fn holds(&self, lab: &Lab, text: &str) -> bool {
        let holds = expression::claim(text, &|name| self.value(lab, name));
        holds.unwrap_or_else(|error| panic!("{}: {text}: {error}", lab.name))
    }

    /// Returns the values of the names in an expression, as text.
    pub fn told(&self, lab: &Lab, text: &str) -> String {
        let known = |name: &String| lab.values.contains_key(name);
        let names = expression::names(text).into_iter().filter(known);
        names.map(|name| format!("{name} = {}", self.value(lab, &name))).collect::<Vec<_>>().join(", ")
    }

    fn value(&self, lab: &Lab, name: &str) -> f64 {
        if let Some(value) = self.known.lock().unwrap().get(name) {
            return *value;
        }
        let spec = lab.values.get(name).unwrap_or_else(|| panic!("{}: there is no value {name}", lab.name));
        let value = match spec {
            Spec::Calculated(text) => self.number(lab, text),
            Spec::Shown(shown) => self.shown(lab, name, shown),
        };
        self.known.lock().unwrap().insert(name.to_owned(), value);
        value
    }

    fn shown(&self, lab: &Lab, name: &str, shown: &Shown) -> f64 {
        let place = format!("{}: {name}", lab.name);
        let view = lab.views.get(&shown.view).unwrap_or_else(|| panic!("{place}: there is no view {}", shown.view));
        let mut words = view.link.clone();
        words.extend(shown.with.clone());
        if let Some(scheme) = shown.scheme.as_ref().filter(|_| shown.metric.is_none()) {
            words.insert("scheme".to_owned(), Value::String(scheme.clone()));
        }
        let number = |found: Option<&Json>| found.and_then(Json::as_f64);
        let value = if let Some(metric) = &shown.metric {
            let lines = self.ask(lab, Request::Compare, &query(&words), &[]);
            let scheme = shown.scheme.as_deref().unwrap_or_else(|| panic!("{place}: expected a scheme"));
            let last = lines.iter().rfind(|line| line["scheme"] == scheme);
            assert_eq!(lines.last().unwrap()["done"], true, "{place}: takes too long for the page");
            number(last.map(|line| &line["measures"][metric]["mean"]))
        } else if shown.without_loss {
            let lines = self.ask(lab, Request::First, &query(&words), &[]);
            number(lines.iter().find_map(|line| line.pointer("/without_loss/throughput")))
        } else if let Some(pointer) = &shown.link {
            number(self.link(lab, view)[0].pointer(pointer))
        } else if let Some(pointer) = &shown.advice {
            let link = self.link(lab, view);
            let scenario = link[0]["scenario"].as_str().unwrap_or_else(|| panic!("{place}: the link lacks something"));
            let words = pick(&words, &["control", "for", "runs"]);
            let lines = self.ask(lab, Request::Advise, &words, scenario.as_bytes());
            number(lines.last().unwrap().pointer(pointer))
        } else {
            let run = &self.ask(lab, Request::Trace, &query(&words), &[])[0];
            match &shown.window {
                Some(at) => self.window(lab, run, at),
                None => self.diagram(lab, run, shown),
            }
        };
        value.unwrap_or_else(|| panic!("{place}: the page shows no such number"))
    }

    /// Returns the congestion window at a time, in KB.
    fn window(&self, lab: &Lab, run: &Json, at: &str) -> Option<f64> {
        let points = run["window"]["series"][0]["points"].as_array()?;
        let points = points.iter().filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)));
        if at == "max" {
            return points.map(|(_, window)| window).reduce(f64::max);
        }
        let at = self.number(lab, at);
        points.take_while(|(time, _)| *time <= at).last().map(|(_, window)| window)
    }

    /// Returns a number of the packets or actions that the packet exchange shows.
    fn diagram(&self, lab: &Lab, run: &Json, shown: &Shown) -> Option<f64> {
        let diagram = &run["diagram"];
        let lane = |index: &Json| diagram["lanes"][index.as_u64().unwrap_or(0) as usize].as_str();
        if let Some(action) = &shown.action {
            let times = diagram["notes"].as_array()?.iter().filter(|note| note["event"] == **action);
            let times: Vec<f64> = times.filter_map(|note| note["time"].as_f64()).map(|time| time / 1e3).collect();
            return match shown.take {
                Take::Count => Some(times.len() as f64),
                Take::LastSent => times.last().copied(),
                _ => times.first().copied(),
            };
        }
        // The fields of an arrow: sent, ended, from, to, kind, fate, number, len, cause.
        let chosen = shown.packets.clone()?;
        let Selection { kind, from, to, fate, cause, number, after, before } = &chosen;
        let evaluated = |text: &Option<String>| text.as_ref().map(|text| self.number(lab, text));
        let (number, after, before) = (evaluated(number), evaluated(after), evaluated(before));
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        let fits = |packet: &&Json| {
            let sent = packet[0].as_f64().unwrap_or(0.0) / 1e3;
            is(kind, packet[4].as_str())
                && is(from, lane(&packet[2]))
                && is(to, lane(&packet[3]))
                && is(fate, packet[5].as_str())
                && is(cause, packet[8].as_str())
                && number.is_none_or(|number| packet[6].as_f64() == Some(number))
                && after.is_none_or(|after| sent >= after)
                && before.is_none_or(|before| sent < before)
        };
        let packets: Vec<&Json> = diagram["packets"].as_array()?.iter().filter(fits).collect();
        let (first, last) = (packets.first(), packets.last());
        match shown.take {
            Take::Count => Some(packets.len() as f64),
            Take::Sent => first?[0].as_f64().map(|time| time / 1e3),
            Take::LastSent => last?[0].as_f64().map(|time| time / 1e3),
            Take::Arrived => first?[1].as_f64().map(|time| time / 1e3),
            Take::LastArrived => last?[1].as_f64().map(|time| time / 1e3),
            Take::Number => first?[6].as_f64(),
            Take::Length => first?[7].as_f64(),
        }
    }

    /// Returns the evaluation of the files of a view.
    fn link(&self, lab: &Lab, view: &View) -> Vec<Json> {
        let mut words = pick(&view.link, &["rate", "delay", "queue", "wire-delay"]);
        let mut body = Vec::new();
        for name in &view.files {
            let bytes = std::fs::read(folder().join("data").join(name)).unwrap();
            words.push_str(&format!("&file={name}%3A{}", bytes.len()));
            body.extend(bytes);
        }
        self.ask(lab, Request::Link, &words, &body)
    }

    /// Returns the answer to a request of the page, as lines of JSON.
    fn ask(&self, lab: &Lab, request: Request, query: &str, body: &[u8]) -> Vec<Json> {
        let key = (request.path(), query.to_owned());
        // Locked while it is computed, so that tests in parallel compute it once; each answer uses all cores.
        let mut answers = self.answers.lock().unwrap();
        if let Some(lines) = answers.get(&key) {
            return lines.clone();
        }
        let catalogue = Catalogue::new(&[]).unwrap();
        let mut lines: Vec<Json> = Vec::new();
        request.answer(&catalogue, query, body, 0, &|| false, &mut |part| match part {
            Part::Whole(answer) => {
                assert_eq!(answer.status, 200, "{}: {query}: {}", lab.name, answer.text);
                lines.push(serde_json::from_str(&answer.text).unwrap());
            }
            Part::Line(line) => lines.push(serde_json::from_str(&line).unwrap()),
        });
        answers.insert(key, lines.clone());
        lines
    }

    /// Returns the numbers that a text of the lab may contain: settings of its links and their changes, the values of
    /// all controls of the views, intervals, and facts.
    pub fn settings(&self, lab: &Lab) -> BTreeSet<String> {
        let mut known: BTreeSet<String> = lab.given.keys().cloned().collect();
        known.insert(lab.minutes.to_string());
        let mut add = |text: &str| {
            let spread: String = text.chars().map(|c| if "={}[],&".contains(c) { ' ' } else { c }).collect();
            known.extend(numerals(&spread));
        };
        for view in lab.views.values() {
            view.link.values().for_each(|value| add(&plain(value)));
            if view.page == Page::Index {
                let lines = self.ask(lab, Request::First, &query(&view.link), &[]);
                let state = &lines[0]["state"];
                state["controls"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .for_each(|it| add(it["text"].as_str().unwrap_or("")));
                add(state["description"].as_str().unwrap_or(""));
                add(state["limit"].as_str().unwrap_or(""));
            }
        }
        for spec in lab.values.values() {
            if let Spec::Shown(shown) = spec {
                shown.with.values().for_each(|value| add(&plain(value)));
            }
        }
        known
    }
}

/// Returns a value as text; of a list all of its items.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => panic!("expected text or a list of texts, found {other:?}"),
    }
}

/// Returns the query of a link, without the parameters that only the page needs.
fn query(words: &BTreeMap<String, Value>) -> String {
    const OF_THE_PAGE: [&str; 5] = ["beside", "find", "tour", "at", "span"];
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (key, value) in words.iter().filter(|(key, _)| !OF_THE_PAGE.contains(&key.as_str())) {
        for item in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            query.append_pair(key, &plain(item));
        }
    }
    query.finish()
}

/// Returns the query of some parameters.
fn pick(words: &BTreeMap<String, Value>, keys: &[&str]) -> String {
    query(
        &words
            .iter()
            .filter(|(key, _)| keys.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}
