//! Faults on purpose, for tests of what is said about them: named by an environment variable that no user knows.

use libbpf_rs::{MapType, OpenObject};

/// Names the fault: `verifier` or `feature`.
const VARIABLE: &str = "ACKGATE_TEST_FAULT";

/// Makes the object one that this kernel will not take, if that is asked for.
pub(super) fn inject(object: &mut OpenObject) {
    match std::env::var(VARIABLE).as_deref() {
        Ok("verifier") => shrink_values(object),
        Ok("feature") => unknown_type(object),
        _ => {}
    }
}

/// The programs now reach beyond the values of their maps, which the verifier refuses.
fn shrink_values(object: &mut OpenObject) {
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::Array && map.max_entries() > 1) {
        map.set_value_size(8).expect("a map that is not loaded yet takes any size");
    }
}

/// One map is now of a type that no kernel has.
fn unknown_type(object: &mut OpenObject) {
    for mut map in object.maps_mut().filter(|map| map.map_type() == MapType::RingBuf) {
        map.set_type(MapType::Unknown).expect("a map that is not loaded yet takes any type");
    }
}
