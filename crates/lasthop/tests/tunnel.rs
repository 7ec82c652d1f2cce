//! Tests of `lasthop tunnel`: keys are made like `wg`'s and protected from others; a configuration is checked against
//! the machine.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;

use crate::common::Bench;
use serde_json::Value;

fn out(bench: &Bench, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = bench.run_all(arguments);
    let [out, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, error)
}

#[test]
fn a_key_is_one_line_and_never_the_same() {
    let bench = Bench::new();
    let keys: Vec<String> = (0..3).map(|_| out(&bench, &["tunnel", "keygen"]).1).collect();
    for (number, key) in keys.iter().enumerate() {
        assert!(key.len() == 45 && key.ends_with("=\n"), "{key:?}");
        assert!(!keys[..number].contains(key));
    }
    let (_, both, _) = out(&bench, &["tunnel", "keygen", "--json"]);
    let both: Value = serde_json::from_str(&both).unwrap();
    assert_eq!(both.as_object().unwrap().keys().collect::<Vec<_>>(), ["private_key", "public_key"]);
    assert_ne!(both["private_key"], both["public_key"]);
    let (_, shared, _) = out(&bench, &["tunnel", "keygen", "--preshared", "--json"]);
    let shared: Value = serde_json::from_str(&shared).unwrap();
    assert_eq!(shared["preshared_key"].as_str().map(str::len), Some(44));
    assert_eq!(shared.get("public_key"), None);
}

#[test]
fn a_file_with_a_key_is_its_owners_and_is_not_overwritten() {
    let bench = Bench::new();
    let (status, public, _) = out(&bench, &["tunnel", "keygen", "tunnel.key"]);
    assert_eq!((status, public.len()), (Some(0), 45));
    let path = bench.path().join("tunnel.key");
    let secret = std::fs::read_to_string(&path).unwrap();
    assert!(secret.len() == 45 && secret != public);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(out(&bench, &["tunnel", "pubkey", "tunnel.key"]).1, public);
    let (_, answer, _) = out(&bench, &["tunnel", "pubkey", "tunnel.key", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["public_key"], public.trim());
    let broken = bench.path().join("broken.key");
    std::fs::write(&broken, "abc\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (file, start) in
        [("broken.key", "error: broken.key: a key has 44 characters"), ("none.key", "error: none.key: ")]
    {
        let (status, printed, error) = out(&bench, &["tunnel", "pubkey", file]);
        assert_eq!((status, printed.as_str()), (Some(1), ""));
        assert!(error.starts_with(start), "{error}");
    }
    let (status, printed, error) = out(&bench, &["tunnel", "keygen", "tunnel.key"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert!(error.starts_with("error: tunnel.key: file exists"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), secret);
}

#[test]
fn a_configuration_is_checked_against_the_machine() {
    let bench = Bench::new();
    let (_, own, _) = out(&bench, &["tunnel", "keygen", "own.key"]);
    let (_, other, _) = out(&bench, &["tunnel", "keygen", "other.key"]);
    out(&bench, &["tunnel", "keygen", "--preshared", "psk"]);
    let folder = bench.path().display().to_string();
    let file = |public: &str| {
        format!(
            "listen = '127.0.0.1:51987'\nprivate_key_file = '{folder}/own.key'\n[[peer]]\nname = 'shore'\n\
             public_key = '{}'\npreshared_key_file = '{folder}/psk'\nendpoint = '127.0.0.2:9'\nallowed = '10.0.0.0/8'\n\
             rate = '10 Mbps'\n",
            public.trim()
        )
    };
    let findings = |name: &str| {
        let (_, text, error) = out(&bench, &["tunnel", "check", "--json", name]);
        let findings: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {error}"));
        findings
    };
    let outcome = |findings: &[Value], subject: &str| {
        let found = findings.iter().find(|finding| finding["subject"] == subject);
        let [outcome, detail] = ["outcome", "detail"].map(|key| found.unwrap()[key].as_str().unwrap().to_owned());
        (outcome, detail)
    };
    bench.put("right.toml", &file(&other));
    let right = findings("right.toml");
    let (is_ok, detail) = outcome(&right, "private key");
    assert_eq!((is_ok.as_str(), detail), ("ok", format!("this end's public key is {}", own.trim())));
    for subject in ["peer shore public key", "peer shore preshared key", "peer shore endpoint"] {
        assert_eq!(outcome(&right, subject).0, "ok", "{subject}");
    }
    assert!(!format!("{right:?}").contains(std::fs::read_to_string(bench.path().join("own.key")).unwrap().trim()));

    bench.put("own.toml", &file(&own));
    assert_eq!(outcome(&findings("own.toml"), "peer shore public key").0, "missing");

    bench.put("nobody.toml", &file(&format!("{}=", "A".repeat(43))));
    assert_eq!(outcome(&findings("nobody.toml"), "peer shore public key").0, "missing");
    let (status, _, error) = out(&bench, &["tunnel", "run", "--dry-run", "nobody.toml"]);
    assert!(status == Some(1) && error.contains("peer \"shore\": public_key is invalid"), "{error}");

    bench.put("copied.toml", &format!("address = '10.9.0.1/24'\n{}", file(&other)));
    assert!(!findings("copied.toml").iter().any(|finding| finding["subject"] == "peer shore allowed"));
    let copied = file(&other).replace("'10.0.0.0/8'", "['10.0.0.0/8', '10.9.0.1']");
    bench.put("copied.toml", &format!("address = '10.9.0.1/24'\n{copied}"));
    let (is_ok, detail) = outcome(&findings("copied.toml"), "peer shore allowed");
    assert!(is_ok == "hint" && detail.contains("this end's own address"), "{detail}");

    // The file is readable by others.
    let path = bench.path().join("psk");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let (is_ok, detail) = outcome(&findings("right.toml"), "peer shore preshared key");
    assert!(is_ok == "missing" && detail.ends_with("accessible to other users (mode 640); run chmod 600"), "{detail}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "no key\n").unwrap();
    let (is_ok, detail) = outcome(&findings("right.toml"), "peer shore preshared key");
    assert!(is_ok == "missing" && detail.ends_with("a key has 44 characters, not 6"), "{detail}");
    let (status, _, error) = out(&bench, &["tunnel", "check", "right.toml"]);
    assert_eq!(status, Some(1));
    assert!(error.starts_with("error: right.toml: ") && error.lines().count() == 1, "{error}");

    bench.put("large.toml", &"#".repeat(129 << 10));
    let (_, _, error) = out(&bench, &["tunnel", "check", "large.toml"]);
    assert!(error.contains("it is larger than 128 KiB"), "{error}");

    // A missing trusted interface is reported by name.
    let absent = "listen = '[::1]:51987'\nsecurity = 'none'\ntrusted_interface = 'no-such'\nname = 'a'\n[[peer]]\n\
                  name = 'b'\nallowed = '10.0.0.0/8'\nrate = '10 Mbps'\n";
    bench.put("absent.toml", absent);
    let (is_ok, detail) = outcome(&findings("absent.toml"), "listen [::1]:51987");
    assert!(is_ok == "missing" && detail.starts_with("on interface no-such: "), "{detail}");

    bench.put("wrong.toml", &file(&other).replace("listen", "lisen"));
    let (status, printed, error) = out(&bench, &["tunnel", "check", "wrong.toml"]);
    assert_eq!((status, printed.as_str()), (Some(1), ""));
    assert_eq!(error, "error: wrong.toml:1: lisen: unknown key; did you mean \"listen\"?\n");
}
