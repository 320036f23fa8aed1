//! Numbers from measurements: percentiles, medians, memory.

use std::time::Duration;

/// The p-th percentile (0 to 1) of latencies, in milliseconds.
pub fn percentile_ms(sorted: &[Duration], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = ((last as f64) * p).round() as usize;
    Some(sorted[at.min(last)].as_secs_f64() * 1_000.0)
}

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Resident memory of this process in MiB.
pub fn rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

/// How long a process and its children, living or ended, have worked, in milliseconds.
pub fn cpu_ms_of_family(pid: u32) -> Option<u64> {
    let own = ticks(pid)?;
    let mut total = own.0 + own.1;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some((worked, _, parent)) = ticks_and_parent(child)
            && parent == pid
        {
            total += worked;
        }
    }
    // Linux counts in hundredths of a second, whatever the machine.
    Some(total * 10)
}

fn ticks(pid: u32) -> Option<(u64, u64)> {
    ticks_and_parent(pid).map(|(worked, children, _)| (worked, children))
}

/// Ticks worked by a process and by its ended children, and its parent.
fn ticks_and_parent(pid: u32) -> Option<(u64, u64, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold blanks; everything is counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let parent = u32::try_from(number(1)?).ok()?;
    Some((number(11)? + number(12)?, number(13)? + number(14)?, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_medians_of_known_lists() {
        let list: Vec<Duration> = (1..=101).map(Duration::from_millis).collect();
        assert_eq!(percentile_ms(&list, 0.5), Some(51.0));
        assert_eq!(percentile_ms(&list, 0.99), Some(100.0));
        assert_eq!(percentile_ms(&[], 0.5), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
    }
}
