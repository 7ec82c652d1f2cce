//! The chains of other programs that may stop the gateway's packets: named in the log when a treatment is suspended, and by `check`.

use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::daemon::passage::{Cause, Treatment, Untreated};

/// A chain that netfilter enters by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseChain {
    /// `ip`, `ip6` or `inet`.
    pub family: String,
    /// Name of its table.
    pub table: String,
    /// Its own name.
    pub name: String,
    /// The hook, as `input`.
    pub hook: String,
    /// Whether it drops what none of its rules accepts.
    pub drops: bool,
}

impl BaseChain {
    /// Name in messages, as in `inet filter input (policy drop)`.
    pub fn words(&self) -> String {
        let policy = if self.drops { " (policy drop)" } else { "" };
        format!("{} {} {}{policy}", self.family, self.table, self.name)
    }
}

/// Hooks at which packets of this cause are stopped.
pub const fn hooks(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::Output => &["output", "postrouting"],
        Cause::Input => &["prerouting", "input"],
        Cause::Silent => &["output", "postrouting", "prerouting", "input"],
        Cause::NoRoute | Cause::OtherRoute => &[],
    }
}

/// All base chains of nf_tables in the calling thread's network namespace; none where `nft` is missing.
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

/// Chains that may be the reason, those that drop by policy first; only these, if there are any.
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

/// Suspensions that are in the log already.
#[derive(Debug, Default)]
pub struct Reported(Vec<(Treatment, String, Cause)>);

impl Reported {
    /// Writes one line for each treatment that has been suspended since the last call, with the chains that may be the reason.
    pub fn report(&mut self, untreated: &[Untreated]) {
        self.0.retain(|known| untreated.iter().any(|one| key(one) == *known));
        for one in untreated {
            if self.0.contains(&key(one)) {
                continue;
            }
            self.0.push(key(one));
            let Untreated { treatment, family, cause, .. } = one.clone();
            // Listing chains takes a process, which the supervisor does not wait for.
            let told = std::thread::Builder::new().name("suspects".to_owned()).spawn(move || {
                let chains: Vec<_> = suspects(cause, &family).iter().map(BaseChain::words).collect();
                tracing::warn!(
                    treatment = treatment.name(),
                    family,
                    cause = cause.words(),
                    chains = chains.join(", "),
                    "connections pass untreated; `lasthop gateway check` names the rule that lets the gateway's packets pass"
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
