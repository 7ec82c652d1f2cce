//! Speed of split connections on virtual links, compared with plain forwarding by the kernel. Run alone, optimized:
//! `LASTHOP_MEASURE=1 cargo test --release -p lasthop-gateway --test all split_speed -- --ignored --nocapture`.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::split_lab::{Family, Host, Lab, WIRED, WIRELESS, lab, once_free};
use lasthop_gateway::split::{SplitConfig, SplitRule, TcpSide, Transfer};
use rustix::time::{ClockId, clock_gettime};

const TIME: Duration = Duration::from_secs(3);

/// Returns the rate of one flow from client to server in Gbit/s, and CPU seconds per gigabyte of this process, which
/// contains both ends and the relay. Kernel work that is not attributed to a process is not included.
fn flow(lab: &Lab, port: u16) -> (f64, f64) {
    let address = lab.address(Host::Server, Family::V4, port);
    let bind = move || once_free(|| TcpListener::bind(address), |error| error.kind() == ErrorKind::AddrInUse);
    let listener = lab.on(Host::Server, bind).join().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 256 << 10];
        let mut total = 0;
        loop {
            match stream.read(&mut buffer).unwrap() {
                0 => return total,
                bytes => total += bytes,
            }
        }
    });
    let (start, before) = (Instant::now(), cpu());
    let client = lab.on(Host::Client, move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let buffer = vec![0x5A; 128 << 10];
        while start.elapsed() < TIME {
            stream.write_all(&buffer).unwrap();
        }
    });
    client.join().unwrap();
    let bytes = server.join().unwrap() as f64;
    (bytes * 8.0 / start.elapsed().as_secs_f64() / 1e9, (cpu() - before) / (bytes / 1e9))
}

fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[test]
#[ignore = "a measurement of half a minute on a quiet machine; runs if LASTHOP_MEASURE is set"]
fn one_flow_split_and_forwarded() {
    if std::env::var_os("LASTHOP_MEASURE").is_none() {
        return;
    }
    let Some(lab) = lab("speed") else { return };
    let side = TcpSide { congestion: Some("cubic".into()), ..TcpSide::default() };
    for offloads in ["on", "off"] {
        for (host, device) in
            [(Host::Client, "e0"), (Host::Server, "e0"), (Host::Gateway, WIRED), (Host::Gateway, WIRELESS)]
        {
            lab.run(host, &format!("ethtool -K {device} tx {offloads} tso {offloads} gso {offloads} gro {offloads}"));
        }
        for round in 0..3 {
            let (rate, cpu) = flow(&lab, 6000);
            println!("offloads {offloads}, forwarded, run {round}: {rate:.2} Gbit/s, {cpu:.2} s/GB");
            for transfer in [Transfer::Splice, Transfer::Copy] {
                let (wired, wireless) = (side.clone(), side.clone());
                let rule = SplitRule { wired, wireless, ..SplitRule::new(WIRELESS) };
                let config = SplitConfig { transfer, max_connections: 16, ..SplitConfig::new(vec![rule]) };
                let mut relay = lab.start(config.clone());
                let (rate, cpu) = flow(&lab, 6001);
                let snapshot = relay.snapshot();
                assert_eq!(snapshot.total, 1);
                lab.remove(&config);
                let busy = relay.stop().as_secs_f64() / (snapshot.wired.bytes as f64 / 1e9);
                println!(
                    "offloads {offloads}, {transfer:?}, run {round}: {rate:.2} Gbit/s, {cpu:.2} s/GB, the relay alone {busy:.2} s/GB"
                );
            }
        }
    }
}
