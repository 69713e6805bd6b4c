//! Devices of other kinds than a pair of virtual ones: bridges, bonds and VLANs, and what lies below them; tunnels; and a device that changes
//! under load.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ackgate_control::gate::Config;
use ackgate_linux::{Options, attach};
use world::{DEVICE, Place, RECEIVER_TUNNEL, RECEIVER_V4, RECEIVER_VLAN, SENDER_DEVICE, SENDER_V4, TUNNEL, World};

/// What lies over the receiver's device.
const OVER: &str = "over0";

fn options(device: &str) -> Options {
    Options { gate: Config::credit(8_000), ..Options::new(device, 8_000) }
}

/// `ip` in the calling thread's namespace; false, with a word on standard error, where the kernel refuses.
fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    if !output.status.success() {
        eprintln!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Guards each of the devices in turn under load that passes through both.
fn guarded_in_turn(world: &World, devices: &[&str], to: impl Into<IpAddr>) {
    let to = to.into();
    for device in devices {
        let before = world.receiver_state();
        let (summary, ()) = world.guarded(options(device), || world.incast(to));
        assert!(summary.arrivals > 0 && summary.released > 0 && summary.rewritten > 0, "{device}: {summary:?}");
        assert_eq!((summary.lost, summary.malformed), (0, 0), "{device}: {summary:?}");
        assert_eq!(world.receiver_state(), before, "{device}");
    }
}

/// Puts another device over the receiver's, which takes its address; nothing where the kernel has none of this kind.
fn put_over(world: &World, kind: &str) -> bool {
    world.receiver(|| {
        if !ip(&format!("link add {OVER} type {kind}")) {
            eprintln!("skipped: this kernel has no {kind}");
            return false;
        }
        // A bond takes devices that are down only.
        let address = format!("{RECEIVER_V4}/24 dev");
        [
            format!("link set {DEVICE} down"),
            format!("link set {DEVICE} master {OVER}"),
            format!("addr del {address} {DEVICE}"),
            format!("addr add {address} {OVER}"),
            format!("link set {DEVICE} up"),
            format!("link set {OVER} up"),
        ]
        .iter()
        .for_each(|command| assert!(ip(command)));
        // A bridge learns a moment later that its port has a carrier.
        let late = Instant::now() + Duration::from_secs(10);
        let is_up = || {
            let shown = Command::new("ip").args(["-o", "link", "show", OVER]).output().unwrap();
            String::from_utf8_lossy(&shown.stdout).contains("state UP")
        };
        while !is_up() {
            assert!(Instant::now() < late, "{OVER} does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    })
}

#[test]
fn a_bridge_is_guarded_and_so_is_its_port() {
    let Some(world) = World::new() else { return };
    if put_over(&world, "bridge") {
        guarded_in_turn(&world, &[OVER, DEVICE], RECEIVER_V4);
    }
}

#[test]
fn a_bond_is_guarded_and_so_is_its_member() {
    let Some(world) = World::new() else { return };
    if put_over(&world, "bond mode active-backup miimon 50") {
        guarded_in_turn(&world, &[OVER, DEVICE], RECEIVER_V4);
    }
}

#[test]
fn a_vlan_is_guarded_and_so_is_the_device_below_it() {
    let Some(world) = World::new() else { return };
    if world.add_vlan() {
        guarded_in_turn(&world, &["vlan10", DEVICE], RECEIVER_VLAN);
    }
}

#[test]
fn what_comes_through_a_tunnel_is_guarded_on_its_own_device() {
    let Some(world) = World::new() else { return };
    if world.add_tunnel() {
        guarded_in_turn(&world, &[TUNNEL], RECEIVER_TUNNEL);
    }
}

#[test]
fn a_device_of_several_queues_is_guarded_by_tcx_and_by_filters() {
    let Some(world) = World::new() else { return };
    let far = world.namespace(Place::Sender);
    world.receiver(|| {
        [
            format!("link del {DEVICE}"),
            format!(
                "link add {DEVICE} numtxqueues 4 numrxqueues 4 type veth peer name {SENDER_DEVICE} numtxqueues 4 numrxqueues 4"
            ),
            format!("link set {SENDER_DEVICE} netns {far}"),
            format!("addr add {RECEIVER_V4}/24 dev {DEVICE}"),
            format!("link set {DEVICE} up"),
        ]
        .iter()
        .for_each(|command| assert!(ip(command)));
        let shown = Command::new("ip").args(["-d", "link", "show", DEVICE]).output().unwrap();
        assert!(String::from_utf8_lossy(&shown.stdout).contains("numtxqueues 4 "));
        // A qdisc for each of its queues.
        assert!(Command::new("tc").args(["qdisc", "add", "dev", DEVICE, "root", "mq"]).status().unwrap().success());
    });
    world.sender(|| {
        assert!(
            ip(&format!("addr add {SENDER_V4}/24 dev {SENDER_DEVICE}")) && ip(&format!("link set {SENDER_DEVICE} up"))
        )
    });
    guarded_in_turn(&world, &[DEVICE], RECEIVER_V4);
    let filters = Options { attach: attach::Choice::Clsact, ..options(DEVICE) };
    let (summary, ()) = world.guarded(filters, || world.incast(RECEIVER_V4));
    assert!(summary.released > 0 && summary.rewritten > 0, "{summary:?}");
    assert_eq!((summary.lost, summary.malformed), (0, 0), "{summary:?}");
}

#[test]
fn the_mtu_may_change_under_load() {
    let Some(world) = World::new() else { return };
    let done = AtomicBool::new(false);
    let set = |mtu: u32| {
        let at = |sender: bool| match sender {
            true => world.sender(|| ip(&format!("link set {SENDER_DEVICE} mtu {mtu}"))),
            false => world.receiver(|| ip(&format!("link set {DEVICE} mtu {mtu}"))),
        };
        // Nobody sends what the other does not take: whoever sends is the first to shrink and the last to grow.
        let grows = mtu > 1500;
        [!grows, grows].into_iter().all(at)
    };
    let (summary, (set, rounds)) = world.guarded(options(DEVICE), || {
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds == 0 {
                    world.incast(RECEIVER_V4);
                    rounds += 1;
                }
                rounds
            });
            let set = [9000, 1400, 9000, 600].map(|mtu| {
                std::thread::sleep(Duration::from_millis(200));
                set(mtu)
            });
            std::thread::sleep(Duration::from_millis(200));
            done.store(true, Ordering::Relaxed);
            (set, load.join().unwrap())
        })
    });
    assert_eq!(set, [true; 4]);
    assert!(rounds > 0 && summary.released > 0, "{summary:?}");
    assert_eq!((summary.lost, summary.malformed), (0, 0), "{summary:?}");
}
