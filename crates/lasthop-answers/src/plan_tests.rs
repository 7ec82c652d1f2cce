use lasthop_study::measures::summarise;
use lasthop_study::replicate::{Silent, run_all};

use super::*;

fn plan(query: &str) -> Result<Plan, Refusal> {
    Plan::read(&Catalogue::new(&[]).unwrap(), query)
}

/// Creates a plan on a testbed of the 1997 study, unless the query names another scenario.
fn of_1997(query: &str) -> Result<Plan, Refusal> {
    plan(&if query.contains("scenario=") { query.to_owned() } else { format!("scenario=wavelan-lan&{query}") })
}

#[test]
fn nothing_said_is_the_first_scenario_with_its_own_values() {
    let plan = plan("").unwrap();
    // Modern endpoints, not the schemes of a study.
    assert_eq!(plan.name, "farm-radio");
    let schemes: Vec<_> = plan.schemes.iter().map(|scheme| scheme.name).collect();
    assert_eq!(schemes, ["E2E-CUBIC", "E2E-BBR", "E2E-BBR3", "SNOOP", "SPLIT-BBR"]);
    assert_eq!(plan.shown.name, "SNOOP");
    let own = Scenario::builtin("farm-radio").unwrap();
    assert_eq!(plan.scenario, own.with_overrides(&[("scheme", "SNOOP")]).unwrap());
    // A study has its own schemes.
    assert_eq!(self::plan("scenario=wavelan-lan").unwrap().schemes.len(), 12);
}

/// The page's remark on its first scenario needs a plain scheme and a gateway; schemes of the studies are neither.
#[test]
fn the_catalogue_tells_plain_schemes_from_gateways() {
    let catalogue = Catalogue::new(&[]).unwrap().to_json();
    let place = |name: &str| {
        let schemes = catalogue["schemes"].as_array().unwrap();
        schemes.iter().find(|scheme| scheme["name"] == name).unwrap()["place"].as_str().map(str::to_owned)
    };
    for (name, expected) in [
        ("E2E-CUBIC", Some("plain")),
        ("E2E-BBR", Some("sender")),
        ("SNOOP", Some("gateway")),
        ("SPLIT-BBR", Some("gateway")),
        ("LINK-HYBRID", Some("both-ends")),
        ("E2E", None),
        ("LL-TCP-AWARE", None),
        ("SPLIT", None),
    ] {
        assert_eq!(place(name).as_deref(), expected, "{name}");
    }
}

#[test]
fn the_file_is_the_scenario_of_the_page() {
    for query in [
        "loss=5+%25&burst=3&delay.wired=20+ms&window=16+KiB&queue=8+packets&runs=7&seed=3&set=tcp.mss%3D512",
        "scenario=satellite&loss=1+%25&schemes=E2E,SPLIT",
        "scenario=multilayer-web-lan&limit=50+s&runs=2",
    ] {
        let plan = of_1997(query).unwrap();
        let file = Scenario::parse("downloaded.toml", &plan.scenario_file()).unwrap();
        assert_eq!(file, plan.scenario, "{query}");
    }
}

#[test]
fn the_file_runs_to_the_same_numbers() {
    let plan = of_1997("size=200+KiB&loss=4+%25&burst=2&runs=3&schemes=E2E,LL-TCP-AWARE").unwrap();
    let file = Scenario::parse("downloaded.toml", &plan.scenario_file()).unwrap();
    let mut last = Vec::new();
    crate::answers::compare(&plan, crate::answers::Extent::All, 2, &|| false, |line| {
        if line["runs"] == 3 {
            last.push(line);
        }
    })
    .unwrap();
    last.sort_by_key(|line| line["scheme"].as_str().map(str::to_owned));
    for (line, scheme) in last.iter().zip(&plan.schemes) {
        let task = Task::new(&file, scheme, file.seed(), file.runs()).unwrap().metered();
        let reports = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().pop().unwrap();
        let measures = serde_json::json!(lasthop_study::measures::ByName(&summarise(&task.network, &reports)));
        assert_eq!((line["scheme"].as_str(), &line["measures"]), (Some(scheme.name), &measures));
    }
    assert_eq!(last.len(), 2);
}

#[test]
fn what_is_wrong_is_named_with_its_control() {
    for (query, control, words) in [
        ("scenario=nope", "scenario", "there is no \"nope\""),
        ("schemes=E2E,XYZ", "schemes", "XYZ"),
        ("schemes=", "schemes", "at least one"),
        ("scheme=XYZ", "scheme", "XYZ"),
        ("run=many", "run", "many"),
        ("delay.wired=12", "delay.wired", "links.wired.delay: cannot be 12 (the unit is missing)"),
        ("window=lots", "window", "tcp."),
        ("queue=0 packets", "queue", "links.wireless.queue"),
        ("loss=70 %25", "loss", "50 %"),
        ("runs=100000", "runs", "1000"),
        ("set=tcp.mss", "set", "KEY=VALUE"),
        ("set=tcp.mms=3", "set", "did you mean \"mss\"?"),
        ("set=links.wireles.rate=1 Mbps", "set", "wireless"),
        ("scenario=many-flows&count=90000", "count", "at most"),
        ("colour=red", "colour", "no such control"),
    ] {
        let refusal = of_1997(query).expect_err(query);
        assert_eq!(refusal.control.as_deref(), Some(control), "{query}: {refusal}");
        assert!(refusal.message.contains(words), "{query}: {refusal}");
        assert!(!refusal.message.contains('\n'), "{query}: {refusal}");
    }
}

#[test]
fn nobody_makes_the_page_read_files() {
    let folder = tempfile::tempdir().unwrap();
    let (fifo, plain) = (folder.path().join("fifo"), folder.path().join("plain"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::write(&plain, "01").unwrap();
    for file in [fifo.as_path(), &plain, std::path::Path::new("/etc/hostname"), std::path::Path::new("/nowhere")] {
        let table = format!("{{model=\"replay\",file=\"{}\"}}", file.display());
        for query in [
            format!("set=links.wireless.errors={table}"),
            format!("set=links.wireless.errors=%EF%BB%BF{table}"),
            format!(
                "set=links.wireless={{between=[\"base\",\"mobile\"],rate=\"1 Mbps\",delay=\"1 ms\",errors={table}}}"
            ),
            format!("set=links.wireless.errors={{model=\"replay\"}}&set=links.wireless.errors.file={}", file.display()),
            format!("set=links.wireless.errors={table}&loss=3 %25"),
        ] {
            let refusal = of_1997(&query).expect_err(&query);
            assert!(refusal.message.contains("other files are not opened here"), "{query}: {refusal}");
            assert_eq!(refusal.control.as_deref(), Some("set"));
        }
    }
    // Errors do not show a parser's own messages either.
    for query in [
        "delay.wired={a=1}",
        "loss=[1]",
        "set=links.wireless.errors=%0A{}",
        "set=links.wireless.errors.file=/etc/hostname",
    ] {
        let refusal = of_1997(query).expect_err(query);
        assert!(!refusal.message.contains('\n'), "{query}: {refusal}");
    }
    // Values that open no file can be set.
    of_1997("set=links.wireless.errors={model=\"uniform\",frame_loss=0.1}").unwrap();
}

#[test]
fn a_file_given_at_the_start_replays_its_trace_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, file) = (folder.path().join("loss.txt"), folder.path().join("own.toml"));
    std::fs::write(&trace, "0001").unwrap();
    let base = Scenario::builtin_text("wavelan-lan").unwrap();
    let own = "errors = { model = \"exponential\", mean_bytes = \"64 KiB\" }";
    assert!(base.contains(own));
    std::fs::write(&file, base.replace(own, "errors = { model = \"replay\", file = \"loss.txt\" }")).unwrap();
    let catalogue = Catalogue::new(&[file]).unwrap();
    std::fs::remove_file(&trace).unwrap();
    Plan::read(&catalogue, "delay.wired=20 ms").unwrap();
}

#[test]
fn nothing_that_is_long_or_strange_panics() {
    assert!(plan(&"x".repeat(LONGEST_QUERY + 1)).is_err());
    let many = "set=tcp.mss=512&".repeat(MOST_SET + 1);
    assert!(of_1997(&many).is_err());
    // Random bytes, the same each time.
    let mut state = 1_u64;
    let catalogue = Catalogue::new(&[]).unwrap();
    for _ in 0..100 {
        let mut query = String::new();
        for _ in 0..40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            query.push(char::from_u32((state >> 40) as u32 % 0x180).unwrap_or('%'));
        }
        for start in ["", "loss=", "window=", "set=tcp.mss="] {
            let _ = Plan::read(&catalogue, &format!("{start}{query}"));
        }
    }
}
