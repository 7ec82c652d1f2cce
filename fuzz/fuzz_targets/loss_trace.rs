//! Tests arbitrary loss trace files: each yields a channel that replays it, or a one-line message. The same bytes serve
//! as a time series of delays, and as a series of rates or of delivery opportunities with which frames are sent.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use lasthop_proto::channel::{Channel, ErrorSpec, Fate};
use lasthop_proto::delay::read_delays;
use lasthop_proto::packet::{Body, Cause, Ecn, FlowId, Integrity, LinkHeaders, Packet, Priority, Segment, Side};
use lasthop_proto::random::Root;
use lasthop_proto::rate::{
    Offset, Opportunities, RateProcess, RateSeries, RateSpec, Wrap, read_opportunities, read_rates,
};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::Scenario;
use libfuzzer_sys::fuzz_target;

const SCENARIO: &str = r#"
hosts = { a = {}, b = {} }
[links.l]
between = ["a", "b"]
rate = "1 Mbps"
delay = "1 ms"
errors_down = { model = "replay", file = "loss.txt" }
[flows.f]
from = "a"
to = "b"
size = 1
"#;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("lasthop-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the files");
    std::fs::write(folder.join("scenario.toml"), SCENARIO).expect("a file in it");
    folder
});

fuzz_target!(|text: &[u8]| {
    match read_delays(text) {
        Ok(steps) => assert!(!steps.is_empty() && steps.is_sorted_by(|one, next| one.from < next.from)),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    match read_rates(text) {
        Ok(trace) => {
            let series = RateSeries::new(trace.steps, trace.length, Wrap::Repeat, Offset::At(Duration::ZERO));
            let process = series.map(|series| RateProcess::new(&RateSpec::Series(series), || unreachable!()));
            let (mut process, mut now) = (process.flatten().expect("a file that was read is a series"), Instant::ZERO);
            for bytes in [0, 1, 1500, u32::MAX] {
                let end = process.finish(now, bytes);
                assert!(end >= now);
                now = end;
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    match read_opportunities(text) {
        Ok(times) => {
            let trace = Opportunities::new(times.into(), Wrap::Repeat, Offset::At(Duration::ZERO));
            let spec = RateSpec::Opportunities(trace.expect("a file that was read is a trace"));
            let mut process = RateProcess::new(&spec, || unreachable!()).expect("a rate that varies");
            let mut now = Instant::ZERO;
            for bytes in [0, 1, 1500, 1_000_000] {
                let sent = process.send(process.opens(now), bytes);
                assert!(sent.end > now && sent.free >= sent.end);
                now = sent.end;
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
    std::fs::write(FOLDER.join("loss.txt"), text).expect("a file");
    let scenario = match Scenario::load(FOLDER.join("scenario.toml")) {
        Ok(scenario) => scenario,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.contains("loss.txt"), "{message}");
            return;
        }
    };
    let network = scenario.network(Scheme::by_name("E2E").expect("E2E")).expect("E2E fits everywhere");
    let spec = &network.links[0].directions[0].errors;
    let ErrorSpec::Replay { trace, .. } = spec else { panic!("{spec:?}") };
    let digits = text.iter().filter(|&&byte| byte == b'0' || byte == b'1').count();
    assert!(!trace.is_empty() && trace.len() <= digits);
    let packet = Packet {
        flow: FlowId(0),
        from: Side::Initiator,
        priority: Priority::Normal,
        integrity: Integrity::Intact,
        cause: Cause::New,
        super_segment: 0,
        header_len: 40,
        len: 100,
        ecn: Ecn::NotEct,
        body: Body::Tcp(Segment::default()),
        link: LinkHeaders::NONE,
        payload: (),
    };
    let mut channel = Channel::new(spec, Root(1).stream("x"));
    for &lost in trace.iter().chain(trace.iter()) {
        let fate = channel.judge(&packet, Instant::ZERO, Instant::ZERO);
        assert_eq!(fate, if lost { Fate::Lost } else { Fate::Delivered });
    }
});
