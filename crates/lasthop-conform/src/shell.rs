//! Shell commands of scripts: settings of the host, understood from their text. Nothing is executed.

/// Effect of a shell command on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Sets a variable: `net.ipv4.tcp_ecn`, or `module.tcp_cubic.hystart_detect` for a parameter of a module.
    Set(String, String),
    /// Requires that so many connections are in a state, by its name in `sockstat`.
    Count(String, usize),
    /// Drops the connections that are in a state.
    Drop(String),
    /// Requires something that is not supported: its description.
    Unsupported(String),
}

/// Maximum depth of scripts that call each other.
const MOST_DEPTH: u8 = 3;

/// Maximum number of effects of a command.
const MOST_EFFECTS: usize = 1000;

/// Commands whose effect concerns neither the stack nor its segments.
const IGNORED: [&str; 16] = [
    "nstat", "true", "sleep", "rm", "dd", "ethtool", "set", "cat", "tcpdump", "modprobe", "ulimit", "export", "exit",
    "chmod", "mkdir", "test",
];

/// Returns the effects of a command. `load` returns the text of another shell script that the command calls.
pub fn effects(text: &str, load: &dyn Fn(&str) -> Option<String>) -> Vec<Effect> {
    let mut effects = Vec::new();
    collect(text, load, MOST_DEPTH, &mut effects);
    effects
}

fn collect(text: &str, load: &dyn Fn(&str) -> Option<String>, depth: u8, effects: &mut Vec<Effect>) {
    for pipeline in commands(text) {
        if effects.len() >= MOST_EFFECTS {
            return;
        }
        let Some(name) = pipeline.first().and_then(|command| command.first()) else { continue };
        let arguments = &pipeline[0][1..];
        let base = name.rsplit('/').next().unwrap_or(name);
        match base {
            "sysctl" | "set_sysctls.py" => effects.extend(assignments(arguments)),
            "sockstat" => effects.push(count(&pipeline)),
            "tcpdrop" => effects.push(match arguments {
                [flag, state] if flag == "-s" => Effect::Drop(state.clone()),
                _ => Effect::Unsupported("tcpdrop".to_owned()),
            }),
            "ip" if arguments.first().is_some_and(|word| word == "tcp_metrics") => {}
            "tc" => effects.extend(qdisc(arguments)),
            "echo" => effects.extend(parameter(arguments)),
            _ if base.starts_with("sysctl_restore") || IGNORED.contains(&base) => {}
            _ if base.ends_with(".sh") => match load(name).filter(|_| depth > 0) {
                Some(text) => collect(&text, load, depth - 1, effects),
                None => effects.push(Effect::Unsupported(format!("shell script {base}, which cannot be read"))),
            },
            "ip" => {
                let what = arguments.first().map_or("", String::as_str);
                effects.push(Effect::Unsupported(format!("shell command `ip {what}`")));
            }
            _ => effects.push(Effect::Unsupported(format!("shell command `{base}`"))),
        }
    }
}

/// Returns the variables that `name=value` arguments set.
fn assignments(arguments: &[String]) -> impl Iterator<Item = Effect> {
    arguments.iter().filter(|word| !word.starts_with('-')).filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        let name = name.strip_prefix("/proc/sys/").unwrap_or(name).replace('/', ".");
        Some(Effect::Set(name, value.trim().to_owned()))
    })
}

/// Returns the requirement of `sockstat ... | grep -c STATE | grep NUMBER`.
fn count(pipeline: &[Vec<String>]) -> Effect {
    let filters = pipeline.iter().filter(|command| command.first().is_some_and(|name| name == "grep"));
    let (mut state, mut number) = (None, None);
    for filter in filters {
        match filter.as_slice() {
            [_, flag, word] if flag == "-c" => state = Some(word.clone()),
            [_, word] => number = word.parse().ok(),
            _ => {}
        }
    }
    match (state, number) {
        (Some(state), Some(number)) => Effect::Count(state, number),
        _ => Effect::Unsupported("sockstat".to_owned()),
    }
}

/// Returns the queueing discipline that `tc` sets. A plain FIFO is the default, unless it drops everything.
fn qdisc(arguments: &[String]) -> Option<Effect> {
    let at = arguments.iter().position(|word| word == "root")?;
    let kind = arguments.get(at + 1)?;
    let is_fifo = matches!(kind.as_str(), "pfifo" | "pfifo_fast" | "bfifo" | "noqueue");
    let drops = arguments[at..].windows(2).any(|words| words == ["limit", "0"]);
    let name = if drops { format!("{kind} limit 0") } else { kind.clone() };
    (!is_fifo || drops).then(|| Effect::Set("qdisc".to_owned(), name))
}

/// Returns the parameter of a kernel module, or the variable, that `echo value > path` sets.
fn parameter(arguments: &[String]) -> Option<Effect> {
    let at = arguments.iter().position(|word| word.starts_with('>'))?;
    let value = arguments[..at].join(" ");
    let path = match arguments[at].trim_start_matches('>') {
        "" => arguments.get(at + 1)?,
        path => path,
    };
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        return Some(Effect::Set(name.replace('/', "."), value));
    }
    let rest = path.strip_prefix("/sys/module/")?;
    let (module, name) = rest.split_once("/parameters/")?;
    Some(Effect::Set(format!("module.{module}.{name}"), value))
}

/// Splits a text into pipelines of commands of words. Redirections to `/dev/null` are dropped.
fn commands(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut pipelines = vec![vec![Vec::new()]];
    let mut word = String::new();
    let mut has_word = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let end_word = |pipelines: &mut Vec<Vec<Vec<String>>>, word: &mut String, has_word: &mut bool| {
            let taken = std::mem::take(word);
            if std::mem::take(has_word)
                && !matches!(taken.as_str(), "2>&1" | "&" | "/dev/null" | ">/dev/null" | "2>/dev/null")
                && let Some(command) = pipelines.last_mut().and_then(|pipeline| pipeline.last_mut())
            {
                command.push(taken);
            }
        };
        match c {
            '\\' => match characters.next() {
                Some('\n') | None => end_word(&mut pipelines, &mut word, &mut has_word),
                Some(other) => {
                    word.push(other);
                    has_word = true;
                }
            },
            '\'' | '"' => {
                has_word = true;
                let mut inside = String::new();
                while let Some(next) = characters.next_if(|next| *next != c) {
                    inside.push(next);
                }
                characters.next();
                word.push_str(&if c == '"' { arithmetic(&inside) } else { inside });
            }
            '#' if !has_word => while characters.next_if(|c| *c != '\n').is_some() {},
            '$' if characters.peek() == Some(&'(') => {
                let mut inside = String::from("$");
                let mut depth = 0_u32;
                while let Some(next) = characters.next_if(|next| *next != '\n') {
                    inside.push(next);
                    match next {
                        '(' => depth += 1,
                        ')' => depth -= 1,
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
                word.push_str(&arithmetic(&inside));
                has_word = true;
            }
            '\n' | ';' => {
                end_word(&mut pipelines, &mut word, &mut has_word);
                pipelines.push(vec![Vec::new()]);
            }
            '&' if characters.peek() == Some(&'&') => {
                characters.next();
                end_word(&mut pipelines, &mut word, &mut has_word);
                pipelines.push(vec![Vec::new()]);
            }
            '|' => {
                end_word(&mut pipelines, &mut word, &mut has_word);
                if characters.next_if_eq(&'|').is_some() {
                    pipelines.push(vec![Vec::new()]);
                } else if let Some(pipeline) = pipelines.last_mut() {
                    pipeline.push(Vec::new());
                }
            }
            c if c.is_whitespace() => end_word(&mut pipelines, &mut word, &mut has_word),
            c => {
                word.push(c);
                has_word = true;
            }
        }
    }
    if has_word && let Some(command) = pipelines.last_mut().and_then(|pipeline| pipeline.last_mut()) {
        command.push(word);
    }
    // A redirection whose target was dropped.
    for command in pipelines.iter_mut().flatten() {
        while command.last().is_some_and(|word| word == ">" || word == "2>") {
            command.pop();
        }
    }
    pipelines.retain(|pipeline| pipeline.iter().any(|command| !command.is_empty()));
    pipelines
}

/// Replaces products such as `$((15*1024*1024))` by their values.
fn arithmetic(text: &str) -> String {
    let (mut result, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("$((") {
        let Some(end) = rest[start..].find("))") else { break };
        result.push_str(&rest[..start]);
        let product = rest[start + 3..start + end]
            .split('*')
            .map(|factor| factor.trim().trim_matches(['(', ')']).parse::<u64>().ok())
            .try_fold(1_u64, |product, factor| product.checked_mul(factor?));
        match product {
            Some(value) => result.push_str(&value.to_string()),
            None => result.push_str(&rest[start..start + end + 2]),
        }
        rest = &rest[start + end + 2..];
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Effect {
        Effect::Set(name.to_owned(), value.to_owned())
    }

    #[test]
    fn settings_are_understood_from_the_text() {
        let load = |path: &str| {
            (path == "../common/defaults.sh").then(|| {
                "#!/bin/bash\n# A remark; with signs | in it\nip tcp_metrics flush all > /dev/null 2>&1\n\
                 sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"\ntc qdisc add dev tun0 root pfifo\n"
                    .to_owned()
            })
        };
        let text = "../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=3 \\\n net/ipv4/tcp_sack=0 ; \
                    ../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 && tc qdisc replace dev tun0 root fq; tc qdisc add dev tun0 root pfifo limit 0\n\
                    echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect\nnstat > /dev/null";
        let expected = [
            set("net.ipv4.tcp_rmem", "4096 540000 15728640"),
            set("net.ipv4.tcp_ecn", "3"),
            set("net.ipv4.tcp_sack", "0"),
            set("net.ipv4.tcp_timestamps", "0"),
            set("qdisc", "fq"),
            set("qdisc", "pfifo limit 0"),
            set("module.tcp_cubic.hystart_detect", "3"),
        ];
        assert_eq!(effects(text, &load), expected);
    }

    #[test]
    fn states_are_counted_and_other_commands_are_named() {
        let none = |_: &str| None;
        let text = "sockstat -4 -P tcp -s | grep packetdril | grep -c TIME_WAIT | grep 1";
        assert_eq!(effects(text, &none), [Effect::Count("TIME_WAIT".to_owned(), 1)]);
        assert_eq!(effects("tcpdrop -s TIME_WAIT", &none), [Effect::Drop("TIME_WAIT".to_owned())]);
        for text in ["setkey -F", "./other.sh", "ip route change default mtu 1400", "iptables -A INPUT"] {
            assert!(matches!(&effects(text, &none)[..], [Effect::Unsupported(_)]), "{text}");
        }
        for text in ["'", "\"", "$((", "\\", "|", "$((9999999999999999*999999999999))", "$(", ";;&&||"] {
            effects(text, &none);
        }
    }
}
