//! `lasthop convert`

use std::io::{Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use lasthop_convert::{
    Column, ConvertError, Converted, Input, Inputs, MOST_BYTES, Options, Statistics, leoreplayer, opportunities, read,
    statistics,
};
use lasthop_proto::link_trace::{Csv, LinkTrace};
use lasthop_scenario::read_limited;
use serde_json::json;

use crate::cli::{ConvertArgs, Target};
use crate::error::Error;
use crate::output::{print_json, write_file};
use crate::progress::note;

pub fn execute(args: &ConvertArgs) -> Result<(), Error> {
    if args.to != Target::Csv && args.out.is_none() {
        return Err(Error::ConvertOut);
    }
    check_use(args)?;
    let [both, down, up, delay, delay_down, delay_up] =
        [&args.file, &args.down, &args.up, &args.delay, &args.delay_down, &args.delay_up].map(input);
    let (both, rates, delay, delays) = (both?, [down?, up?], delay?, [delay_down?, delay_up?]);
    let inputs = Inputs {
        both: both.as_ref(),
        rates: rates.each_ref().map(Option::as_ref),
        delays: delays.each_ref().map(|own| own.as_ref().or(delay.as_ref())),
    };
    let options = Options { step: args.step.map(|step| step.0), interval: args.interval.0, clocks: args.clocks.into() };
    let Converted { trace, mut remarks } = read(args.from.0, &inputs, &options)?;
    let (files, unsaid) = written(&trace, args)?;
    remarks.extend(unsaid);
    if let Some(path) = files.iter().flat_map(|(path, _)| path).find(|path| path.exists() && !args.force) {
        return Err(Error::Exists { path: path.clone() });
    }
    for (path, text) in &files {
        match path {
            Some(path) => write_file(path, |file| file.write_all(text.as_bytes()).map_err(Error::file(path)))?,
            None => stdout().lock().write_all(text.as_bytes())?,
        }
    }
    let statistics = statistics(&trace);
    remarks.iter().for_each(|remark| note(remark));
    lines(&statistics).iter().for_each(|line| note(line));
    if !args.json {
        return Ok(());
    }
    let names: Vec<String> = files.iter().flat_map(|(path, _)| path).map(|path| path.display().to_string()).collect();
    print_json(&json!({ "files": names, "statistics": statistics, "remarks": remarks }))
}

/// Rejects files that the format does not have.
fn check_use(args: &ConvertArgs) -> Result<(), Error> {
    let format = args.from.0;
    let own: &[&str] = match format {
        lasthop_convert::Format::Mahimahi => &["down", "up"],
        lasthop_convert::Format::LeoReplayer => &["down", "up", "delay", "delay-down", "delay-up"],
        lasthop_convert::Format::CellReplay => &["down", "up", "delay-down", "delay-up"],
        _ => &["FILE"],
    };
    let given = [
        ("FILE", &args.file),
        ("down", &args.down),
        ("up", &args.up),
        ("delay", &args.delay),
        ("delay-down", &args.delay_down),
        ("delay-up", &args.delay_up),
    ];
    let flag = |name: &str| if name == "FILE" { name.to_owned() } else { format!("--{name}") };
    let inputs = given.iter().filter(|(_, path)| path.as_deref() == Some(Path::new("-")));
    if inputs.count() > 1 {
        return Err(ConvertError::Use("- (standard input) is given twice; give files".to_owned()).into());
    }
    match given.iter().find(|(name, path)| path.is_some() && !own.contains(name)) {
        Some((name, _)) => {
            let takes: Vec<String> = own.iter().map(|name| flag(name)).collect();
            let message =
                format!("{}: not with --from {}, which takes {}", flag(name), format.name(), takes.join(", "));
            Err(ConvertError::Use(message).into())
        }
        None => Ok(()),
    }
}

/// Reads a file, if it is given.
fn input(path: &Option<PathBuf>) -> Result<Option<Input>, Error> {
    let Some(path) = path else { return Ok(None) };
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Error::file("standard input"))?;
        if bytes.len() as u64 > MOST_BYTES {
            let message = format!("standard input has more than {} MiB; split it", MOST_BYTES >> 20);
            return Err(ConvertError::Use(message).into());
        }
        bytes
    } else {
        read_limited(path, MOST_BYTES).map_err(Error::file(path))?
    };
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    Ok(Some(Input::new(&name, bytes)?))
}

/// Files with their contents; standard output has no name.
type Files = Vec<(Option<PathBuf>, String)>;

/// Returns the files to write, and remarks on what they do not say.
fn written(trace: &LinkTrace, args: &ConvertArgs) -> Result<(Files, Vec<String>), Error> {
    let out = |ending: &str| {
        let mut name = args.out.clone().unwrap_or_default().into_os_string();
        name.push(ending);
        Some(PathBuf::from(name))
    };
    if args.to == Target::Csv {
        return Ok((vec![(args.out.clone(), Csv(trace).to_string())], Vec::new()));
    }
    let (mut files, mut remarks) = (Vec::new(), Vec::new());
    for (index, ending) in [".down", ".up"].into_iter().enumerate() {
        files.extend(opportunities::write(trace, index)?.map(|text| (out(ending), text)));
    }
    let with_delay = args.to == Target::LeoReplayer;
    if with_delay {
        let delays = [0, 1].map(|index| leoreplayer::write(trace, index, args.interval.0));
        match delays {
            [Some(down), Some(up)] if down != up => {
                files.push((out(".delay-down"), down));
                files.push((out(".delay-up"), up));
                remarks.push("the delays of the directions differ: LeoReplayer uses one file for both".to_owned());
            }
            [down, up] => files.extend(down.or(up).map(|text| (out(".delay"), text))),
        }
    }
    if files.is_empty() {
        let message = format!("the trace has no column that {:?} can express", args.to).to_lowercase();
        return Err(
            ConvertError::Use(format!("{message}; it has {}", trace.names().collect::<Vec<_>>().join(", "))).into()
        );
    }
    remarks.extend(opportunities::unsaid(trace, with_delay));
    Ok((files, remarks))
}

/// Formats the properties of a trace.
fn lines(statistics: &Statistics) -> Vec<String> {
    let Statistics { seconds, rows, columns } = statistics;
    let mut lines = vec![format!("{seconds:.3} s in {rows} rows")];
    lines.extend(
        columns
            .iter()
            .map(|Column { name, mean, p5, p95 }| format!("{name}: mean {mean:.4}, 5 % {p5:.4}, 95 % {p95:.4}")),
    );
    lines
}
