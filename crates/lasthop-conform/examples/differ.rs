//! temporary
use lasthop_conform::differential::*;
use lasthop_conform::kernel::live;
use lasthop_conform::lasthop::{Lasthop, Model};
use lasthop_proto::tcp::config::Preset;
use lasthop_proto::time::Duration;
use std::collections::BTreeMap;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let kind = Kind::ALL.iter().find(|(n, _)| *n == args[1]).unwrap().1;
    let (count, seed): (u64, u64) = (args[2].parse().unwrap(), args[3].parse().unwrap());
    let show: usize = args.get(4).and_then(|v| v.parse().ok()).unwrap_or(5);
    let model = |ph| Model { phase: Duration::from_micros(ph), ..Model::new(Preset::Linux618) };
    let cases: Vec<Case> = (0..count).map(|i| generate(kind, seed + i, &mut Lasthop::new(model(2000)))).collect();
    let mut todo: Vec<usize> = (0..cases.len()).collect();
    let mut worst = BTreeMap::new();
    for attempt in 0..3 {
        let list: Vec<Case> = todo.iter().map(|i| cases[*i].clone()).collect();
        let runs = live::run(kind, &list, 200, "cubic", &mut || {}).unwrap();
        let mut next = vec![];
        for (i, run) in todo.iter().zip(runs) {
            let best = [500, 1500, 2500, 3500].iter().map(|ph| (compare(&cases[*i], &run.sent, &observe(&cases[*i], &mut Lasthop::new(model(*ph)))))).max_by_key(|m| m.as_ref().map_or(usize::MAX, |m| m.at)).unwrap();
            match best { None if !run.is_late => { worst.remove(i); }, m => { worst.insert(*i, (m, run)); next.push(*i); } }
        }
        eprintln!("attempt {attempt}: {} differ ({} late)", next.len(), worst.values().filter(|w| w.1.is_late).count());
        todo = next;
    }
    println!("{}: {} of {} the same", kind.name(), cases.len() - todo.len(), cases.len());
    let mut by = BTreeMap::<String, usize>::new();
    for (m, _) in worst.values() { *by.entry(m.as_ref().map_or("late".into(), |m| m.what.to_string())).or_default() += 1; }
    println!("{by:?}");
    for (i, (m, run)) in worst.iter().take(show) {
        println!("--- seed {} {m:?}", cases[*i].seed);
        println!("{}", write(&cases[*i], &run.sent, "x"));
    }
}
