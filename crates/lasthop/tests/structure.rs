//! Tests of the structure that docs/ARCHITECTURE.md describes.

#[path = "../../lasthop-identity/src/manifest.rs"]
mod manifest;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the crates of the workspace that `name` depends on, without those of tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
    manifest::dependencies(&manifest).into_iter().collect()
}

/// Returns the crates of the workspace that `name` links: its dependencies, and theirs.
fn linked_by(name: &str) -> BTreeSet<String> {
    let (mut linked, mut todo) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(name) = todo.pop() {
        todo.extend(dependencies(&name).into_iter().filter(|name| linked.insert(name.clone())));
    }
    linked
}

/// The table of crates in docs/ARCHITECTURE.md has each crate's dependencies, which are further down.
#[test]
fn the_table_of_crates_is_right() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `lasthop")).map(cells).collect();
    let name = |row: &[String]| row[1].trim_matches('`').to_owned();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let mut there: Vec<String> =
        fs::read_dir(root().join("crates")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, there);
    for (at, row) in rows.iter().enumerate() {
        let uses = row[3].split(", ").filter(|used| *used != "–").map(|used| format!("lasthop-{used}"));
        let uses: BTreeSet<String> = uses.collect();
        assert_eq!(uses, dependencies(&names[at]), "{}", names[at]);
        assert!(uses.iter().all(|used| names[at + 1..].contains(used)), "{}: {uses:?}", names[at]);
    }
}

/// Gateway and tunnel run on routers, so they contain neither the simulator nor its QUIC.
#[test]
fn daemons_do_not_link_the_simulator() {
    for daemon in ["lasthop-daemon", "lasthop-gateway", "lasthop-tunnel", "lasthop-tunneld", "lasthop-probe"] {
        let linked = linked_by(daemon);
        assert!(linked.contains("lasthop-proto"), "{daemon}: {linked:?}");
        for simulator in ["lasthop-sim", "lasthop-scenario", "lasthop-quic", "lasthop-study"] {
            assert!(!linked.contains(simulator), "{daemon} links {simulator}");
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Splits `a::{b, c::{d, e}}` into the paths `a::b`, `a::c::d` and `a::c::e`.
fn expand(path: &str, paths: &mut Vec<String>) {
    let Some((before, group)) = path.split_once('{') else {
        return paths.push(path.split(" as ").next().unwrap().trim().to_owned());
    };
    let group = group.trim_end().strip_suffix('}').unwrap();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let item = group[start..at].trim();
                start = at + 1;
                if !item.is_empty() {
                    expand(&format!("{}{item}", before.trim()), paths);
                }
            }
            _ => {}
        }
    }
}

/// Returns the modules of the same crate that a file's `use` declarations name: the deepest that is a file of its own.
fn imports(module: &[String], text: &str, files: &BTreeMap<Vec<String>, PathBuf>) -> BTreeSet<Vec<String>> {
    let code: Vec<&str> = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).collect();
    let mut paths = Vec::new();
    for declaration in code.join(" ").split(';') {
        let inner = ["use crate::", "use super::", "use self::"].iter().find_map(|it| declaration.rfind(it));
        if let Some(at) = inner {
            expand(&declaration[at + 4..], &mut paths);
        }
    }
    let mut found = BTreeSet::new();
    for path in paths {
        let mut named = module.to_vec();
        for (at, part) in path.split("::").map(str::trim).enumerate() {
            match part {
                "crate" if at == 0 => named.clear(),
                "self" if at == 0 => {}
                "super" => drop(named.pop()),
                _ => {
                    named.push(part.to_owned());
                    if !files.contains_key(&named) {
                        named.pop();
                        break;
                    }
                }
            }
        }
        // A module may name its own parts, and parts may name what the whole declares.
        if !named.starts_with(module) && !module.starts_with(&named) {
            found.insert(named);
        }
    }
    found
}

/// Modules of these crates do not import each other in circles.
#[test]
fn no_modules_import_each_other_in_circles() {
    for name in
        ["lasthop-proto", "lasthop-scenario", "lasthop-settings", "lasthop-study", "lasthop-tunnel", "lasthop-tunneld"]
    {
        let src = root().join("crates").join(name).join("src");
        let (mut all, mut files) = (Vec::new(), BTreeMap::new());
        sources(&src, &mut all);
        for path in all {
            let module = path.strip_prefix(&src).unwrap().with_extension("");
            let mut module: Vec<String> = module.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            let is_test = module.iter().any(|part| part.contains("test") || part.contains("properties"));
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            if !is_test {
                files.insert(module, path);
            }
        }
        let mut graph: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
        for (module, path) in &files {
            graph.insert(module.clone(), imports(module, &fs::read_to_string(path).unwrap(), &files));
        }
        assert!(graph.values().map(BTreeSet::len).sum::<usize>() > files.len() / 2, "{name}: {graph:?}");
        // Modules without imports are removed, again and again; those in circles, and above them, remain.
        while let Some(free) = graph.iter().find(|(_, uses)| uses.is_empty()).map(|(module, _)| module.clone()) {
            graph.remove(&free);
            for uses in graph.values_mut() {
                uses.remove(&free);
            }
        }
        assert_eq!(graph, BTreeMap::new(), "{name}");
    }
}

/// Returns the number of lines of code: without comments, blank lines and the tests at the end.
fn code_lines(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let code = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).map(str::trim);
    code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn no_source_file_has_more_than_500_lines_of_code() {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut all);
    }
    assert!(all.len() > 500, "{}", all.len());
    let long = |path: &&PathBuf| !path.to_string_lossy().contains("tests") && code_lines(path) > 500;
    assert_eq!(all.iter().filter(long).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

/// Returns the structures that a file declares, with the number of their fields. Relies on rustfmt's layout.
fn structures(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let Some((before, name)) = code.split_once("struct ") else { continue };
        if !code.ends_with('{') || !(before.is_empty() || before.starts_with("pub")) {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let fields = lines.by_ref().take_while(|line| *line != end).filter(|line| {
            let field = line.trim_start();
            line.len() - field.len() == indent + 4 && field.starts_with(char::is_alphabetic) && field.contains(": ")
        });
        found.push((name.split(['<', ' ']).next().unwrap(), fields.count()));
    }
    found
}

/// Structures of many fields have parts with names and methods of their own. Configuration mirrors its file.
#[test]
fn no_structure_has_more_than_25_fields() {
    let mut all = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut all);
    }
    let texts: Vec<String> = all.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let found: Vec<_> = texts.iter().flat_map(|text| structures(text)).collect();
    assert!(found.len() > 1000 && found.iter().any(|(_, fields)| *fields > 20), "{}", found.len());
    let is_configuration = |name: &str| ["Config", "Settings", "Spec", "Args"].iter().any(|end| name.ends_with(end));
    let large: Vec<_> = found.into_iter().filter(|(name, fields)| *fields > 25 && !is_configuration(name)).collect();
    assert_eq!(large, []);
}

/// Returns the code spans of a Markdown text, with the words before each.
fn spans(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Returns the files that a name in docs/ARCHITECTURE.md may mean: a path from the root, from `crates/` without
/// `lasthop-`, or the end of a path.
fn meant<'f>(name: &str, files: &'f [String]) -> Vec<&'f String> {
    let whole = [name.to_owned(), format!("crates/lasthop-{name}"), format!("crates/{name}")];
    let is_named = |file: &&String| match name.strip_suffix('/') {
        Some(folder) => whole.iter().any(|whole| file.starts_with(whole)) || file.contains(&format!("/{folder}/")),
        None => whole.contains(file) || file.ends_with(&format!("/{name}")),
    };
    files.iter().filter(is_named).collect()
}

/// Every file, folder and item that docs/ARCHITECTURE.md names exists, an item in the file that is named with it.
#[test]
fn what_the_architecture_names_exists() {
    let text = fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["benches", "crates", "docs", "fuzz", "python"] {
        let mut todo = vec![root().join(folder)];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let declares = |file: &String, item: &str| {
        let source = fs::read_to_string(root().join(file)).unwrap_or_default();
        let name = item.rsplit("::").next().unwrap();
        ["struct", "enum", "trait", "type", "fn", "const", "static"].iter().any(|kind| {
            let declared = format!("{kind} {name}");
            source.match_indices(&declared).any(|(at, _)| {
                !source[at + declared.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_')
            })
        })
    };
    let mut checked = [0; 3];
    for line in text.lines() {
        let mut item = None;
        for (before, span) in spans(line) {
            let is_path = !span.contains([' ', '*', '[', '=']) && !span.starts_with(['/', '.']);
            if is_path && (span.ends_with('/') || [".rs", ".js", ".py", ".toml"].iter().any(|end| span.ends_with(end)))
            {
                let meant = meant(span, &files);
                assert!(!meant.is_empty(), "{span} does not exist: {line}");
                checked[0] += 1;
                if let (Some(item), "of" | "in" | "(", false) = (item, before.trim(), span.ends_with('/')) {
                    assert!(meant.iter().any(|file| declares(file, item)), "{span} does not declare {item}: {line}");
                    checked[1] += 1;
                }
            }
            item = (span.starts_with(char::is_uppercase)
                && span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c)))
            .then_some(span);
            if let Some(item) = item {
                let sources = files.iter().filter(|file| file.ends_with(".rs"));
                assert!(sources.into_iter().any(|file| declares(file, item)), "nothing is called {item}: {line}");
                checked[2] += 1;
            }
        }
    }
    assert!(checked[0] > 100 && checked[1] > 10 && checked[2] > 30, "{checked:?}");
}

/// Mechanisms read their configuration, not the name of a scheme or preset that supplied it.
#[test]
fn mechanisms_ask_for_neither_scheme_nor_preset() {
    let src = root().join("crates/lasthop-proto/src");
    let mut all = Vec::new();
    sources(&src, &mut all);
    let is_test = |path: &str| ["tests", "properties", "rig"].iter().any(|part| path.contains(part));
    let mut read = 0;
    for path in all {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
        if is_test(&name) || ["scheme.rs", "lib.rs", "tcp/mod.rs"].contains(&&*name) || name.starts_with("tcp/config") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().lines();
        let code: Vec<_> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        let asks = |line: &&&str| line.contains("scheme") || line.contains("Preset");
        assert_eq!(code.iter().find(asks), None, "{name}");
        read += 1;
    }
    assert!(read > 150, "{read}");
}
