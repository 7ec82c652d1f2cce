//! Text of the gateway's chains: their rules, their hooks, and the transactions that install or remove them.

use std::fmt::{self, Write as _};

/// Name of the chain for packets that the gateway forwards and sends itself.
pub const CHAIN: &str = "LASTHOP";
/// Name of the chain for split connections.
pub const SPLIT_CHAIN: &str = "LASTHOP_SPLIT";
/// Names of the chains for packets that the relay sends over the lossy hop and receives from it.
pub const OUT_CHAIN: &str = "LASTHOP_OUT";
pub const IN_CHAIN: &str = "LASTHOP_IN";

/// Table of netfilter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Filters packets.
    Filter,
    /// Runs before connection tracking.
    Raw,
    /// Modifies packets.
    Mangle,
}

impl Table {
    /// All tables in the order of removal: those that direct packets elsewhere first.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Mangle, Self::Filter];

    /// Returns the programs' name of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Raw => "raw",
            Self::Mangle => "mangle",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Position of the jump to a chain among the rules of its hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before all other rules.
    First,
    /// After all other rules.
    Last,
}

/// Installation stage of a chain: a chain that directs packets elsewhere is connected last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The chain does not affect unmarked packets.
    Quiet,
    /// The chain directs packets to other chains.
    Leading,
}

/// Chain of the gateway, with its hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Table.
    pub table: Table,
    /// Name.
    pub name: &'static str,
    /// Built-in chain that jumps to this chain.
    pub hook: &'static str,
    /// Position of the jump.
    pub place: Place,
    /// Installation stage.
    pub stage: Stage,
    /// Rules: matches and targets.
    pub rules: Vec<String>,
}

impl Chain {
    fn declare(&self, text: &mut String) {
        let _ = writeln!(text, ":{} - [0:0]", self.name);
        for rule in &self.rules {
            let _ = writeln!(text, "-A {} {rule}", self.name);
        }
    }

    /// Adds the jump to the chain, and removes existing ones.
    fn connect(&self, listed: &[String], text: &mut String) {
        for jump in listed.iter().filter(|line| is_jump(line, self.hook, self.name)) {
            let _ = writeln!(text, "-D {}", jump.trim_start_matches("-A "));
        }
        let action = match self.place {
            Place::First => "-I",
            Place::Last => "-A",
        };
        let _ = writeln!(text, "{action} {} -j {}", self.hook, self.name);
    }
}

fn is_jump(line: &str, hook: &str, name: &str) -> bool {
    line.strip_prefix("-A ")
        .and_then(|line| line.strip_prefix(hook))
        .is_some_and(|rest| rest.starts_with(' ') && rest.strip_suffix(name).is_some_and(|rest| rest.ends_with(" -j ")))
}

/// Returns the listed lines that concern the gateway's chains, sorted by chain.
pub fn own(listed: &[String]) -> Vec<String> {
    let is_own = |line: &&String| {
        let mut words = line.split(' ');
        let (action, chain) = (words.next(), words.next());
        let is_ours = |name: Option<&str>| matches!(name, Some(CHAIN | SPLIT_CHAIN | OUT_CHAIN | IN_CHAIN));
        matches!(action, Some("-N" | "-A")) && (is_ours(chain) || is_ours(line.rsplit(' ').next()))
    };
    let mut lines: Vec<String> = listed.iter().filter(is_own).cloned().collect();
    // The programs list chains in the order of their creation.
    lines.sort_by(|one, other| one.split(' ').nth(1).cmp(&other.split(' ').nth(1)));
    lines
}

/// Rules listed per table, as printed by `iptables -S`.
pub type Listing = Vec<(Table, Vec<String>)>;

fn listed(listing: &Listing, table: Table) -> &[String] {
    listing.iter().find(|(of, _)| *of == table).map(|(_, lines)| lines.as_slice()).unwrap_or_default()
}

/// Returns a transaction that installs `chains` in place of existing ones. A table takes effect at its `COMMIT`, so
/// jumps that direct packets to other tables come last.
pub fn install(chains: &[Chain], listing: &Listing) -> String {
    let mut text = String::new();
    for table in [Table::Filter, Table::Raw, Table::Mangle] {
        let own: Vec<_> = chains.iter().filter(|chain| chain.table == table).collect();
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(text, "*{table}");
        own.iter().for_each(|chain| chain.declare(&mut text));
        for chain in own.iter().filter(|chain| chain.stage == Stage::Quiet) {
            chain.connect(listed(listing, table), &mut text);
        }
        text.push_str("COMMIT\n");
    }
    for chain in chains.iter().filter(|chain| chain.stage == Stage::Leading) {
        let _ = writeln!(text, "*{}", chain.table);
        chain.connect(listed(listing, chain.table), &mut text);
        text.push_str("COMMIT\n");
    }
    text
}

/// Returns a transaction that removes all listed chains of the gateway; `None` if there are none.
pub fn remove(listing: &Listing) -> Option<String> {
    let mut text = String::new();
    for table in Table::ALL {
        let own = own(listed(listing, table));
        let chains = || own.iter().filter_map(|line| line.strip_prefix("-N "));
        if chains().next().is_none() {
            continue;
        }
        let _ = writeln!(text, "*{table}");
        for chain in chains() {
            let _ = writeln!(text, ":{chain} - [0:0]");
        }
        for jump in own.iter().filter_map(|line| line.strip_prefix("-A ")) {
            // The line that declares a chain has already removed its rules.
            if !chains().any(|chain| jump.split(' ').next() == Some(chain)) {
                let _ = writeln!(text, "-D {jump}");
            }
        }
        for chain in chains() {
            let _ = writeln!(text, "-X {chain}");
        }
        text.push_str("COMMIT\n");
    }
    (!text.is_empty()).then_some(text)
}
