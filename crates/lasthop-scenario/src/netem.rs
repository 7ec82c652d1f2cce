//! Terms of netem (tc-netem(8)). If a key of a link or of an error model has the same effect, that key is supported;
//! otherwise a message names the closest one.
//!
//! `docs/models/channel.md` has the table.

use lasthop_proto::channel::{ErrorSpec, Frames, LossUnit};

use crate::reader::Reader;
use crate::units::Fraction;
use crate::{Error, Problem};

/// netem's terms that are not keys of a link, with the alternative.
const LINK_WORDS: [(&str, &str); 8] = [
    (
        "loss",
        "write errors = { model = \"random\", loss = \"1 %\" }, or model = \"gemodel\" or \"state\" with netem's parameters",
    ),
    ("duplicate", "write duplicates = \"1 %\""),
    (
        "jitter",
        "write delay_variation = { model = \"jitter\", up_to = \"20 ms\", order = \"free\" }: netem's jitter J is uniform from delay - J to \
        delay + J, so take J from delay and give 2 J as up_to",
    ),
    (
        "distribution",
        "write delay_variation = { model = \"normal\", mean = \"30 ms\", deviation = \"10 ms\", order = \"free\" } with mean taken from delay; \
        pareto and paretonormal have no equivalent, the nearest is model = \"exponential\"",
    ),
    (
        "reorder",
        "netem's reorder lets packets pass without delay; there is no equivalent. The nearest is delay_variation with order = \"free\"",
    ),
    ("gap", "netem's reorder gap has no equivalent; the nearest is delay_variation with order = \"free\""),
    (
        "corrupt",
        "netem's corrupt flips one bit, so that the receiver drops the packet: write errors = { model = \"random\", loss = \"1 %\" }",
    ),
    ("limit", "write queue = \"1000 packets\""),
];

/// Rejects netem's terms among the keys of a link, with the alternative.
pub(crate) fn refuse_words(link: &Reader<'_>) -> Result<(), Error> {
    match LINK_WORDS.iter().find(|(word, _)| link.has(word)) {
        Some((word, instead)) => {
            Err(link.fail(word, Problem::Conflict(format!("keyword of netem, not a key of a link; {instead}"))))
        }
        None => Ok(()),
    }
}

keys! {
    /// Keys of `model = "gemodel"`, `"state"` and `"random"`.
    pub(crate) Keys {
        p, r, lose_bad as "1-h": Fraction = Fraction::ONE, lose_good as "1-k": Fraction = Fraction::ZERO;
        p13, p31, p32: Fraction = Fraction::ZERO, p23: Fraction = Fraction::ZERO, p14: Fraction = Fraction::ZERO;
        loss, correlation: Fraction = Fraction::ZERO;
        unit: LossUnit = LossUnit::Packet;
    }
}

/// Reads `loss gemodel P R 1-H 1-K`: the model of Gilbert and Elliott. In netem as here, loss is decided before the
/// state changes.
pub(crate) fn gemodel(reader: &Reader<'_>) -> Result<ErrorSpec, Error> {
    Ok(ErrorSpec::TwoStatePacket {
        good_to_bad: reader.required::<Fraction>(Keys::p)?.get(),
        bad_to_good: reader.required::<Fraction>(Keys::r)?.get(),
        bad_loss: reader.value(Keys::lose_bad)?.get(),
        good_loss: reader.value(Keys::lose_good)?.get(),
        frames: Frames::All,
    })
}

/// Reads `loss state P13 P31 P32 P23 P14`: with its first two parameters it is a chain of two states.
pub(crate) fn state(reader: &Reader<'_>) -> Result<ErrorSpec, Error> {
    let good_to_bad = reader.required::<Fraction>(Keys::p13)?.get();
    let bad_to_good = reader.required::<Fraction>(Keys::p31)?.get();
    for key in [Keys::p32, Keys::p23, Keys::p14] {
        if reader.value(key)?.get() > 0.0 {
            let nearest = if key == Keys::p14 {
                "isolated losses are model = \"two-state-packet\" with good_loss"
            } else {
                "packets that get through in a burst are model = \"two-state-packet\" with bad_loss below 100 %"
            };
            let message = format!("netem's states beyond the first two have no equivalent; {nearest}");
            return Err(reader.fail(key, Problem::Conflict(message)));
        }
    }
    Ok(ErrorSpec::TwoStatePacket { good_to_bad, bad_to_good, good_loss: 0.0, bad_loss: 1.0, frames: Frames::All })
}

/// Reads `loss random P`: each packet with one probability. netem's correlation has no equivalent.
pub(crate) fn random(reader: &Reader<'_>) -> Result<ErrorSpec, Error> {
    let loss = reader.required::<Fraction>(Keys::loss)?.get();
    let correlation = reader.value(Keys::correlation)?.get();
    if correlation > 0.0 {
        let (to_bad, to_good) = (loss * (1.0 - correlation), (1.0 - loss) * (1.0 - correlation));
        let message = format!(
            "netem's correlation has no equivalent (it changes the share of losses as well); the nearest with this loss is model = \"two-state-packet\", \
             good_to_bad = {to_bad:.6}, bad_to_good = {to_good:.6}"
        );
        return Err(reader.fail(Keys::correlation, Problem::Conflict(message)));
    }
    Ok(ErrorSpec::Uniform { frame_loss: loss, frames: Frames::All })
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn with(link: &str) -> Result<Scenario, String> {
        let text = format!(
            "hosts = {{ a = {{}}, b = {{}} }}\n[links.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbps\"\ndelay = \"1 ms\"\n{link}\n\
             [flows.f]\nfrom = \"a\"\nto = \"b\"\nsize = 1\n"
        );
        Scenario::parse("x.toml", &text).map_err(|error| error.to_string())
    }

    /// tc-netem(8): P and R change the state, 1-H loses in the bad one, 1-K in the good one.
    #[test]
    fn netems_models_are_the_projects_own_under_other_names() {
        for (netem, own) in [
            (
                "{ model = \"gemodel\", p = \"1 %\", r = \"10 %\", 1-h = \"70 %\", 1-k = \"0.1 %\" }",
                "{ model = \"two-state-packet\", good_to_bad = \"1 %\", bad_to_good = \"10 %\", bad_loss = \"70 %\", good_loss = \"0.1 %\" }",
            ),
            (
                "{ model = \"gemodel\", p = 0.01, r = 0.1 }",
                "{ model = \"two-state-packet\", good_to_bad = 0.01, bad_to_good = 0.1 }",
            ),
            (
                "{ model = \"state\", p13 = \"1 %\", p31 = \"10 %\" }",
                "{ model = \"two-state-packet\", good_to_bad = \"1 %\", bad_to_good = \"10 %\" }",
            ),
            ("{ model = \"random\", loss = \"2 %\" }", "{ model = \"uniform\", frame_loss = \"2 %\" }"),
            (
                "{ model = \"random\", loss = \"2 %\", unit = \"super-segment\" }",
                "{ model = \"uniform\", frame_loss = \"2 %\", unit = \"super-segment\" }",
            ),
        ] {
            let [netem, own] = [netem, own].map(|errors| with(&format!("errors_down = {errors}")).unwrap());
            assert!(netem == own, "{}", netem.explain());
            // The explained text can be parsed again.
            assert!(Scenario::parse("y.toml", &netem.to_toml()).unwrap() == netem);
        }
    }

    /// Numbers of packets that arrive and that are lost, alternating.
    #[test]
    fn a_replay_may_be_told_in_the_scenario() {
        use lasthop_proto::channel::ErrorSpec;
        let scenario = with("errors_down = { model = \"replay\", runs = [2, 1, 0, 3, 1] }").unwrap();
        let network = scenario.network(scenario.scheme()).unwrap();
        let ErrorSpec::Replay { trace, .. } = &network.links[0].directions[0].errors else { panic!("a replay") };
        assert_eq!(**trace, [false, false, true, true, true, true, false]);
        assert!(Scenario::parse("y.toml", &scenario.to_toml()).unwrap() == scenario);
        for runs in ["[]", "[0, 0]", "[-1]", "[16777216, 16777216]", "\"x\""] {
            let said = with(&format!("errors_down = {{ model = \"replay\", runs = {runs} }}")).unwrap_err();
            assert!(said.contains("links.l.errors_down.runs"), "{said}");
        }
        assert!(with("errors = { model = \"replay\", runs = [1], file = \"x\" }").unwrap_err().contains("not both"));
    }

    #[test]
    fn what_netem_has_alone_is_refused_with_what_comes_nearest() {
        for (link, expected) in [
            (
                "errors = { model = \"random\", loss = \"10 %\", correlation = \"25 %\" }",
                "good_to_bad = 0.075000, bad_to_good = 0.675000",
            ),
            ("errors = { model = \"state\", p13 = 0.1, p31 = 0.5, p32 = 0.1 }", "bad_loss below 100 %"),
            ("errors = { model = \"gemodel\", p = 0.1 }", "errors.r: missing"),
            ("loss = \"1 %\"", "model = \"gemodel\""),
            ("duplicate = \"1 %\"", "duplicates = \"1 %\""),
            ("reorder = \"25 %\"", "order = \"free\""),
            ("jitter = \"5 ms\"", "2 J as up_to"),
            ("distribution = \"pareto\"", "exponential"),
        ] {
            let said = with(link).unwrap_err();
            assert!(said.starts_with("x.toml:") && said.contains(expected), "{said}");
        }
    }
}
