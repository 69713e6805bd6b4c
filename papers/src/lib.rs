//! The papers' experiments as data, their claims, and the comparison with what we got.
