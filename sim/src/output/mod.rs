//! What is left of a run when it is over: tables, JSON and CSV, captures, time series, plots.

pub mod chart;
pub mod flat;
pub mod flows;
pub mod frame;
pub mod parquet;
pub mod pcap;
pub mod provenance;
pub mod run;
pub mod series;
pub mod table;
pub mod whole;
