# Simulates a user who browses the web over a lossy last hop in ns-2, with its own HTTP model and the distributions of lasthop.
#
#     ns ns2_web.tcl [key=value ...]
#
#   variant   Reno | Sack1                                     (Reno)
#   loss      frame loss of the wireless link, both directions (0.025)
#   until     seconds of browsing                              (2000)
#   seed      of ns-2's default RNG                            (1)
#   data      folder of HttpRequestLength.cdf and its siblings (../../crates/lasthop-sim/data/http beside this script)
#   exact     1: a request is one packet of its exact length, as http.tcl has it; 0: whole packets of 250 bytes   (0)
#   runs      sessions one after the other in one process, with other random numbers   (1)
#   quiet     1: print nothing                                 (0)
#   count     1: count the frames of the last hop; costs time  (0)
#
# server --10 Mbps, 1 ms-- base --64 kbps, 50 ms-- mobile, queues of 50. Prints the
# reply bytes of finished pages divided by the time of the last one, in kbps.
set here [file dirname [info script]]
array set opt [list variant Reno loss 0.025 until 2000 seed 1 data $here/../../crates/lasthop-sim/data/http exact 0 runs 1 quiet 0 count 0]
foreach a $argv {
    if {![regexp {^([a-z0-9]+)=(.*)$} $a -> k v] || ![info exists opt($k)]} {
        puts stderr "ns2_web.tcl: unknown argument '$a'; known: [lsort [array names opt]]"
        exit 2
    }
    set opt($k) $v
}
$defaultRNG seed $opt(seed)
set ns [new Simulator]
Agent/TCP set packetSize_ 250
Agent/TCP set window_ 20
Agent/TCP set windowInit_ 2
Agent/TCP set minrto_ 1.0
Agent/TCP set tcpTick_ 0.1
Agent/TCP set useHeaders_ false
set server [$ns node]
set base [$ns node]
set mobile [$ns node]
$ns duplex-link $server $base 10Mb 1ms DropTail
$ns duplex-link $base $mobile 64kb 50ms DropTail
foreach {a b} [list $base $mobile $mobile $base] {
    set em [new ErrorModel]
    $em unit pkt
    $em set rate_ $opt(loss)
    $em drop-target [new Agent/Null]
    [$ns link $a $b] install-error $em
}
if {$opt(count)} {
    set down [$ns monitor-queue $base $mobile ""]
    set up [$ns monitor-queue $mobile $base ""]
}
foreach rv {Request Reply Connections} file {HttpRequestLength HttpReplyLength HttpConnections} {
    set cdf($rv) [new RandomVariable/Empirical]
    $cdf($rv) loadCDF $opt(data)/$file.cdf
}

# Pairs of agents: request(i) from the mobile host, reply(i) from the server.
set sink Agent/TCPSink
if {$opt(variant) eq "Sack1"} { append sink /Sack1 }
for {set i 0} {$i < 4} {incr i} {
    foreach {leg from to} [list request $mobile $server reply $server $mobile] {
        set ${leg}($i) [new Agent/TCP/$opt(variant)]
        set ${leg}Sink($i) [new $sink]
        $ns attach-agent $from [set ${leg}($i)]
        $ns attach-agent $to [set ${leg}Sink($i)]
        $ns connect [set ${leg}($i)] [set ${leg}Sink($i)]
        [set ${leg}($i)] proc done {} "finished $leg $i"
    }
}
proc size {rv} {
    global cdf
    set bytes [expr {round([$cdf($rv) value])}]
    return [expr {$bytes > 0 ? $bytes : 1000}]
}
proc transmit {leg i bytes} {
    global request reply requestSink replySink opt
    set agent [set ${leg}($i)]
    set packets [expr {int(ceil($bytes / 250.0))}]
    if {$leg eq "request" && $opt(exact)} {
        $agent set packetSize_ $bytes
        set packets 1
    }
    $agent reset
    [set ${leg}Sink($i)] reset
    $agent advanceby $packets
}
proc page {} {
    global asked got bytes
    set asked 0
    set got 0
    set bytes 0
    transmit request 0 [size Request]
}
proc finished {leg i} {
    global asked got bytes objects total last pages ns
    if {$leg eq "request"} {
        set length [size Reply]
        incr bytes [expr {250 * int(ceil($length / 250.0))}]
        transmit reply $i $length
        return
    }
    set next $i
    if {$got == 0} {
        set objects [expr {round([$::cdf(Connections) value])}]
        set next {0 1 2 3}
    }
    if {[incr got] > $objects} {
        incr total $bytes
        incr pages
        set last [$ns now]
        page
        return
    }
    foreach j $next {
        if {[incr asked] > $objects} break
        transmit request $j [size Request]
    }
}
proc report {} {
    global total last pages opt ns begun
    if {!$opt(quiet)} { puts [format "%.2f kbps %d pages" [expr {$total * 8 / ($last - $begun) / 1000.0}] $pages] }
    if {[incr opt(runs) -1] == 0} {
        if {$opt(count)} { puts "[$::down set pdepartures_] frames down, [$::up set pdepartures_] up" }
        exit 0
    }
    begin
}
proc begin {} {
    global total last pages opt ns begun
    set total 0
    set pages 0
    set begun [$ns now]
    set last $begun
    page
    $ns at [expr {$begun + $opt(until)}] report
}
$ns at 0 begin
$ns run
