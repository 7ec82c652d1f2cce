# Prints every segment that an ns-2.35 one-way TCP source sends, under an explicit list of losses.
#
#     ns ns2_trace.tcl [key=value ...]
#
#   variant   Reno | Newreno | Sack1                                  (Reno)
#   delack    0 | 1, delayed acknowledgments, 100 ms                  (0)
#   lt        0 | 1, limited transmit (singledup_)                    (1)
#   packets   number of data packets; they are numbered 1..packets, 0 is the SYN   (100)
#   size      packet payload in bytes; data packets are 40 bytes longer (1400)
#   window    window_ in packets, also the first ssthresh             (23)
#   queue     DropTail limit_ of each queue, in packets               (10000)
#   drop      data losses on base -> mobile: "N:K,N:K,...", packet N, its K-th arrival at the mobile's end of the hop ("-" for none)
#   ackdrop   ACK losses on mobile -> base: "K,K,...", the K-th ACK, counted from 1; the ACK of the SYN is the first ("-" for none)
#   rate, delay, rate2, delay2   the wired and the last hop           (10Mb 0.2ms 1.5Mb 1ms)
#   seed      of ns-2's default RNG; it decides only the tick phase of the RTT clock (1)
#   start     when the SYN leaves, in seconds                         (0)
#   stop      give up at this time, in seconds                        (3600)
#   verbose   1: lines for drops and arrivals too, starting with '#'  (0)
#
# Output: first "# phase SECONDS" (ns-2's boot_time_), then one line per segment sent, "time packet", time in seconds with 9 decimals, and
# at the end "# done TIME" (everything acknowledged) or "# unfinished TIME".
#
# All other settings are ns-2.35's defaults. Losses happen at the far end of the hop, so a lost packet has used queue, link and delay.

array set opt {
    variant Reno delack 0 lt 1 packets 100 size 1400 window 23 queue 10000 drop - ackdrop -
    rate 10Mb delay 0.2ms rate2 1.5Mb delay2 1ms seed 1 start 0 stop 3600 verbose 0
}
foreach a $argv {
    if {![regexp {^([a-z0-9]+)=(.*)$} $a -> k v] || ![info exists opt($k)]} {
        puts stderr "ns2_trace.tcl: unknown argument '$a'; known: [lsort [array names opt]]"
        exit 2
    }
    set opt($k) $v
}

# Losses into hash tables: kill(N,K) for data, killack(K) for ACKs.
if {$opt(drop) ne "-"} {
    foreach d [split $opt(drop) ,] {
        if {![regexp {^(\d+):(\d+)$} $d -> n k]} { puts stderr "ns2_trace.tcl: bad drop '$d'"; exit 2 }
        set kill($n,$k) 1
    }
}
if {$opt(ackdrop) ne "-"} {
    foreach k [split $opt(ackdrop) ,] {
        if {![regexp {^\d+$} $k]} { puts stderr "ns2_trace.tcl: bad ackdrop '$k'"; exit 2 }
        set killack($k) 1
    }
}

set ns [new Simulator]

# An agent's clock phase is a uniform random number times the tick, drawn at its creation and again when `$ns run` resets it. Reads the
# second one, then rewinds the generator.
$defaultRNG seed $opt(seed)
$defaultRNG uniform 0 1
set phase [expr {[$defaultRNG uniform 0 1] * [Agent/TCP set tcpTick_]}]
$defaultRNG seed $opt(seed)
puts "# phase [format %.12f $phase]"

Agent/TCP set packetSize_ $opt(size)
Agent/TCP set window_ $opt(window)
Agent/TCP set singledup_ $opt(lt)

set source [$ns node]
set base [$ns node]
set mobile [$ns node]
$ns duplex-link $source $base $opt(rate) $opt(delay) DropTail
$ns duplex-link $base $mobile $opt(rate2) $opt(delay2) DropTail
foreach {a b} [list $source $base $base $mobile] {
    $ns queue-limit $a $b $opt(queue)
    $ns queue-limit $b $a $opt(queue)
}

set tcp [new Agent/TCP/$opt(variant)]
set sinkclass Agent/TCPSink
if {$opt(variant) eq "Sack1"} { append sinkclass /Sack1 }
if {$opt(delack)} { append sinkclass /DelAck }
set sink [new $sinkclass]
$ns attach-agent $source $tcp
$ns attach-agent $mobile $sink
$ns connect $tcp $sink

# Tap that prints every segment leaving the source.
set tap [$ns create-trace Enque {} $source $base]
$tap set callback_ 1
$tap proc handle line {
    global ns
    puts "[format %.9f [$ns now]] [lindex $line 10]"
}
[$ns link $source $base] add-to-head $tap

# Explicit losses at the receiving end of a hop: delay line -> tap -> error model -> the rest. The tap decides about the packet that follows it.
proc lossy {from to decide} {
    global ns
    set const [new RandomVariable/Constant]
    $const set val_ 0.5
    set em [new ErrorModel]
    $em ranvar $const
    $em set rate_ 0
    $em drop-target [new Agent/Null]
    set link [$ns link $from $to]
    $link install-error $em
    set tap [$ns create-trace Recv {} $from $to]
    $tap set callback_ 1
    $tap target $em
    [$link link] target $tap
    $tap proc handle line "$em set rate_ \[$decide \$line\]"
}
proc decide_data line {
    global seen kill opt ns
    set n [lindex $line 10]
    if {![info exists seen($n)]} { set seen($n) 0 }
    incr seen($n)
    set lost [info exists kill($n,$seen($n))]
    if {$opt(verbose)} { puts "# [format %.9f [$ns now]] data $n:$seen($n) [expr {$lost ? "lost" : "arrives"}]" }
    return $lost
}
set acks 0
proc decide_ack line {
    global acks killack opt ns
    incr acks
    set lost [info exists killack($acks)]
    if {$opt(verbose)} { puts "# [format %.9f [$ns now]] ack #$acks of [lindex $line 10], [lindex $line 5] bytes, [expr {$lost ? "lost" : "arrives"}]" }
    return $lost
}
lossy $base $mobile decide_data
lossy $mobile $base decide_ack

proc finish state {
    global ns
    puts "# $state [format %.9f [$ns now]]"
    flush stdout
    exit 0
}
$tcp proc done {} { finish done }
$ns at $opt(start) "$tcp advanceby $opt(packets)"
$ns at $opt(stop) "finish unfinished"
$ns run
