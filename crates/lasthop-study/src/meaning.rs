//! Schemes that are the same run in a scenario, because it fixes the differences between them, or because they differ
//! in name only.

use lasthop_proto::scheme::Scheme;
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;

/// Meaning of a scheme in a scenario, compared with others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meaning {
    /// The scheme.
    pub scheme: &'static Scheme,
    /// Index, in the list of schemes, of the scheme whose runs this scheme shares; its own index if it has runs of its
    /// own.
    pub runs_of: usize,
    /// Scheme whose runs it shares, if another.
    pub same_as: Option<&'static Scheme>,
    /// Key of the scenario that makes the scheme differ from its name.
    pub fixed_by: Option<String>,
}

impl Meaning {
    /// Returns a remark about the scheme: `same as E2E-IETF-SACK: tcp.recovery is set`.
    pub fn remark(&self) -> Option<String> {
        match (self.same_as, &self.fixed_by) {
            (Some(other), Some(key)) => Some(format!("same as {}: {key} is set", other.name)),
            (Some(other), None) => Some(format!("same as {}", other.name)),
            (None, Some(key)) => Some(format!("modified: {key} is set")),
            (None, None) => None,
        }
    }
}

/// Returns the meaning of each of `schemes` in `scenario`; `networks` are those under the schemes, in the same order.
/// Of schemes that are the same run, the first one that agrees with its name represents all; without such a one, the
/// first.
pub fn meanings(scenario: &Scenario, schemes: &[&'static Scheme], networks: &[&Network]) -> Vec<Meaning> {
    let fixed: Vec<Option<String>> = schemes.iter().map(|scheme| scenario.fixes(scheme)).collect();
    let of = |at: usize| {
        let same = || (0..schemes.len()).filter(|&other| networks[other] == networks[at]);
        let runs_of = same().find(|&other| fixed[other].is_none()).or_else(|| same().next()).unwrap_or(at);
        let same_as = (runs_of != at).then(|| schemes[runs_of]);
        Meaning { scheme: schemes[at], runs_of, same_as, fixed_by: fixed[at].clone() }
    };
    (0..schemes.len()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::SCHEMES;

    use super::*;

    fn remarks(overrides: &[(&str, &str)], schemes: &[&'static Scheme]) -> Vec<(&'static str, String)> {
        let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(overrides).unwrap();
        let networks: Vec<Network> = schemes.iter().map(|scheme| scenario.network(scheme).unwrap()).collect();
        let meanings = meanings(&scenario, schemes, &networks.iter().collect::<Vec<_>>());
        meanings.iter().filter_map(|meaning| Some((meaning.scheme.name, meaning.remark()?))).collect()
    }

    fn scheme(name: &str) -> &'static Scheme {
        Scheme::by_name(name).unwrap()
    }

    #[test]
    fn a_scenario_that_leaves_the_recovery_open_has_two_names_for_two_runs() {
        let all: Vec<_> = SCHEMES.iter().collect();
        let expected = [("Reno/Raw", "same as E2E"), ("SACK/Raw", "same as E2E-IETF-SACK")];
        assert_eq!(remarks(&[], &all), expected.map(|(name, remark)| (name, remark.to_owned())));
    }

    #[test]
    fn schemes_named_after_a_recovery_are_one_where_it_is_set() {
        let all: Vec<_> = SCHEMES.iter().collect();
        let raw = |name| (name, "same as E2E-IETF-SACK: tcp.recovery is set".to_owned());
        let expected = [
            raw("E2E"),
            raw("E2E-NEWRENO"),
            raw("E2E-SMART"),
            raw("E2E-ELN"),
            raw("E2E-ELN-RXMT"),
            raw("Reno/Raw"),
            ("SACK/Raw", "same as E2E-IETF-SACK".to_owned()),
            ("Reno/SR", "same as SACK/SR: tcp.recovery is set".to_owned()),
            // Modern congestion controls do not support that recovery.
            ("E2E-CUBIC", "modified: tcp.recovery is set".to_owned()),
            ("E2E-BBR", "same as E2E-CUBIC: tcp.recovery is set".to_owned()),
            ("E2E-BBR3", "same as E2E-CUBIC: tcp.recovery is set".to_owned()),
        ];
        let seen = remarks(&[("tcp.recovery", "sack")], &all);
        // The relay of a split connection has the common TCP too.
        let split = seen.iter().filter(|(name, _)| name.starts_with("SPLIT"));
        assert_eq!(split.collect::<Vec<_>>(), [&("SPLIT-SMART", "same as SPLIT: tcp.recovery is set".to_owned())]);
        let others = seen.into_iter().filter(|(name, _)| !name.starts_with("SPLIT"));
        assert_eq!(others.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_key_of_one_host_is_named_as_such() {
        let source = [("hosts.source.tcp.recovery", "new-reno")];
        let expected = [("E2E", "modified: hosts.source.tcp.recovery is set".to_owned())];
        assert_eq!(remarks(&source, &[scheme("E2E"), scheme("LL")]), expected);
        // The receiver sends no data, so its recovery does not matter.
        assert_eq!(remarks(&[("hosts.mobile.tcp.recovery", "new-reno")], &[scheme("E2E")]), []);
    }
}
