//! Sweeps write rows as they finish, and resume after an interruption.

use crate::common;

use common::{Bench, TINY, keys};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// Sweep of twelve points.
const SWEEP: &str =
    "sweep tiny.toml --vary 'links.radio.rate=1 Mbps,2 Mbps,3 Mbps' --vary tcp.mss=700,1000 --scheme E2E,LL --runs 2";

fn csv_rows(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    (header, rows)
}

#[test]
fn rows_in_order_with_named_columns() {
    let bench = Bench::new();
    let (header, rows) = csv_rows(&bench.stdout(&format!("{SWEEP} --csv")));
    let begin = ["links.radio.rate", "tcp.mss", "scheme", "runs", "throughput", "throughput_ci95", "rtt_p50"];
    assert_eq!(header[..7], begin);
    assert_eq!(header.len(), 4 + 2 * 22);
    let points: Vec<_> = rows.iter().map(|row| row[..4].join("|")).collect();
    assert_eq!(points.len(), 12);
    assert_eq!(points[..3], ["1 Mbps|700|E2E|2", "1 Mbps|700|LL|2", "1 Mbps|1000|E2E|2"]);
    assert_eq!(points[11], "3 Mbps|1000|LL|2");
    // A faster hop carries more, and each row equals the result of `run`.
    let json =
        bench.json("run tiny.toml --runs 2 --scheme LL --set 'links.radio.rate=3 Mbps' --set tcp.mss=1000 --json");
    let difference = rows[11][4].parse::<f64>().unwrap() - json["measures"]["throughput"]["mean"].as_f64().unwrap();
    assert!(difference.abs() < 1e-15, "{difference}");
}

/// Without `--csv` and `--out` there is a table for people, with one line per point.
#[test]
fn a_table_for_people() {
    let bench = Bench::new();
    let text = bench.stdout(SWEEP);
    assert!(text.starts_with("Tiny\n2 runs per point\n"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    for heading in ["links.radio.rate", "tcp.mss", "scheme", "Mbps", "rtt p50 ms", "queue drops", "source rtx"] {
        assert!(lines[3].contains(heading), "{heading}: {}", lines[3]);
    }
    let first: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!(first[..4], ["1", "Mbps", "700", "E2E"]);
    assert!(lines[4..16].iter().all(|line| line.chars().count() < 130 && line.contains(" ± ")), "{text}");
    assert!(text.contains("--csv"), "{text}");
}

#[test]
fn json_has_an_object_a_point() {
    let bench = Bench::new();
    let (header, rows) = csv_rows(&bench.stdout(&format!("{SWEEP} --csv")));
    let json = bench.json(&format!("{SWEEP} --json"));
    let points = json.as_array().unwrap();
    assert_eq!(points.len(), rows.len());
    for (point, row) in points.iter().zip(&rows) {
        assert_eq!(keys(point), header);
        assert_eq!(point["links.radio.rate"], row[0].as_str());
        // The last bit may change in the conversion to JSON.
        let (json, csv) = (point["throughput"].as_f64().unwrap(), row[4].parse::<f64>().unwrap());
        assert!((json - csv).abs() < 1e-15, "{json} {csv}");
    }
    let summary = bench.json(&format!("{SWEEP} --json --out rows.csv"));
    assert_eq!(keys(&summary), ["points", "runs", "seed", "file"]);
    assert_eq!((&summary["points"], &summary["file"]), (&12.into(), &"rows.csv".into()));
}

#[test]
fn csv_and_parquet_hold_the_same() {
    let bench = Bench::new();
    bench.stdout(&format!("{SWEEP} --out new/folder/rows.csv"));
    bench.stdout(&format!("{SWEEP} --out rows.parquet"));
    assert!(!bench.has("new/folder/rows.csv.partial") && !bench.has("rows.parquet.partial"));
    let (header, rows) = csv_rows(&bench.text("new/folder/rows.csv"));
    assert_eq!(bench.stdout(&format!("{SWEEP} --csv")), bench.text("new/folder/rows.csv"));
    let reader = SerializedFileReader::new(std::fs::File::open(bench.path().join("rows.parquet")).unwrap()).unwrap();
    let mut count = 0;
    for (parquet, csv) in reader.get_row_iter(None).unwrap().zip(&rows) {
        let parquet = parquet.unwrap();
        count += 1;
        for ((name, field), (column, value)) in parquet.get_column_iter().zip(header.iter().zip(csv)) {
            assert_eq!(name, column);
            match field {
                Field::Str(text) => assert_eq!(text, value),
                Field::ULong(number) => assert_eq!(number.to_string(), *value),
                Field::Double(number) => assert_eq!(*number, value.parse::<f64>().unwrap()),
                Field::Null => assert_eq!(value, ""),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
    assert_eq!(count, 12);
}

/// After a kill at any point, even within a line, complete rows are kept, and the final result is the same.
#[test]
fn goes_on_after_a_kill() {
    for ending in ["csv", "parquet"] {
        let bench = Bench::new();
        bench.stdout(&format!("{SWEEP} --out whole.csv"));
        bench.stdout(&format!("{SWEEP} --force --out whole.{ending}"));
        let whole = bench.text("whole.csv");
        let command = format!("{SWEEP} --force --out rows.{ending}");
        let journal = format!("{}{whole}", first_line(&bench, &command));
        let third_row = journal.match_indices('\n').nth(4).unwrap().0 + 1;
        for kept in [0, 5, 90, 150, third_row - 1, third_row, third_row + 7, journal.len() - 1, journal.len()] {
            bench.put(&format!("rows.{ending}.partial"), &journal[..kept]);
            bench.stdout(&command);
            assert_eq!(bench.bytes(&format!("rows.{ending}")), bench.bytes(&format!("whole.{ending}")), "{kept}");
            assert!(!bench.has(&format!("rows.{ending}.partial")));
        }
    }
}

/// Complete rows of the journal are not run again.
#[test]
fn keeps_the_rows_that_it_has() {
    let bench = Bench::new();
    let command = format!("{SWEEP} --force --out rows.csv");
    let head = first_line(&bench, &command);
    bench.stdout(&command);
    let whole = bench.text("rows.csv");
    let (header, rest) = whole.split_once('\n').unwrap();
    let first = rest.lines().next().unwrap();
    let marked = first.replace(",E2E,2,0.", ",E2E,2,4711.");
    assert_ne!(first, marked);
    bench.put("rows.csv.partial", &format!("{head}{header}\n{marked}\n"));
    let output = bench.run(&command);
    assert!(
        String::from_utf8(output.stderr).unwrap().starts_with("resuming: 1 of 12 points are in rows.csv.partial\n")
    );
    assert_eq!(bench.text("rows.csv"), whole.replace(first, &marked));
}

/// Returns the journal's first line: a sweep that cannot write its result leaves the journal.
fn first_line(bench: &Bench, command: &str) -> String {
    let (_, out) = command.rsplit_once(' ').unwrap();
    let partial = format!("{out}.partial");
    bench.put(&partial, "");
    // The sweep rejects another sweep's journal and prints the expected line.
    bench.put(&partial, "# something else\n");
    let output = bench.run(command);
    std::fs::remove_file(bench.path().join(&partial)).unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    let (_, expected) = message.split_once("its first line is not `").unwrap_or_else(|| panic!("{message}"));
    format!("{}\n", expected.split_once('`').unwrap().0)
}

#[test]
fn another_sweeps_rows_are_left_alone() {
    let bench = Bench::new();
    let refuses = |command: &str, journal: &str| {
        bench.put("rows.csv.partial", journal);
        let output = bench.run(command);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("error: rows.csv.partial: holds another sweep"), "{message}");
        assert_eq!(bench.text("rows.csv.partial"), journal);
    };
    let command = format!("{SWEEP} --out rows.csv");
    let journal = format!("{}links.radio.rate,tcp.mss\n", first_line(&bench, &command));
    refuses(&command, &journal);
    for change in
        [" --seed 9", " --runs 3", " --scheme SPLIT", " --vary tcp.dupack_threshold=2", " --set tcp.nagle=off"]
    {
        refuses(
            &format!("{SWEEP}{change} --out rows.csv").replacen(" --runs 2", "", usize::from(change.contains("runs"))),
            &journal,
        );
    }
    bench.put("tiny.toml", &TINY.replace("5 ms", "6 ms"));
    refuses(&command, &journal);
}

/// Existing files, whether of a finished sweep or unrelated, are replaced only on request.
#[test]
fn a_file_that_is_there_is_left_alone() {
    let bench = Bench::new();
    bench.put("other.csv", "a,b\n");
    bench.stdout(&format!("{SWEEP} --out rows.csv"));
    let rows = bench.bytes("rows.csv");
    for (file, kept) in [("rows.csv", rows.as_slice()), ("other.csv", b"a,b\n")] {
        for vary in ["tcp.mss=500", "tcp.mss=700,1000"] {
            let output = bench.run(&format!("sweep tiny.toml --vary {vary} --out {file}"));
            let message = String::from_utf8(output.stderr).unwrap();
            assert!(
                !output.status.success() && message.contains("file exists") && message.contains("--force"),
                "{message}"
            );
            assert!(message.contains(file) && message.contains("--force"), "{message}");
            assert_eq!(bench.bytes(file), kept);
            assert!(!bench.has(&format!("{file}.partial")));
        }
    }
    bench.stdout("sweep tiny.toml --vary tcp.mss=500 --force --out other.csv");
    assert!(bench.text("other.csv").starts_with("tcp.mss,scheme,"));
}

/// A sweep long enough to be stopped in the middle.
#[cfg(unix)]
mod stopped {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    const LONG: &str = "sweep wavelan-lan --set 'flows.bulk.size=4 MiB' --runs 2 --jobs 1 --out rows.csv";

    fn long() -> String {
        let values: Vec<_> = (0..120).map(|number| (1000 + number).to_string()).collect();
        format!("{LONG} --vary tcp.mss={}", values.join(","))
    }

    fn stop_with(signal: &str) -> (Bench, String, std::process::ExitStatus, usize) {
        let bench = Bench::new();
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("lasthop"))
            .args(common::split(&long()))
            .current_dir(bench.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !(bench.has("rows.csv.partial") && bench.text("rows.csv.partial").lines().count() > 5) {
            assert!(begun.elapsed() < Duration::from_secs(30) && !bench.has("rows.csv"));
            std::thread::sleep(Duration::from_millis(2));
        }
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        let status = child.wait().unwrap();
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        let rows = bench.text("rows.csv.partial").lines().count() - 2;
        assert!((4..120).contains(&rows) && !bench.has("rows.csv"), "{rows} {message}");
        (bench, message, status, rows)
    }

    #[test]
    fn by_ctrl_c_or_by_kill() {
        let uninterrupted = Bench::new();
        uninterrupted.stdout(&long());
        for signal in ["-INT", "-KILL"] {
            let (bench, message, status, rows) = stop_with(signal);
            if signal == "-INT" {
                assert_eq!(status.code(), Some(1));
                let expected = format!(
                    "error: stopped: {rows} of 120 points are in rows.csv.partial; repeat the command to continue\n"
                );
                assert!(message.ends_with(&expected), "{message}");
            }
            // The number of threads makes no difference.
            let output = bench.run(&long().replace("--jobs 1", "--jobs 2"));
            assert!(output.status.success());
            let message = String::from_utf8(output.stderr).unwrap();
            assert!(
                message.starts_with(&format!("resuming: {rows} of 120 points are in rows.csv.partial\n"))
                    || signal == "-KILL"
            );
            assert_eq!(bench.bytes("rows.csv"), uninterrupted.bytes("rows.csv"));
        }
    }
}
