//! Tests of the variation of links' delays in scenarios.

use lasthop_proto::delay::{DelaySpec, DelayStep, HandoverSpec, Order, RepeatsSpec, SpikesSpec, Spread, VariationSpec};
use lasthop_proto::scheme::SCHEMES;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use lasthop_sim::network::{Medium, Network};

fn scenario(keys: &str) -> Result<Scenario, lasthop_scenario::Error> {
    let text = format!(
        "hosts = {{ a = {{}}, b = {{}} }}\n[flows.f]\nfrom = \"a\"\nto = \"b\"\nsize = 1\n[links.l]\nbetween = [\"a\", \"b\"]\n\
         rate = \"1 Mbps\"\ndelay = \"1 ms\"\n{keys}\n"
    );
    Scenario::parse("test.toml", &text)
}

fn network(keys: &str) -> Network {
    scenario(keys).unwrap().network(&SCHEMES[0]).unwrap()
}

fn variations(keys: &str) -> [VariationSpec; 2] {
    network(keys).links[0].directions.clone().map(|direction| direction.variation)
}

fn error(keys: &str) -> String {
    scenario(keys).unwrap_err().to_string()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn every_model_is_read() {
    let kept = |model| VariationSpec::of(model, Order::Kept);
    let handover = HandoverSpec { period: ms(15_000), first: ms(15_000), jump: ms(30), outage: Duration::ZERO };
    for (given, model) in [
        ("model = \"none\"", DelaySpec::None),
        ("model = \"jitter\", up_to = \"3 ms\"", DelaySpec::Jitter(Spread::Uniform(ms(3)))),
        (
            "model = \"normal\", mean = \"30 ms\", deviation = \"10 ms\"",
            DelaySpec::Jitter(Spread::Normal { mean: ms(30), deviation: ms(10) }),
        ),
        ("model = \"exponential\", mean = \"3 ms\"", DelaySpec::Jitter(Spread::Exponential(ms(3)))),
        (
            "model = \"repeats\", frame_loss = \"20 %\", round = \"40 ms\"",
            DelaySpec::Repeats(RepeatsSpec { frame_loss: 0.2, round: ms(40), most: 8 }),
        ),
        (
            "model = \"spikes\", every = \"8 s\", length = \"2 s\"",
            DelaySpec::Spikes(SpikesSpec { every: ms(8000), length: ms(2000) }),
        ),
        ("model = \"handover\", jump = \"30 ms\"", DelaySpec::Handover(handover)),
        (
            "model = \"handover\", jump = \"30 ms\", period = \"10 s\", first = \"0 s\", outage = \"100 ms\"",
            DelaySpec::Handover(HandoverSpec { period: ms(10_000), first: ms(0), outage: ms(100), ..handover }),
        ),
    ] {
        let keys = format!("delay_variation = {{ {given} }}");
        assert_eq!(variations(&keys), [kept(model.clone()), kept(model)], "{given}");
        // The explained text is the same scenario.
        let explained = scenario(&keys).unwrap();
        assert_eq!(Scenario::parse("explained.toml", &explained.explain()).unwrap(), explained);
    }
    assert_eq!(variations(""), [VariationSpec::NONE, VariationSpec::NONE]);
    let [down, up] = variations("delay_variation_up = { model = \"jitter\", up_to = \"3 ms\", order = \"free\" }");
    assert_eq!(
        (down, up),
        (VariationSpec::NONE, VariationSpec::of(DelaySpec::Jitter(Spread::Uniform(ms(3))), Order::Free))
    );
    assert!(network("delay_variation = { model = \"jitter\", up_to = \"3 ms\" }").varies());
    assert!(!network("delay_variation = { model = \"none\" }").varies());
}

#[test]
fn a_course_comes_from_a_file() {
    let folder = std::env::temp_dir().join(format!("lasthop-variation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("scenario.toml");
    let text = "hosts = { a = {}, b = {} }\n[flows.f]\nfrom = \"a\"\nto = \"b\"\nsize = 1\n[links.l]\nbetween = [\"a\", \"b\"]\n\
                rate = \"1 Mbps\"\ndelay = \"1 ms\"\ndelay_variation = { model = \"replay\", file = \"course.txt\" }\n";
    std::fs::write(&path, text).unwrap();
    let missing = Scenario::load(&path).unwrap_err().to_string();
    assert!(missing.contains("links.l.delay_variation.file") && missing.contains("course.txt"), "{missing}");
    std::fs::write(folder.join("course.txt"), "0 1\n12.5 30 # another\n").unwrap();
    let read = Scenario::load(&path).unwrap().network(&SCHEMES[0]).unwrap();
    let steps = [(0, 1), (12_500, 30)].map(|(from, more)| DelayStep { from: Instant::ZERO + ms(from), more: ms(more) });
    let DelaySpec::Replay(course) = &read.links[0].directions[1].variation.model else { panic!("a course") };
    assert_eq!(course[..], steps);
    std::fs::write(folder.join("course.txt"), "1 1\n0 30\n").unwrap();
    let back = Scenario::load(&path).unwrap_err().to_string();
    assert!(back.contains("goes back in time in line 2") && !back.contains('\n'), "{back}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn radios_turn_on_half_duplex_links_only() {
    let network = network("medium = \"half-duplex\"\nturnaround = \"2 ms\"");
    let medium = Medium::HalfDuplex { frame_overhead: Duration::ZERO, turnaround: ms(2) };
    assert!(network.links[0].medium == medium && network.varies());
    assert!(error("turnaround = \"2 ms\"").contains("links.l.turnaround: requires medium"));
}

#[test]
fn mistakes_are_told() {
    for (given, told) in [
        ("{ model = \"spike\" }", "did you mean \"spikes\"?"),
        ("{ every = \"8 s\" }", "links.l.delay_variation.model: missing"),
        ("{ model = \"spikes\", every = \"8 s\" }", "links.l.delay_variation.length: missing"),
        ("{ model = \"spikes\", every = \"8 s\", length = \"1 s\", jump = \"1 s\" }", "it takes every, length"),
        ("{ model = \"spikes\", every = \"10 us\", length = \"1 s\" }", "a time of at least 1 ms"),
        ("{ model = \"jitter\", up_to = \"2 h\" }", "a time of at most 1 h"),
        ("{ model = \"jitter\", up_too = \"2 s\" }", "did you mean \"up_to\"?"),
        ("{ model = \"normal\", mean = \"1 s\" }", "links.l.delay_variation.deviation: missing"),
        ("{ model = \"normal\", mean = \"1 s\", deviation = \"2 h\" }", "a time of at most 1 h"),
        ("{ model = \"exponential\", up_to = \"1 s\" }", "it takes mean"),
        ("{ model = \"repeats\", frame_loss = 2, round = \"1 s\" }", "links.l.delay_variation.frame_loss"),
        ("{ model = \"jitter\", up_to = \"1 ms\", order = \"fre\" }", "did you mean \"free\"?"),
        ("5", "a table"),
    ] {
        let error = error(&format!("delay_variation = {given}"));
        assert!(error.contains(told) && error.starts_with("test.toml:"), "{given}: {error}");
    }
    let each = "delay_variation_down = { model = \"none\" }\ndelay_variation_up = { model = \"none\" }";
    let three = error(&format!("delay_variation = {{ model = \"none\" }}\n{each}"));
    assert!(three.contains("remove one of the three"), "{three}");
}
