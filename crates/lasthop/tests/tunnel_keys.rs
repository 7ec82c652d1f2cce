//! Test of another private key of a running tunnel, on real packets between network namespaces.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::network::Network;
use crate::tunnel_end::{End, configure, keys};
use crate::tunnel_live::{echoes, head, inner, is_skipped, network, peer};
use rustix::process::{Signal, kill_process};

fn pings(network: &Network) -> bool {
    echoes(network, ("c", "s"), &inner(1), 3) == 3
}

/// The first end's key file gets the third key. Until the second end has the public key, it refuses handshakes and logs
/// who called with which key.
#[test]
#[ignore = "needs root: make root"]
fn a_reload_takes_another_private_key() {
    if is_skipped("tunnel with another private key") {
        return;
    }
    let network = network();
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.key");
    let put = |key: usize| fs::copy(keys().0.path().join(format!("{key}.key")), &own).unwrap();
    put(0);
    let shared = keys().0.path().join("0.key").display().to_string();
    let file = format!("{}{}", head(0, "0.0.0.0:51900"), peer(1, "endpoint = '10.1.0.2:51900'\nkeepalive = '1 s'"));
    let first = End::start(&network, "c", &file.replace(&shared, &own.display().to_string()));
    let hub = head(1, "0.0.0.0:51900");
    let second = End::start(&network, "s", &format!("{hub}{}", peer(0, "")));
    first.await_status(|_| pings(&network));
    // A key that others can read is refused, and the old one stays.
    put(2);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = first.say("reload");
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && message.contains("own.key: accessible to other users"), "{message}");
    assert!(pings(&network), "{}", first.log());
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    let taken = first.say("reload");
    assert!(taken.status.success(), "{taken:?}");
    assert!(first.log().contains("private key changed"), "{}", first.log());
    assert!(first.log().contains(&keys().1[2]), "{}", first.log());
    // The second end does not know the key.
    second.await_status(|status| status["strangers"].as_u64() > Some(1) && status["peers"][0]["up"] == false);
    assert!(!pings(&network));
    let log = second.log();
    let refusals: Vec<_> = log.lines().filter(|line| line.contains("no [[peer]] has this public key")).collect();
    assert!(refusals[0].contains("10.2.0.2:51900") && refusals[0].contains(&keys().1[2]), "{refusals:?}");
    let refused = second.await_status(|_| true)["strangers"].as_u64().unwrap();
    assert!((refusals.len() as u64) < refused, "{refused} handshakes, {refusals:?}");
    configure(second.folder.path(), &format!("{hub}{}", peer(0, "").replace(&keys().1[0], &keys().1[2])));
    assert!(second.say("reload").status.success(), "{}", second.log());
    first.await_status(|_| pings(&network));
    let status = second.await_status(|status| status["peers"][0]["up"] == true);
    assert!(status["peers"][0]["paths"][0]["heard_seconds"].as_f64().unwrap() < 5.0, "{status:#}");
    // A replacement of the worker has the new key, too.
    kill_process(first.worker(), Signal::KILL).unwrap();
    first.await_status(|status| status["worker"]["restarts"] == 1 && pings(&network));
}
