//! HWatch's batch law (§IV-B): how the packets that a flow wants to send are spread over time, by how many of its
//! probes were marked.

/// Packets of the first and of the second burst, for `unmarked` (X_UM) and `marked` (X_M) probes.
///
/// Theorems IV.1 and IV.2 make three batches: X_UM, and twice X_M / 2. Corollary IV.2.2 sends the first two together.
/// An odd packet, X_M = 1 in the paper, goes into either half with probability 1/2: that is `coin`.
#[must_use]
pub const fn bursts(unmarked: u32, marked: u32, coin: bool) -> (u32, u32) {
    let half = marked / 2;
    let odd = marked % 2;
    let (early, late) = if coin { (odd, 0) } else { (0, odd) };
    (unmarked + half + early, half + late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn corollary_iv_2_2() {
        assert_eq!(bursts(10, 0, true), (10, 0), "nothing marked: all at once");
        assert_eq!(bursts(6, 4, false), (8, 2));
        assert_eq!(bursts(0, 10, false), (5, 5), "all marked: halves");
        assert_eq!((bursts(9, 1, true), bursts(9, 1, false)), ((10, 0), (9, 1)), "a coin for a single marked packet");
    }

    proptest! {
        #[test]
        fn every_packet_is_sent_once(unmarked in 0u32..1000, marked in 0u32..1000, coin: bool) {
            let (first, second) = bursts(unmarked, marked, coin);
            prop_assert_eq!(first + second, unmarked + marked);
            prop_assert!(first >= unmarked && second <= marked.div_ceil(2));
        }
    }
}
