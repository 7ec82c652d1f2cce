# Runs K consecutive transfers of 8 MiB (5992 packets of 1400 bytes) over a lossy last hop in one ns-2 process. speed.py measures its
# CPU time.
#
#     ns ns2_speed.tcl [key=value ...]
#
#   variant   Reno | Newreno | Sack1        (Reno)
#   transfers K                             (1)
#   mode      how one transfer follows the other                    (reset; persist for Sack1)
#               reset    the same two agents, reset, 1 s after the end; not for Sack1: a reset Sack1 agent keeps the lower edge of its scoreboard and then
#                        skips holes
#               persist  the same connection goes on, 1 s after the end: by then its timer has put cwnd back to 1
#               pairs    agents of its own for each, all created in advance
#   agents    pairs of agents created in advance in mode pairs, at least K. Keep it the same while K varies: making an agent costs ns-2 about 2.5 ms
#             and this way it stays out of the slope               (K)
#   packets, size, window, loss, seed       (5992 1400 23 0.0225 1)
#   quiet     1: print nothing              (0)
#   count     1: count the frames of the last hop; costs time       (0)
#
# source --10 Mbps, 0.2 ms-- base --1.5 Mbps, 1 ms-- mobile; queues never overflow; data is lost at the far end of the last hop, after
# transmission.
# The default modes are ns-2's fastest: mode pairs takes about a fifth longer.

array set opt {variant Reno transfers 1 mode auto agents 0 packets 5992 size 1400 window 23 loss 0.0225 seed 1 quiet 0 count 0}
foreach a $argv {
    if {![regexp {^([a-z0-9]+)=(.*)$} $a -> k v] || ![info exists opt($k)]} {
        puts stderr "ns2_speed.tcl: unknown argument '$a'; known: [lsort [array names opt]]"
        exit 2
    }
    set opt($k) $v
}
if {$opt(mode) eq "auto"} { set opt(mode) [expr {$opt(variant) eq "Sack1" ? "persist" : "reset"}] }
switch $opt(mode) {
    reset - persist { set opt(agents) 1 }
    pairs { if {$opt(agents) < $opt(transfers)} { set opt(agents) $opt(transfers) } }
    default { puts stderr "ns2_speed.tcl: mode is reset, persist or pairs"; exit 2 }
}

$defaultRNG seed $opt(seed)
set ns [new Simulator]
Agent/TCP set packetSize_ $opt(size)
Agent/TCP set window_ $opt(window)

set source [$ns node]
set base [$ns node]
set mobile [$ns node]
$ns duplex-link $source $base 10Mb 0.2ms DropTail
$ns duplex-link $base $mobile 1.5Mb 1ms DropTail
foreach {a b} [list $source $base $base $mobile] {
    $ns queue-limit $a $b 10000
    $ns queue-limit $b $a 10000
}
set em [new ErrorModel]
$em unit pkt
$em set rate_ $opt(loss)
$em drop-target [new Agent/Null]
[$ns link $base $mobile] install-error $em
if {$opt(count)} {
    set down [$ns monitor-queue $base $mobile ""]
    set up [$ns monitor-queue $mobile $base ""]
}

set sinkclass Agent/TCPSink
if {$opt(variant) eq "Sack1"} { append sinkclass /Sack1 }
for {set i 0} {$i < $opt(agents)} {incr i} {
    set tcp($i) [new Agent/TCP/$opt(variant)]
    set sink($i) [new $sinkclass]
    $ns attach-agent $source $tcp($i)
    $ns attach-agent $mobile $sink($i)
    $ns connect $tcp($i) $sink($i)
    $tcp($i) proc done {} { finished }
}

# $finished transfers are complete, agent $at has the current one.
set finished 0
set at 0
set sent 0
set before 0
proc begin {} {
    global tcp opt at
    $tcp($at) advanceby $opt(packets)
}
proc finished {} {
    global ns tcp sink opt finished at sent before
    incr finished
    incr sent [expr {[$tcp($at) set ndatapack_] - $before}]
    if {$finished == $opt(transfers)} { report }
    # The pause lets the ACKs of spurious retransmissions drain: a newly reset agent would take them for the end of its new transfer. A
    # finished agent of mode pairs is reset because its retransmission timer would keep firing.
    set later [expr {[$ns now] + 1}]
    switch $opt(mode) {
        reset { $ns at $later "$tcp($at) reset; $sink($at) reset; begin" }
        persist { set before [$tcp($at) set ndatapack_]; $ns at $later begin }
        pairs { $ns at $later "$tcp($at) reset"; incr at; $ns at [$ns now] begin }
    }
}
proc report {} {
    global ns opt sent
    if {!$opt(quiet)} {
        set k $opt(transfers)
        if {$opt(count)} { puts "[$::down set pdepartures_] frames down, [$::up set pdepartures_] up" }
        puts [format "%d transfers, %.3f simulated seconds each, %.1f packets sent each" $k [expr {[$ns now] / $k}] [expr {double($sent) / $k}]]
    }
    exit 0
}
$ns at 0 begin
$ns run
