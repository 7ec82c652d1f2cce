//! Requirements of a script that are known before it runs.

use lasthop_proto::packet::Flags;
use lasthop_proto::time::Duration;

use super::Plan;
use super::calls;
use super::clock::Tolerance;
use super::code::is_constant;
use crate::code::Code;
use crate::script::{Action, Call, OptionsSpec, Script, SegmentSpec, TcpOption, Value};
use crate::shell::{self, Effect};
use crate::stack::{Host, Need, Stack};

/// Options of packetdrill without effect on the result.
const IGNORED: [&str; 16] = [
    "local_ip",
    "remote_ip",
    "gateway_ip",
    "netmask_ip",
    "speed",
    "bind_port",
    "connect_port",
    "verbose",
    "debug",
    "tcp_ts_ecr_scaled",
    "init_scripts",
    "send_omit_free",
    "code_command",
    "code_format",
    "dry_run",
    "D",
];

type Missing = (u32, String);

/// Returns the plan of a run, or the line and description of the first thing that is missing.
pub(super) fn plan(script: &Script, stack: &dyn Stack, load: &dyn Fn(&str) -> Option<String>) -> Result<Plan, Missing> {
    let mut plan = Plan {
        host: Host::default(),
        tolerance: Tolerance::default(),
        timestamp_tick: None,
        ignores_results: false,
        is_strict: false,
    };
    // Length above which packets of the script are merged ones.
    let mut merged = None;
    for flag in &script.flags {
        let lacks = |reason: String| Err((flag.line, reason));
        let number = || {
            let wrong = || (flag.line, format!("option --{} with the value `{}`", flag.name, flag.value));
            flag.value.parse::<f64>().ok().filter(|value| (0.0..1e9).contains(value)).ok_or_else(wrong)
        };
        match flag.name.as_str() {
            "tolerance_usecs" => plan.tolerance.least = Duration::from_micros(number()? as u64),
            "tolerance_percent" => plan.tolerance.percent = number()?,
            "tcp_ts_tick_usecs" => {
                let tick = number()? as u64;
                plan.timestamp_tick = (tick > 0).then(|| Duration::from_micros(tick));
            }
            "ip_version" => plan.host.is_ipv6 = flag.value == "ipv6",
            "mtu" => plan.host.mtu = number()? as u32,
            "mss" => merged = Some(number()? as u32),
            "non_fatal" => plan.ignores_results = flag.value.contains("syscall"),
            "strict_segments" => plan.is_strict = true,
            "udp_encapsulation" => return lacks("TCP over UDP".to_owned()),
            "tcp_md5_secret" => return lacks("TCP MD5 signatures".to_owned()),
            name if IGNORED.contains(&name) => {}
            name => return lacks(format!("option --{name}")),
        }
    }
    if let Some(setup) = &script.setup {
        for effect in shell::effects(&setup.text, load) {
            match check(&effect, stack) {
                Some(reason) => return Err((setup.line, reason)),
                None => set(&mut plan.host, effect),
            }
        }
    }
    let mut starts_host = true;
    for event in &script.events {
        let reason = match &event.action {
            Action::Inbound(spec) if merged.is_some_and(|most| spec.len > most) => {
                Some("packets that receive offload merged (--mss)".to_owned())
            }
            Action::Inbound(spec) | Action::Outbound(spec) => segment(spec, stack),
            Action::Other(kind) => Some(other(kind)),
            Action::Call(call) => self::call(call, stack),
            Action::Command(text) => {
                let effects = shell::effects(text, load);
                let reason = effects.iter().find_map(|effect| check(effect, stack));
                // Commands before the first call set up the host.
                if starts_host && reason.is_none() {
                    effects.into_iter().for_each(|effect| set(&mut plan.host, effect));
                }
                reason
            }
            Action::Code(text) => code(text, stack),
        };
        starts_host &= matches!(event.action, Action::Command(_));
        if let Some(reason) = reason {
            return Err((event.line, reason));
        }
    }
    Ok(plan)
}

/// Returns the description of a packet that is not supported.
fn other(kind: &str) -> String {
    match kind {
        "udp" => "TCP over UDP".to_owned(),
        kind if kind.contains(' ') => kind.to_owned(),
        kind => format!("{} packets", kind.to_uppercase()),
    }
}

fn set(host: &mut Host, effect: Effect) {
    if let Effect::Set(name, value) = effect {
        host.settings.insert(name, value);
    }
}

fn check(effect: &Effect, stack: &dyn Stack) -> Option<String> {
    match effect {
        Effect::Set(name, value) => stack.lacks(&Need::Setting(name, value)),
        Effect::Count(state, _) | Effect::Drop(state) => stack.lacks(&Need::State(state)),
        Effect::Unsupported(what) => Some(what.clone()),
    }
}

fn segment(spec: &SegmentSpec, stack: &dyn Stack) -> Option<String> {
    if Flags(spec.flags).has(Flags::SYN) && spec.len > 0 {
        return Some("TCP Fast Open".to_owned());
    }
    if Flags(spec.flags).has(Flags::URG) || spec.urgent.is_some() {
        return Some("urgent data".to_owned());
    }
    let OptionsSpec::List(options) = &spec.options else { return None };
    options.iter().find_map(|option| match option {
        TcpOption::FastOpen(..) => Some("TCP Fast Open".to_owned()),
        TcpOption::Md5 => Some("TCP MD5 signatures".to_owned()),
        option => stack.lacks(&Need::TcpOption(option)),
    })
}

fn call(call: &Call, stack: &dyn Stack) -> Option<String> {
    if !calls::is_known(&call.name) {
        return Some(format!("call {}()", call.name));
    }
    if call.errno.as_deref() == Some("EFAULT") {
        return Some("invalid pointers".to_owned());
    }
    let words = |at: usize| call.args.get(at).map(Value::words).unwrap_or_default();
    match call.name.as_str() {
        "socket" if words(1).contains(&"SOCK_DGRAM") || words(1).contains(&"SOCK_RAW") => {
            Some("sockets other than of TCP".to_owned())
        }
        "setsockopt" | "getsockopt" => {
            let name = words(2).first().copied().map_or_else(|| format!("{:?}", call.args.get(2)), str::to_owned);
            if name.starts_with("TCP_FASTOPEN") {
                return Some("TCP Fast Open".to_owned());
            }
            if name.contains("MD5") {
                return Some("TCP MD5 signatures".to_owned());
            }
            if name.contains("UDP_ENCAPS") {
                return Some("TCP over UDP".to_owned());
            }
            let is_set = call.name == "setsockopt";
            stack.lacks(&if is_set { Need::SetOption(&name) } else { Need::GetOption(&name) })
        }
        _ => call.args.iter().flat_map(Value::words).filter(|word| word.starts_with("MSG_")).find_map(
            |flag| match flag {
                "MSG_FASTOPEN" => Some("TCP Fast Open".to_owned()),
                "MSG_OOB" => Some("urgent data".to_owned()),
                "MSG_DONTWAIT" | "MSG_NOSIGNAL" => None,
                flag => stack.lacks(&Need::CallFlag(flag)),
            },
        ),
    }
}

fn code(text: &str, stack: &dyn Stack) -> Option<String> {
    match Code::parse(text) {
        Err(unmet) => Some(unmet.message),
        Ok(code) => {
            code.names().into_iter().filter(|name| !is_constant(name)).find_map(|name| stack.lacks(&Need::Info(name)))
        }
    }
}
