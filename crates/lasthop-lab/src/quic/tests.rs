use super::*;

#[test]
fn refused_datagrams_are_found_by_name() {
    let text = "Ip: A B\nIp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors\n\
        Udp: 9 8 7 6 5 4 3\nUdpLite: RcvbufErrors\nUdpLite: 100\n";
    assert_eq!(refused_in(text), 9);
    assert_eq!(refused_in(""), 0);
}
