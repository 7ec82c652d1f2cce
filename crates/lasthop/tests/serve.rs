//! Tests of `lasthop serve` as a process: the printed addresses can be opened.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Process that ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the URLs that `lasthop serve` prints, up to the one for this machine only.
fn served(listen: &str) -> (Serving, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lasthop"));
    let command = command.args(["serve", "--listen", listen]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut serving = Serving(command.spawn().unwrap());
    let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let mut urls = Vec::new();
    for line in lines {
        urls.push(line.unwrap());
        if urls.last().is_some_and(|url| url.contains("//127.0.0.1:")) {
            return (serving, urls);
        }
    }
    panic!("no address of this machine among {urls:?}");
}

#[test]
fn every_address_that_is_printed_can_be_opened() {
    for listen in ["0.0.0.0:0", "127.0.0.1:0"] {
        let (_serving, urls) = served(listen);
        assert!(listen.starts_with('0') || urls.len() == 1, "{urls:?}");
        for url in urls {
            let host = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
            assert!(!host.starts_with("0.0.0.0"), "{url}");
            let mut socket = TcpStream::connect(host).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            write!(socket, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            socket.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("<title>lasthop</title>"), "{url}: {answer}");
        }
    }
}
