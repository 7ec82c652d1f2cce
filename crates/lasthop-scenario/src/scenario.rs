//! Public interface of a scenario.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_proto::scheme::{BaseStation, Ends, Family, SCHEMES, Scheme};
use lasthop_proto::tcp::config::Recovery;
use lasthop_proto::time::Instant;
use lasthop_sim::network::Network;

use crate::builtin::{BUILTINS, builtin_names};
use crate::customer::Customer;
use crate::decided;
use crate::document;
use crate::explain;
use crate::files::{Files, Traces};
use crate::lab::LabSpec;
use crate::measurement::{Alternative, Measurement};
use crate::reader::{Context, Entry, Modern, Reader};
use crate::resolve::{self, FixedAt};
use crate::spec::{self, Spec};
use crate::tcp_effect::{self, Given, Idle};
use crate::traffic::{self, Traffic};
use crate::{Error, Place, Problem, Spot, did_you_mean};
use lasthop_settings::one_line::one_line;
use lasthop_settings::read_limited;

/// Last header line of an explained scenario.
const AFTER: &str = "Comments give the origin of each value.";

/// Maximum size of a scenario file, in bytes.
const LARGEST_FILE: u64 = 4 << 20;

/// A scenario: hosts, links, flows and TCP settings. A scheme turns it into a network.
///
/// Two scenarios are equal if they have the same meaning, regardless of file and wording.
#[derive(Clone)]
pub struct Scenario {
    source: Source,
    spec: Spec,
    ledger: Vec<Entry>,
    traces: Arc<Traces>,
    sealed: bool,
}

/// Source of a scenario, sufficient to create it again with other values, or in another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Name of the file in messages.
    pub file: String,
    /// Text of the file.
    pub text: String,
    /// Base of relative paths in the scenario.
    pub directory: PathBuf,
    /// Dotted keys and the values that they were set to, in that order.
    pub overrides: Vec<(String, String)>,
    /// Device at the customer's side of a hop, which replaces its own base station.
    pub customer: Option<Customer>,
    /// Traffic that replaces its own transfers.
    pub traffic: Option<Traffic>,
}

impl Scenario {
    /// Reads the scenario file at `path`. Paths in it are relative to its directory.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let fail = |error| Error::new(Place { file: file.clone(), spot: Spot::Whole }, None, Problem::Read(error));
        let bytes = read_limited(path, LARGEST_FILE).map_err(fail)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
            let problem = Problem::Syntax { message: "it is not UTF-8 text".to_owned(), line: None, hint: None };
            Error::new(Place { file: file.clone(), spot: Spot::Line(line) }, None, problem)
        })?;
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Source { file, text, directory, overrides: Vec::new(), customer: None, traffic: None }.read(None)
    }

    /// Parses a scenario from its text; `name` identifies it in messages. Paths in it are relative to the current
    /// directory.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let source = Source {
            file: name.to_owned(),
            text: text.to_owned(),
            directory: PathBuf::new(),
            overrides: Vec::new(),
            customer: None,
            traffic: None,
        };
        source.read(None)
    }

    /// Parses an untrusted text as [`parse`](Self::parse) does, with the effect of [`sealed`](Self::sealed): no file is
    /// opened, so no trace can be replayed.
    pub fn parse_sealed(name: &str, text: &str) -> Result<Self, Error> {
        let (file, text) = (name.to_owned(), text.to_owned());
        let source =
            Source { file, text, directory: PathBuf::new(), overrides: Vec::new(), customer: None, traffic: None };
        source.read(Some(Arc::default()))
    }

    /// Returns the built-in scenario of that name (see [`builtin_names`]).
    pub fn builtin(name: &str) -> Result<Self, Error> {
        match BUILTINS.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Self::parse(name, text),
            None => {
                let near = did_you_mean(name, builtin_names()).map(str::to_owned);
                let known = builtin_names().map(str::to_owned).collect();
                let problem = Problem::UnknownName { what: "ready-made scenario", given: name.to_owned(), near, known };
                Err(Error::new(Place { file: name.to_owned(), spot: Spot::Whole }, None, problem))
            }
        }
    }

    /// Returns the text of the built-in scenario of that name, as a template.
    pub fn builtin_text(name: &str) -> Option<&'static str> {
        BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Opens the scenario that a user calls `name`: a file if the name has an extension or a path separator; otherwise
    /// the built-in scenario of that name, and a file only if there is no such scenario. So a file in the current
    /// directory never replaces a built-in scenario ([`shadowed_file`](Self::shadowed_file)).
    pub fn open(name: &str) -> Result<Self, Error> {
        let path = Path::new(name);
        let looks_like_file = path.extension().is_some() || name.contains(['/', '\\']);
        let is_builtin = Self::builtin_text(name).is_some();
        if looks_like_file || !is_builtin && path.is_file() { Self::load(path) } else { Self::builtin(name) }
    }

    /// Returns the file in the current directory that `name` would refer to without the built-in scenario of that name.
    /// The file is not opened.
    pub fn shadowed_file(name: &str) -> Option<String> {
        let shadowed = Self::builtin_text(name).is_some() && Path::new(name).is_file();
        shadowed.then(|| format!("./{name}"))
    }

    /// Returns the scenario with other values, each a dotted key and its value: `("links.wireless.rate", "1 Mbps")`.
    ///
    /// TOML values (`8`, `0.02`, `true`, `{ model = "none" }`) are parsed; all others are strings. Keys that are not in
    /// the file are added, but not new hosts, routers, links, flows and elements.
    pub fn with_overrides<K: AsRef<str>, V: AsRef<str>>(&self, values: &[(K, V)]) -> Result<Self, Error> {
        let mut source = self.source.clone();
        source.overrides.extend(values.iter().map(|(key, value)| (key.as_ref().to_owned(), value.as_ref().to_owned())));
        source.read(self.sealed.then(|| Arc::clone(&self.traces)))
    }

    /// Returns the scenario with `traffic` in place of its transfers and web sessions, between the hosts of the first
    /// of them. On-off sources remain.
    pub fn with_traffic(&self, traffic: Traffic) -> Result<Self, Error> {
        let source = Source { traffic: Some(traffic), ..self.source.clone() };
        source.read(self.sealed.then(|| Arc::clone(&self.traces)))
    }

    /// Returns the scenario with a device at the customer's side in place of its base station.
    pub(crate) fn with_customer(&self, customer: Customer) -> Result<Self, Error> {
        let source = Source { customer: Some(customer), ..self.source.clone() };
        source.read(self.sealed.then(|| Arc::clone(&self.traces)))
    }

    /// Returns the scenario for use with untrusted values: [`with_overrides`](Self::with_overrides) then opens no file,
    /// and can replay only traces that were already read.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.sealed = true;
        self
    }

    /// Returns whether the scenario has a value at this dotted path, in its file or set from outside, instead of a
    /// default.
    pub fn gives(&self, path: &str) -> bool {
        let set = self.source.overrides.iter().any(|(key, _)| key == path);
        set || document::parse(&self.source.file, &self.source.text).is_ok_and(|root| root.has(path))
    }

    /// Returns digests of the bytes of the files that the scenario names, ordered by path. Their names are part of
    /// [`explain`](Self::explain).
    pub fn file_digests(&self) -> impl Iterator<Item = u64> {
        self.traces.digests()
    }

    /// Returns whether the scenario has a base station.
    pub(crate) fn has_base_station(&self) -> bool {
        self.spec.base_station.is_some()
    }

    /// Returns the names of the base station's router and link, if the scenario has one.
    pub(crate) fn base_station(&self) -> Option<(&str, &str)> {
        let port = &self.spec.base_station.as_ref()?.port;
        Some((self.spec.nodes.name(port.router), &self.spec.links[port.link].name))
    }

    /// Returns the network of this scenario under `scheme`. Fails if the scheme has a part at the base station, and the
    /// scenario has no `[base_station]`.
    ///
    /// Under a modern scheme the endpoints are modern: the scenario's if they are, otherwise Linux's, combined with the
    /// scenario's own settings. This may fail if the two are incompatible.
    pub fn network(&self, scheme: &Scheme) -> Result<Network, Error> {
        let (spec, _) = self.under(scheme)?;
        resolve::network(&spec, scheme).map_err(|_| self.source.no_base_station(scheme))
    }

    /// Returns the scenario with endpoints for `scheme`, and its ledger.
    fn under(&self, scheme: &Scheme) -> Result<(Cow<'_, Spec>, Cow<'_, [Entry]>), Error> {
        let Ends::Modern(congestion) = scheme.ends else {
            return Ok((Cow::Borrowed(&self.spec), Cow::Borrowed(&self.ledger)));
        };
        // Traces were already read, so no file is needed.
        let files = Files::new(&self.source.directory, Some(Arc::clone(&self.traces)));
        let (spec, ledger) = self.source.spec(&files, Some(Modern { scheme: scheme.name, congestion }))?;
        Ok((Cow::Owned(spec), Cow::Owned(ledger)))
    }

    /// Returns the key by which the scenario contradicts the name of `scheme`, about loss recovery or congestion
    /// control; `None` if the scheme agrees with its name.
    pub fn fixes(&self, scheme: &Scheme) -> Option<String> {
        let (spec, _) = self.under(scheme).ok()?;
        self.fixed_in(&spec, scheme)
    }

    /// Implements [`Self::fixes`] for a `spec` with endpoints for `scheme`.
    fn fixed_in(&self, spec: &Spec, scheme: &Scheme) -> Option<String> {
        let at = resolve::fixed(spec, scheme)?;
        let of_host = |host: usize, key: &str| format!("hosts.{}.tcp.{key}", spec.nodes.hosts[host].name);
        let (own, key) = match at {
            FixedAt::Recovery(host) => (of_host(host, "recovery"), "recovery"),
            FixedAt::Congestion(host) => (of_host(host, "congestion"), "congestion"),
            FixedAt::RelayRecovery => ("base_station.wireless_tcp.recovery".to_owned(), "recovery"),
            FixedAt::RelayCongestion => return Some("base_station.split.wireless.congestion".to_owned()),
        };
        let shared = format!("tcp.{key}");
        Some(if self.gives(&own) {
            own
        } else if self.gives(&shared) {
            shared
        } else {
            "tcp.preset".to_owned()
        })
    }

    /// Returns the TCP keys that are given although no endpoint reads them under any of `schemes`, each with its
    /// message. Values of a preset do not count. A key in the file counts as read if the unmodified file has a reader
    /// for it, under `schemes` or under its own scheme, since options may override the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the scenario is not a valid network under one of `schemes`.
    pub fn idle_keys(&self, schemes: &[&'static Scheme]) -> Result<Vec<Idle>, Error> {
        let root = self.source.root()?;
        let given = tcp_effect::given(&root);
        let (of_file, from_outside): (Vec<Given<'_>>, Vec<Given<'_>>) = given.into_iter().partition(Given::is_in_file);
        let networks = |scenario: &Self, schemes: &[&'static Scheme]| {
            let network = |scheme: &&'static Scheme| Ok((*scheme, scenario.network(scheme)?));
            schemes.iter().map(network).collect::<Result<Vec<_>, Error>>()
        };
        let idle = |scenario: &Self, given: &[Given<'_>], networks: &[(&'static Scheme, Network)]| {
            let networks: Vec<(&Scheme, &Network)> =
                networks.iter().map(|(scheme, network)| (*scheme, network)).collect();
            let of = |given: &Given<'_>| given.idle_in(&self.source.file, &scenario.spec, &networks);
            given.iter().filter_map(of).collect::<Vec<Idle>>()
        };
        let here = networks(self, schemes)?;
        let mut found = idle(self, &from_outside, &here);
        let suspects: Vec<Given<'_>> = {
            let suspect = idle(self, &of_file, &here);
            of_file.into_iter().filter(|given| suspect.iter().any(|idle| idle.key == given.path())).collect()
        };
        if suspects.is_empty() {
            return Ok(found);
        }
        let source = Source { overrides: Vec::new(), customer: None, traffic: None, ..self.source.clone() };
        let Ok(file) = source.read(self.sealed.then(|| Arc::clone(&self.traces))) else { return Ok(found) };
        let own = [schemes, &[file.scheme()]].concat();
        let Ok(there) = networks(&file, &own) else { return Ok(found) };
        found.extend(idle(&file, &suspects, &there));
        Ok(found)
    }

    /// Rejects TCP keys without effect: the first of [`idle_keys`](Self::idle_keys).
    ///
    /// # Errors
    ///
    /// Returns an error with the key, the given value, its requirement, and alternatives.
    pub fn check_effects(&self, schemes: &[&'static Scheme]) -> Result<(), Error> {
        self.idle_keys(schemes)?.into_iter().next().map_or(Ok(()), |idle| Err(idle.error))
    }

    /// Returns whether all senders of data have modern endpoints under any scheme.
    pub fn is_modern(&self) -> bool {
        let mut senders = resolve::senders(&self.spec).peekable();
        let today = |host: usize| self.spec.nodes.hosts[host].tcp.recovery == Some(Recovery::Rack);
        senders.peek().is_some() && senders.all(today)
    }

    /// Returns the schemes to compare by default: with modern endpoints the modern ones, if the scenario has a base
    /// station for them, and the scenario's own if it has a part at the base station; otherwise those of the studies.
    pub fn usual_schemes(&self) -> Vec<&'static Scheme> {
        let modern = |scheme: &&Scheme| scheme.family == Family::Modern;
        if !modern(&self.scheme()) && !self.is_modern() {
            let others = [Family::Modern, Family::OneSided, Family::TwoEnded, Family::Discussed];
            let of_studies = |scheme: &&Scheme| !others.contains(&scheme.family);
            return SCHEMES.iter().filter(of_studies).collect();
        }
        let fits = |scheme: &&Scheme| scheme.base_station == BaseStation::Forward || self.spec.base_station.is_some();
        // With modern endpoints, the end-to-end schemes of the studies run the endpoints' preset.
        let own = Some(self.scheme()).filter(|own| !modern(own) && own.base_station != BaseStation::Forward);
        own.into_iter().chain(SCHEMES.iter().filter(modern).filter(fits)).collect()
    }

    /// Returns the scenario as TOML with every default, each value with a remark on its origin. The text is a scenario
    /// equal to this one.
    pub fn explain(&self) -> String {
        let head = format!("{}, with every default", self.source.file);
        let ledger = match self.network(self.spec.scheme) {
            Ok(network) => with_effects(&self.ledger, &self.spec, &network),
            Err(_) => self.ledger.clone(),
        };
        explain::write(&[head, AFTER.to_owned()], &ledger)
    }

    /// Returns the text of [`explain`](Self::explain) under `scheme`: with the endpoints of that run, and header lines
    /// with the scheme's decisions about them and the base station.
    pub fn explain_under(&self, scheme: &Scheme) -> Result<String, Error> {
        let (spec, ledger) = self.under(scheme)?;
        let network = resolve::network(&spec, scheme).map_err(|_| self.source.no_base_station(scheme))?;
        let head = format!("{} under {}, with every default", self.source.file, scheme.name);
        let mut lines = vec![head];
        let fixed = self.fixed_in(&spec, scheme);
        lines.extend(fixed.map(|key| format!("{}: modified: {key} is set", scheme.name)));
        lines.extend(decided::lines(&spec, &network));
        lines.push(AFTER.to_owned());
        Ok(explain::write(&lines, &with_effects(&ledger, &spec, &network)))
    }

    /// Returns the scenario as TOML with every default: keys and values of [`explain`](Self::explain), without remarks.
    /// The text is a scenario equal to this one.
    pub fn to_toml(&self) -> String {
        explain::write_values(&self.ledger)
    }

    /// Returns the scenario's source.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Creates a scenario again.
    pub fn from_source(source: Source) -> Result<Self, Error> {
        source.read(None)
    }

    /// Returns the file's name, as it was given, or the name of a built-in scenario.
    pub fn file(&self) -> &str {
        &self.source.file
    }

    /// Returns the scenario's title, one line.
    pub fn title(&self) -> &str {
        &self.spec.title
    }

    /// Returns the scenario's description.
    pub fn description(&self) -> Option<&str> {
        self.spec.description.as_deref()
    }

    /// Returns the default scheme.
    pub fn scheme(&self) -> &'static Scheme {
        self.spec.scheme
    }

    /// Returns the default number of runs.
    pub fn runs(&self) -> u32 {
        self.spec.runs
    }

    /// Returns the default root seed.
    pub fn seed(&self) -> u64 {
        self.spec.seed
    }

    /// Returns the notes about the measurement from which the scenario was created.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.spec.measurement.as_ref()
    }

    /// Returns the scenario with each other value that its measurement allows, one at a time, with the name of the
    /// value.
    ///
    /// # Errors
    ///
    /// Returns an error if such a value is invalid.
    pub fn alternatives(&self) -> Result<Vec<(String, Self)>, Error> {
        let alternatives = self.measurement().map(|it| it.alternatives.as_slice()).unwrap_or_default();
        let with = |it: &Alternative| Ok((it.name.clone(), self.with_overrides(&[(&it.key, &it.value)])?));
        alternatives.iter().map(with).collect()
    }

    /// Returns the settings of the lab.
    pub fn lab(&self) -> &LabSpec {
        &self.spec.lab
    }

    /// Returns the latest end of a run.
    pub fn limit(&self) -> Instant {
        self.spec.limit
    }
}

/// Returns the ledger with a remark at each TCP key that no endpoint in `network` reads.
fn with_effects(ledger: &[Entry], spec: &Spec, network: &Network) -> Vec<Entry> {
    let remarked = |entry: &Entry| {
        let mut entry = entry.clone();
        let is_tcp = entry.table == "tcp" || entry.table.ends_with(".tcp") || entry.table.ends_with("_tcp");
        if let Some(key) = entry.key.filter(|_| is_tcp) {
            let endpoints = tcp_effect::endpoints(&entry.table, spec, network);
            if let Some(remark) = tcp_effect::remark(key, &endpoints) {
                entry.source = format!("{}; {remark}", entry.source);
            }
        }
        entry
    };
    ledger.iter().map(remarked).collect()
}

impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("file", &self.source.file).field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Source {
    /// Reads the scenario. With `sealed`, no file is opened, and only these traces are known.
    fn read(self, sealed: Option<Arc<Traces>>) -> Result<Scenario, Error> {
        let is_sealed = sealed.is_some();
        let files = Files::new(&self.directory, sealed.clone());
        let (spec, ledger) = self.spec(&files, None)?;
        // A sealed scenario keeps traces that it does not use at the moment.
        let traces = sealed.unwrap_or_else(|| Arc::new(files.into_used()));
        let scenario = Scenario { source: self, spec, ledger, traces, sealed: is_sealed };
        scenario.network(scenario.spec.scheme)?;
        Ok(scenario)
    }

    /// Returns the tree of the scenario's values, including those set from outside.
    fn root(&self) -> Result<document::Table, Error> {
        let mut root = document::parse(&self.file, &self.text)?;
        for (key, value) in &self.overrides {
            document::set(&self.file, &mut root, key, value)?;
        }
        if let Some(customer) = &self.customer {
            customer.put_into(&mut root);
        }
        if let Some(traffic) = self.traffic {
            traffic::replace(&self.file, &mut root, traffic)?;
        }
        Ok(root)
    }

    /// Returns the scenario's specification and ledger: its own, or with endpoints for a modern scheme.
    fn spec(&self, files: &Files, modern: Option<Modern>) -> Result<(Spec, Vec<Entry>), Error> {
        let root = self.root()?;
        let context = Context { file: self.file.clone(), ledger: RefCell::default(), modern };
        let name =
            Path::new(&self.file).file_stem().map_or(self.file.clone(), |stem| stem.to_string_lossy().into_owned());
        let spec = spec::read(&Reader::root(&context, &root), &one_line(&name), files)?;
        Ok((spec, context.ledger.into_inner()))
    }

    fn no_base_station(&self, scheme: &Scheme) -> Error {
        let name = scheme.name;
        let expected = format!("[base_station] with router and link, where {name} runs");
        let place = Place { file: self.file.clone(), spot: Spot::Whole };
        Error::new(place, Some("base_station".to_owned()), Problem::Missing { expected })
    }
}
