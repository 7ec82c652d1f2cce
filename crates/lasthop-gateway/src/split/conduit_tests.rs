use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::*;

/// Returns the two ends of a connection over the loopback interface.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let opened = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (opened, listener.accept().unwrap().0)
}

fn leg(stream: TcpStream, side: Side) -> Leg {
    stream.set_nonblocking(true).unwrap();
    Leg { socket: stream.into(), side, readable: true, writable: true }
}

#[test]
fn the_urgent_mark_is_not_taken_for_the_end_of_the_stream() {
    for transfer in [Transfer::Splice, Transfer::Copy] {
        let (mut sender, near) = pair();
        let (far, mut reader) = pair();
        SockRef::from(&near).set_out_of_band_inline(true).unwrap();
        sender.write_all(b"before").unwrap();
        SockRef::from(&sender).send_out_of_band(b"!").unwrap();
        sender.write_all(b"behind").unwrap();
        // All data and the FIN arrive before the first read: then `splice` returns 0 at the mark.
        drop(sender);
        std::thread::sleep(Duration::from_millis(100));
        let (mut from, mut to) = (leg(near, Side::Wireless), leg(far, Side::Wired));
        let mut pool = Pool::new(4096, transfer);
        let (mut conduit, mut moved) = (Conduit::new(&pool), 0);
        let end = Instant::now() + Duration::from_secs(10);
        while conduit.pump(&mut from, &mut to, &mut pool, &mut moved).unwrap() != Progress::Finished {
            assert!(Instant::now() < end, "{transfer:?}: stuck after {moved} bytes");
            from.readable = true;
        }
        let mut received = String::new();
        reader.read_to_string(&mut received).unwrap();
        assert_eq!((received.as_str(), moved), ("before!behind", 13), "{transfer:?}");
    }
}
