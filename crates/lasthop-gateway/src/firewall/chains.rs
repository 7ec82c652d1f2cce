//! The gateway's chains as text: what is in them, from where they are reached, and the transaction that puts them in or
//! takes them out.

use std::fmt::{self, Write as _};

/// The gateway's chain for what it forwards and sends itself.
pub const CHAIN: &str = "LASTHOP";
/// Its chain for connections that are split.
pub const SPLIT_CHAIN: &str = "LASTHOP_SPLIT";
/// Its chains for what its own relay sends over the lossy hop, and receives from there.
pub const OUT_CHAIN: &str = "LASTHOP_OUT";
pub const IN_CHAIN: &str = "LASTHOP_IN";

/// A table of netfilter's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// What may pass.
    Filter,
    /// Before connections are tracked.
    Raw,
    /// What changes packets.
    Mangle,
}

impl Table {
    /// All, in the order in which rules are taken out: what leads packets to others first.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Mangle, Self::Filter];

    /// As the programs name it.
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

/// Where among the rules of its hook a chain is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Before all others.
    First,
    /// Behind all others.
    Last,
}

/// Whether packets are led anywhere by a chain, so that all else must be there before it is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It changes nothing for packets that are not marked.
    Quiet,
    /// It leads packets to other chains.
    Leading,
}

/// A chain of the gateway's own, and from where it is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Its table.
    pub table: Table,
    /// Its name.
    pub name: &'static str,
    /// The chain of the kernel's that leads to it.
    pub hook: &'static str,
    /// Where.
    pub place: Place,
    /// When.
    pub stage: Stage,
    /// What is in it: matches and targets.
    pub rules: Vec<String>,
}

impl Chain {
    fn declare(&self, text: &mut String) {
        let _ = writeln!(text, ":{} - [0:0]", self.name);
        for rule in &self.rules {
            let _ = writeln!(text, "-A {} {rule}", self.name);
        }
    }

    /// Leads to it, in place of what leads to it already.
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

/// The lines that are about the gateway's chains, of all that a program lists: chain for chain, in their order.
pub fn own(listed: &[String]) -> Vec<String> {
    let is_own = |line: &&String| {
        let mut words = line.split(' ');
        let (action, chain) = (words.next(), words.next());
        let is_ours = |name: Option<&str>| matches!(name, Some(CHAIN | SPLIT_CHAIN | OUT_CHAIN | IN_CHAIN));
        matches!(action, Some("-N" | "-A")) && (is_ours(chain) || is_ours(line.rsplit(' ').next()))
    };
    let mut lines: Vec<String> = listed.iter().filter(is_own).cloned().collect();
    // The programs list chains in whichever order they were made.
    lines.sort_by(|one, other| one.split(' ').nth(1).cmp(&other.split(' ').nth(1)));
    lines
}

/// What a table lists, as `iptables -S` prints it.
pub type Listing = Vec<(Table, Vec<String>)>;

fn listed(listing: &Listing, table: Table) -> &[String] {
    listing.iter().find(|(of, _)| *of == table).map(|(_, lines)| lines.as_slice()).unwrap_or_default()
}

/// One transaction that puts `chains` in, in place of what is there of them. A table becomes valid at its `COMMIT`: what leads
/// packets to other tables comes last.
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

/// One transaction that takes out all that is listed of the gateway's chains; none when there is nothing.
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
            // What is in the chains themselves is gone with the line that declares them.
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
