# The peers' scenario for ns-2 2.35: N senders, one switch, one client, barrier rounds over a star.
#
#   sender 1 --+
#   sender 2 --+-- switch ==== client        every link: `rate`, a quarter of `rtt` of propagation
#   sender N --+     ^ drop-tail port with `buffer` bytes
#
# Usage: ns ns2_incast.tcl key=value ...      prints one JSON object.
# Settings and their defaults stand in `par` below; an unknown key or a bad number is refused.
#
# How the workload maps on ns-2's one-way TCP agents:
#  * The senders begin by themselves at the barrier, each late by its start jitter, and the round ends with the last
#    byte at the client. ns-2 tells the sender's side only, as the last ACK comes in: the ACK's way, on which nothing
#    queues, is taken off the round's time.
#  * The agents count in segments: a transfer is rounded up to whole segments, and the goodput counts what was sent.
#  * With persistent=1 the connections are opened once, before the first round, and keep their windows.
#    With persistent=0 both ends are reset before each round: SYN, initial window, initial RTO again.
#  * request=BYTES: the client asks each sender for its part. No packet travels: a sender begins when its request would
#    have come, one after the other down the client's link. 0: they begin at the barrier.
#  * timer_jitter: random lateness of timeouts. ns-2's timers have none: each agent's minrto_ is drawn anew in each round.
#
# What is set against ns-2's habits, so that all simulators run the same protocol:
#  * singledup_ 0: Limited Transmit is on by default.
#  * tcpTick_ 1 ms (tick): the default clock of 10 ms would round each RTO up to the next 10 ms.
#  * timestamps_ 0, so that Karn's rule decides when backoff ends; see docs/validation.md.
#  * Newreno keeps its defaults otherwise ("careful" and "impatient" in the words of RFC 6582); TCPSink acknowledges each segment.
#  * queue_in_bytes_ with mean_pktsize_ 1: drop if waiting + arriving >= limit_, hence limit_ = buffer + 1.
#    In packets (queue_in_bytes_ false) the test is the same, so that limit_ 65 would hold only 64.
#    The packet being sent is not in the queue.
#  * A packet is MSS + 40 bytes on the wire: no Ethernet or PPP framing (1500 of 1500).

array set par {
    rate 1e9 rtt 120e-6 buffer 96000 mss 1460 senders 8 bytes 64000 block 0 rounds 20
    jitter 20e-6 seed 1 rtomin 0.2 rtoinit 1.0 iw 2 persistent 1 scheme newreno limited_transmit 0 timestamps 0 tick 0.001 timer_jitter 0 window 100000 request 0 monitor 1 all_headers 0 limit_s 40000 verbose 0
}
foreach arg $argv {
    if {![regexp {^([a-z_]+)=(.+)$} $arg -> key value] || ![info exists par($key)]} {
        puts stderr "ns2_incast: `$arg` is not one of: [lsort [array names par]] (write key=value)"
        exit 2
    }
    if {$key ne "scheme" && ![string is double -strict $value]} {
        puts stderr "ns2_incast: $key must be a number, not `$value`"
        exit 2
    }
    set par($key) $value
}
if {$par(scheme) ne "newreno"} {
    puts stderr "ns2_incast: scheme `$par(scheme)`: Debian's ns-2 2.35 has newreno only here (it was built without DCTCP)"
    exit 2
}
set N [expr {int($par(senders))}]
set rounds [expr {int($par(rounds))}]
if {$N < 1 || $rounds < 1 || $par(rate) <= 0} {
    puts stderr "ns2_incast: senders, rounds and rate must be positive"
    exit 2
}
set bytes [expr {$par(block) > 0 ? $par(block) / $N : $par(bytes)}]
set segments [expr {int(ceil($bytes / double($par(mss))))}]

# Headers of protocols that are not used cost memory and time in every packet; ns-2 as it comes has them all.
if {!$par(all_headers)} {
    remove-all-packet-headers
    add-packet-header IP TCP Flags
}
set ns [new Simulator]

Agent/TCP set singledup_ [expr {int($par(limited_transmit))}]
Agent/TCP set timestamps_ [expr {int($par(timestamps))}]
Agent/TCP set ts_resetRTO_ [expr {int($par(timestamps))}]
Agent/TCP set tcpTick_ $par(tick)
Agent/TCP set minrto_ $par(rtomin)
Agent/TCP set rtxcur_init_ $par(rtoinit)
Agent/TCP set windowInit_ $par(iw)
Agent/TCP set packetSize_ [expr {int($par(mss))}]
Agent/TCP set window_ $par(window)
Agent/TCP set slow_start_restart_ false

set rng [new RNG]
$rng seed [expr {int($par(seed)) * 7919 + $N}]

set delay [expr {$par(rtt) / 4.0}]
set client [$ns node]
set switch [$ns node]
$ns duplex-link $switch $client $par(rate) $delay DropTail
$ns queue-limit $client $switch 1000000
set port [[$ns link $switch $client] queue]
$port set queue_in_bytes_ true
$port set mean_pktsize_ 1
$port set limit_ [expr {int($par(buffer)) + 1}]
if {$par(monitor)} {
    set watch [$ns monitor-queue $switch $client ""]
}

for {set i 0} {$i < $N} {incr i} {
    set node($i) [$ns node]
    $ns duplex-link $node($i) $switch $par(rate) $delay DropTail
    $ns queue-limit $node($i) $switch 1000000
    $ns queue-limit $switch $node($i) 1000000
    set tcp($i) [new Agent/TCP/Newreno]
    set sink($i) [new Agent/TCPSink]
    $ns attach-agent $node($i) $tcp($i)
    $ns attach-agent $client $sink($i)
    $ns connect $tcp($i) $sink($i)
    set timeouts_before($i) 0
}

# ns-2 calls `done` when an agent has everything acknowledged.
Agent/TCP instproc done {} { one_done }

# How long an ACK of 40 bytes travels: two links, stored and forwarded.
set ack_s [expr {2 * (40 * 8 / double($par(rate)) + $delay)}]

# How long a link takes for a request.
set request_s [expr {($par(request) + 40) * 8 / double($par(rate))}]

set round 0
set pending 0
set busy_s 0.0
set timeouts 0
set timeout_rounds 0
set first_timeout_round 0
set round_ms {}
set sent 0
set resent 0

proc open_connections {} {
    global N tcp pending rng par ns
    set pending $N
    for {set i 0} {$i < $N} {incr i} {
        # One at a time, so that no SYN is lost before the first round.
        $ns at [expr {0.001 + $i * 1e-5}] "$tcp($i) advanceby 1"
    }
}

proc start_round {} {
    global N tcp sink pending round rng par ns started segments delay request_s
    incr round
    set started [$ns now]
    set pending $N
    set extra 0
    if {!$par(persistent)} { set extra 1 }
    for {set i 0} {$i < $N} {incr i} {
        if {!$par(persistent)} {
            $tcp($i) reset
            $sink($i) reset
        }
        set at [expr {$started + [$rng uniform 0.0 $par(jitter)]}]
        if {$par(request) > 0} { set at [expr {$at + 2 * $delay + ($i + 2) * $request_s}] }
        if {$par(timer_jitter) > 0} { $tcp($i) set minrto_ [expr {$par(rtomin) + [$rng uniform 0.0 $par(timer_jitter)]}] }
        $ns at $at "$tcp($i) advanceby [expr {$segments + $extra}]"
    }
}

proc one_done {} {
    global pending ns
    incr pending -1
    if {$pending == 0} { $ns at [$ns now] "barrier" }
}

proc barrier {} {
    global N tcp round rounds started busy_s timeouts timeout_rounds first_timeout_round timeouts_before ns round_ms par ack_s sent resent
    if {$round > 0} {
        set took [expr {[$ns now] - $started - $ack_s}]
        set busy_s [expr {$busy_s + $took}]
        lappend round_ms [expr {$took * 1e3}]
        set new 0
        for {set i 0} {$i < $N} {incr i} {
            set all [$tcp($i) set nrexmit_]
            incr new [expr {$all - $timeouts_before($i)}]
            set timeouts_before($i) $all
            if {!$par(persistent)} {
                # The reset before the next round clears the agent's counters.
                set timeouts_before($i) 0
                count_packets $i
            }
        }
        if {$par(verbose)} { puts stderr "round $round: $took s, $new timeouts" }
        incr timeouts $new
        if {$new > 0} {
            incr timeout_rounds
            if {!$first_timeout_round} { set first_timeout_round $round }
        }
    }
    if {$round == 0 && $par(persistent)} {
        # ns-2 lets the window grow with the handshake's ACK, other TCPs do not.
        for {set i 0} {$i < $N} {incr i} { $tcp($i) set cwnd_ $par(iw) }
    }
    if {$round < $rounds} { start_round } else { report }
}

# Adds what agent i has sent since it was made or reset.
proc count_packets {i} {
    global tcp sent resent
    incr sent [$tcp($i) set ndatapack_]
    incr resent [$tcp($i) set nrexmitpack_]
}

proc peak_kib {} {
    set f [open /proc/self/status]
    regexp {VmHWM:\s+(\d+)} [read $f] -> kib
    close $f
    return $kib
}

proc report {} {
    global N tcp par round busy_s timeouts timeout_rounds first_timeout_round segments wall0 round_ms watch sent resent
    set wall [expr {([clock microseconds] - $wall0) / 1e6}]
    for {set i 0} {$i < $N && $par(persistent)} {incr i} { count_packets $i }
    set drops -1
    if {$par(monitor)} { set drops [$watch set pdrops_] }
    set delivered [expr {$N * $segments * $round}]
    set goodput 0.0
    if {$busy_s > 0} { set goodput [expr {$delivered * $par(mss) * 8 / $busy_s / 1e6}] }
    set sorted [lsort -real $round_ms]
    puts [format {{"simulator":"ns-2","scheme":"newreno","senders":%d,"seed":%d,"rounds":%d,"goodput_mbps":%.3f,"rto_timeouts":%d,"rounds_with_timeout":%d,"first_timeout_round":%d,"packets_delivered":%d,"packets_sent":%d,"retransmits":%d,"drops":%d,"sim_s":%.6f,"round_ms_p50":%.3f,"round_ms_max":%.3f,"wall_s":%.6f,"peak_kib":%d}} \
        $N [expr {int($par(seed))}] $round $goodput $timeouts $timeout_rounds $first_timeout_round $delivered $sent $resent $drops \
        $busy_s [lindex $sorted [expr {[llength $sorted] / 2}]] [lindex $sorted end] $wall [peak_kib]]
    flush stdout
    exit 0
}

if {$par(persistent)} { open_connections } else { $ns at 0.001 "barrier" }
$ns at $par(limit_s) "puts stderr {ns2_incast: still running after limit_s of simulated time: stopped, figures cover the finished rounds}; incr round -1; report"
set wall0 [clock microseconds]
$ns run
