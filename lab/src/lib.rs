//! Small real networks made of network namespaces, real TCP load, measurement.
