//! `lasthop diagnose --between`: two captures of the same connections.

use std::io::{Write, stdout};
use std::path::Path;

use lasthop_diagnose::matched::{Between, Crossing};
use lasthop_diagnose::words::rate;
use lasthop_scenario::one_line;
use lasthop_study::diagnosis::{matched, matched_to_json};
use lasthop_study::link::Access;

use super::MOST_FLOWS;
use crate::cli::DiagnoseArgs;
use crate::error::Error;
use crate::output::{count, print_json};
use crate::terminal::{Style, fold, width};

pub fn execute(args: &DiagnoseArgs) -> Result<(), Error> {
    let [one, other] = args.captures.as_slice() else { return Err(Error::TwoCaptures { given: args.captures.len() }) };
    let paths = [one.as_path(), other.as_path()];
    if paths.contains(&Path::new("-")) {
        return Err(Error::OneInput { given: 2 });
    }
    let found = matched(&Access::DISK, paths)?;
    if args.json.json {
        return print_json(&matched_to_json(paths, &found));
    }
    let names = paths.map(|path| one_line(&path.display().to_string()));
    let say = |text: &str| writeln!(stdout().lock(), "{}", fold(text, width()));
    say(&Style::Heading.out(&format!(
        "{} and {}: {} in both",
        names[0],
        names[1],
        count(found.flows.len(), "direction")
    )))?;
    for remark in remarks(&found, &names) {
        say(&Style::Remark.out(&remark))?;
    }
    for flow in found.flows.iter().take(MOST_FLOWS) {
        say(&format!("\n{}", words(flow, &names)))?;
    }
    Ok(())
}

fn remarks(found: &Between, names: &[String; 2]) -> Vec<String> {
    let mut said = Vec::new();
    for (place, name) in names.iter().enumerate() {
        said.extend(found.damage[place].as_ref().map(|damage| format!("{name} {damage}")));
        if found.left_out[place] > 0 {
            said.push(format!("{name}: {} beyond the matching limit", count(found.left_out[place] as usize, "packet")));
        }
    }
    said
}

fn words(flow: &Crossing, names: &[String; 2]) -> String {
    let near = usize::from(flow.near) - 1;
    let mut said = format!("{} to {}, from {} to {}\n", flow.from, flow.to, names[near], names[1 - near]);
    let packets = count(flow.packets as usize, "packet");
    said += &match flow.losses.len() {
        0 => format!("  {packets}, none lost"),
        lost => {
            let causes = [
                (flow.corruption, "to corruption"),
                (flow.congestion, "to congestion"),
                (flow.unknown, "to unknown causes"),
            ];
            let causes: Vec<String> =
                causes.iter().filter(|(number, _)| *number > 0).map(|(number, to)| format!("{number} {to}")).collect();
            format!("  {lost} of {packets} lost: {}", causes.join(", "))
        }
    };
    for (number, what) in [(flow.reordered, "out of order"), (flow.unseen, "missing from the first capture")] {
        if number > 0 {
            said += &format!("; {number} {what}");
        }
    }
    let bottleneck = flow.bottleneck_bps.map_or(String::new(), |bits| format!(", bottleneck {}", rate(bits)));
    said + &format!("\n  longest queue {:.1} ms{bottleneck}", flow.longest_queue_ms)
}
