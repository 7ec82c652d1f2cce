//! Chains of other programs that may drop the gateway's packets. The log names them when a treatment is suspended, as
//! does `check`.

use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::daemon::passage::{Cause, Treatment, Untreated};

/// Base chain: a chain that netfilter enters from a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseChain {
    /// Family: `ip`, `ip6` or `inet`.
    pub family: String,
    /// Name of the chain's table.
    pub table: String,
    /// Name of the chain.
    pub name: String,
    /// Hook, such as `input`.
    pub hook: String,
    /// True if the chain's policy is to drop.
    pub drops: bool,
}

impl BaseChain {
    /// Returns a description of the chain for messages, such as `inet filter input (policy drop)`.
    pub fn words(&self) -> String {
        let policy = if self.drops { " (policy drop)" } else { "" };
        format!("{} {} {}{policy}", self.family, self.table, self.name)
    }
}

/// Returns the hooks at which packets may be dropped for this cause.
pub const fn hooks(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::Output => &["output", "postrouting"],
        Cause::Input => &["prerouting", "input"],
        Cause::Silent => &["output", "postrouting", "prerouting", "input"],
        Cause::NoRoute | Cause::OtherRoute => &[],
    }
}

/// Returns all nf_tables base chains in the calling thread's network namespace; empty without `nft`.
pub fn base_chains() -> Vec<BaseChain> {
    #[derive(Deserialize)]
    struct List {
        nftables: Vec<serde_json::Value>,
    }
    let output = Command::new("nft").args(["-j", "list", "chains"]).stdin(Stdio::null()).output();
    let list = output.ok().and_then(|output| serde_json::from_slice::<List>(&output.stdout).ok());
    let read = |value: serde_json::Value| {
        let chain = value.get("chain")?;
        let text = |key: &str| Some(chain.get(key)?.as_str()?.to_owned());
        Some(BaseChain {
            family: text("family")?,
            table: text("table")?,
            name: text("name")?,
            hook: text("hook")?,
            drops: text("policy").is_some_and(|policy| policy == "drop"),
        })
    };
    list.into_iter().flat_map(|list| list.nftables).filter_map(read).collect()
}

/// Returns the chains that may be the cause. If any of them drop by policy, returns only those.
pub fn suspects(cause: Cause, family: &str) -> Vec<BaseChain> {
    let other = if family == "IPv4" { "ip6" } else { "ip" };
    let concerned = |chain: &BaseChain| {
        hooks(cause).contains(&chain.hook.as_str())
            && chain.family != other
            && chain.family != "bridge"
            && !chain.table.starts_with("lasthop")
    };
    let all: Vec<_> = base_chains().into_iter().filter(concerned).collect();
    let dropping: Vec<_> = all.iter().filter(|chain| chain.drops).cloned().collect();
    if dropping.is_empty() { all } else { dropping }
}

/// Suspensions that have been logged.
#[derive(Debug, Default)]
pub struct Reported(Vec<(Treatment, String, Cause)>);

impl Reported {
    /// Logs each suspension since the last call, with the chains that may be the cause.
    pub fn report(&mut self, untreated: &[Untreated]) {
        self.0.retain(|known| untreated.iter().any(|one| key(one) == *known));
        for one in untreated {
            if self.0.contains(&key(one)) {
                continue;
            }
            self.0.push(key(one));
            let Untreated { treatment, family, cause, .. } = one.clone();
            // Listing chains needs a process, for which the supervisor does not wait.
            let told = std::thread::Builder::new().name("suspects".to_owned()).spawn(move || {
                let chains: Vec<_> = suspects(cause, &family).iter().map(BaseChain::words).collect();
                tracing::warn!(
                    treatment = treatment.name(),
                    family,
                    cause = cause.words(),
                    chains = chains.join(", "),
                    "connections pass untreated; run `lasthop gateway check` for the firewall rule to add"
                );
            });
            if let Err(error) = told {
                tracing::warn!(%error, treatment = treatment.name(), cause = cause.words(), "connections pass untreated");
            }
        }
    }
}

fn key(one: &Untreated) -> (Treatment, String, Cause) {
    (one.treatment, one.family.clone(), one.cause)
}
