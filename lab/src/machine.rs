//! What machine this is, and what its processors did.

use std::fs;
use std::io;
use std::time::Duration;

use serde::Serialize;

/// CPU time of the whole system since boot, in seconds, all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// In user space, niced included.
    pub user: f64,
    /// In the kernel for processes.
    pub system: f64,
    /// In interrupts and soft interrupts, where much of the network stack runs.
    pub interrupts: f64,
    /// Idle, waiting for disks included. Unlike the others, which are sampled by the timer tick, this is measured
    /// exactly on kernels that stop the tick when idle.
    pub idle: f64,
    /// Taken away by the hypervisor: a sign that measurements here are noisy.
    pub steal: f64,
}

impl CpuTimes {
    /// Reads `/proc/stat`.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn now() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let ticks_per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.unwrap_or(100);
        Self::parse(&text, ticks_per_second as f64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no line `cpu`"))
    }

    fn parse(text: &str, ticks_per_second: f64) -> Option<Self> {
        let line = text.lines().find_map(|l| l.strip_prefix("cpu "))?;
        let ticks: Vec<f64> = line.split_ascii_whitespace().map_while(|t| t.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0.0) / ticks_per_second;
        (ticks.len() >= 4).then(|| Self {
            user: at(0) + at(1),
            system: at(2),
            interrupts: at(5) + at(6),
            idle: at(3) + at(4),
            steal: at(7),
        })
    }

    /// What was used after `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            interrupts: self.interrupts - earlier.interrupts,
            idle: self.idle - earlier.idle,
            steal: self.steal - earlier.steal,
        }
    }

    /// Share of the processors' time that was not idle in the next `span`, from 0 to 1.
    ///
    /// # Errors
    /// As [`CpuTimes::now`].
    pub fn busy_share(span: Duration) -> io::Result<f64> {
        let before = Self::now()?;
        std::thread::sleep(span);
        let used = Self::now()?.since(before);
        Ok(used.share(used.busy() + used.steal))
    }

    /// Share of the processors' time that the hypervisor has taken away, from 0 to 1.
    #[must_use]
    pub fn stolen_share(self) -> f64 {
        self.share(self.steal)
    }

    fn share(self, part: f64) -> f64 {
        let all = self.busy() + self.idle + self.steal;
        if all > 0.0 { part / all } else { 0.0 }
    }

    /// User, system and interrupt time together.
    #[must_use]
    pub fn busy(self) -> f64 {
        self.user + self.system + self.interrupts
    }
}

/// What a figure was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Processor's name.
    pub cpu: String,
    /// Processors online.
    pub cpus: usize,
}

impl Machine {
    /// This machine; what cannot be found out is `unknown`.
    #[must_use]
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
        Self {
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".into(), |s| s.trim().into()),
            cpu: model.map_or_else(|| "unknown".into(), |(_, name)| name.trim().into()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Frames that this machine, not a switch, has dropped since boot, because a processor had too many waiting
/// (`net.core.netdev_max_backlog`): the second column of `/proc/net/softnet_stat`, all processors together.
///
/// # Errors
/// When it cannot be read or understood.
pub fn backlog_drops() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat")?;
    dropped(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/net/softnet_stat has no second column"))
}

fn dropped(text: &str) -> Option<u64> {
    text.lines().map(|line| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok()).sum()
}

/// Congestion controls that the kernel offers to every program; none where it does not say.
pub(crate) fn congestion_controls() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    names.split_ascii_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_the_machine_dropped_are_found() {
        assert_eq!(dropped("0381de58 00000002 000000f1 0\n12012a38 000e0b42 000004ef 0\n"), Some(0xe0b44));
        assert_eq!(dropped("0381de58\n"), None);
        backlog_drops().unwrap();
    }

    #[test]
    fn proc_stat_is_understood() {
        let text = "cpu  100 50 300 9999 1 20 30 4 0 0\ncpu0 1 1 1 1\n";
        let times = CpuTimes::parse(text, 100.0).unwrap();
        assert_eq!(times, CpuTimes { user: 1.5, system: 3.0, interrupts: 0.5, idle: 100.0, steal: 0.04 });
        assert_eq!(times.busy(), 5.0);
        assert_eq!(CpuTimes::parse("intr 5\n", 100.0), None);
        assert!(CpuTimes::now().unwrap().busy() > 0.0);
        assert!((0.0..=1.0).contains(&CpuTimes::busy_share(Duration::from_millis(50)).unwrap()));
    }
}
