//! Programs that list and change rules.

use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use super::chains::{self, Listing, Table};
use super::native;
use crate::family::Family;

/// Program of nftables.
pub(super) const NFT: &str = "nft";

/// Time that the programs wait for the lock of the rules, in seconds.
pub(super) const LOCK_WAIT: &str = "5";

/// Reason why rules could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// A program could not be run.
    #[error("{program}: {error}")]
    Run {
        /// Name of the program.
        program: String,
        /// Error.
        error: io::Error,
    },
    /// A program failed.
    #[error("{program}: {message}")]
    Refused {
        /// Name of the program.
        program: String,
        /// Error message of the program, in one line.
        message: String,
    },
    /// No program is available.
    #[error("no program to install {} rules: install nftables or iptables (tried {})", family.name(), family.programs().join(", "))]
    Missing {
        /// IP version of the rules.
        family: Family,
    },
}

impl Family {
    /// Returns the programs that set rules: nftables', and those of iptables with the system's default first.
    pub const fn programs(self) -> [&'static str; 4] {
        match self {
            Self::V4 => [NFT, "iptables", "iptables-legacy", "iptables-nft"],
            Self::V6 => [NFT, "ip6tables", "ip6tables-legacy", "ip6tables-nft"],
        }
    }
}

/// Program that sets rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tables {
    pub family: Family,
    pub program: &'static str,
}

impl Tables {
    /// Returns whether the program is `nft`, which keeps a table of the gateway's own.
    pub fn is_native(&self) -> bool {
        self.program == NFT
    }

    /// Returns whether other programs keep a firewall in its tables: rules, or a policy other than accept, in the
    /// `INPUT`, `OUTPUT` or `FORWARD` chain.
    pub fn has_firewall(&self) -> bool {
        if !self.is_nft() && !self.has_legacy_filter() {
            // Listing the legacy table would create it.
            return false;
        }
        let output = self.run("", &["-t", "filter", "-S"], "").ok().filter(|output| output.status.success());
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let matters = |line: &str| {
            let of_hook = ["INPUT ", "OUTPUT ", "FORWARD "].into_iter().any(|hook| line[3..].starts_with(hook));
            of_hook && (line.starts_with("-A ") && !line.contains(" LASTHOP") || line.ends_with(" DROP"))
        };
        text.lines().filter(|line| line.len() > 3).any(matters)
    }

    /// Returns whether the kernel has the legacy filter table.
    fn has_legacy_filter(&self) -> bool {
        let names = match self.family {
            Family::V4 => "ip_tables_names",
            Family::V6 => "ip6_tables_names",
        };
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{names}")).unwrap_or_default();
        text.lines().any(|line| line == "filter")
    }

    /// Runs the program, or its variant with `suffix`.
    fn run(&self, suffix: &str, arguments: &[&str], input: &str) -> Result<Output, FirewallError> {
        // `iptables-legacy` goes with `iptables-legacy-restore`.
        let program = format!("{}{suffix}", self.program);
        let fail = |error| FirewallError::Run { program: program.clone(), error };
        let mut command = Command::new(&program);
        if !self.is_native() {
            command.args(["-w", LOCK_WAIT]);
        }
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(fail)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that exits before it has read everything reports the reason itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output().map_err(fail)
    }

    /// Executes one transaction.
    pub fn restore(&self, text: &str, more: &[&str]) -> Result<(), FirewallError> {
        let output = match (self.is_native(), more) {
            (true, []) => self.run("", &["-f", "-"], text)?,
            (true, _) => self.run("", &["-c", "-f", "-"], text)?,
            (false, _) => self.run("-restore", &[&["--noflush"], more].concat(), text)?,
        };
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect::<Vec<_>>();
        let suffix = if self.is_native() { "" } else { "-restore" };
        Err(FirewallError::Refused { program: format!("{}{suffix}", self.program), message: message.join(" ") })
    }

    /// Returns all rules of the tables that the gateway uses; none for a table that the kernel does not have.
    pub fn list(&self) -> Result<Listing, FirewallError> {
        if self.is_native() {
            return Ok(Listing::new());
        }
        let list = |table: Table| {
            let output = self.run("", &["-t", table.name(), "-S"], "")?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok((table, text.lines().map(str::to_owned).collect()))
        };
        Table::ALL.into_iter().map(list).collect()
    }

    /// Returns the gateway's own rules.
    pub fn own(&self) -> Result<Vec<String>, FirewallError> {
        if self.is_native() {
            // Without counters, and without the elements of its set.
            let arguments = ["-s", "-t", "list", "table", native::family(self.family), native::NAME];
            let output = self.run("", &arguments, "")?;
            return Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect());
        }
        let own = |(table, lines): (Table, Vec<String>)| {
            chains::own(&lines).into_iter().map(move |line| format!("{table} {line}"))
        };
        Ok(self.list()?.into_iter().flat_map(own).collect())
    }

    /// Removes the gateway's rules, and returns whether there were any.
    pub fn remove(&self) -> Result<bool, FirewallError> {
        if self.is_native() {
            let is_there = !self.own()?.is_empty();
            return if is_there { self.restore(&native::remove(self.family), &[]).map(|()| true) } else { Ok(false) };
        }
        match chains::remove(&self.list()?) {
            Some(text) => self.restore(&text, &[]).map(|()| true),
            None => Ok(false),
        }
    }

    /// Checks whether the kernel accepts such rules: `--test` does not always ask the kernel.
    pub fn probe(&self) -> Result<(), FirewallError> {
        if self.is_native() {
            return Ok(());
        }
        let output = self.run("", &["-t", "mangle", "-S", "FORWARD"], "")?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        Err(FirewallError::Refused { program: self.program.to_owned(), message })
    }

    /// Returns whether the program sets nf_tables rules rather than legacy ones.
    pub fn is_nft(&self) -> bool {
        self.is_native()
            || self
                .run("", &["-V"], "")
                .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nf_tables"))
    }
}
