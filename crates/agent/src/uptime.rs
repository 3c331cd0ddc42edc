//! Time that nobody sets: machines set their clocks when they start, which is when everything restarts.

use std::time::Duration;
use std::{fs, io};

/// Where the kernel tells it.
pub(crate) const SOURCE: &str = "/proc/uptime";

/// Since the machine was started.
pub(crate) fn since_boot() -> io::Result<Duration> {
    let text = fs::read_to_string(SOURCE)?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no number of seconds"))
}

/// Reads seconds, with whatever follows them.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Writes what can be read again.
pub(crate) fn render(time: Duration) -> String {
    format!("{:.2}\n", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("350735.47 234388.90\n"), Some(Duration::from_millis(350_735_470)));
        for text in ["", "soon", "-1.0", "NaN", "1e300"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn it_goes_on_and_can_be_noted() {
        let now = since_boot().expect("should be told");
        let noted = parse(&render(now)).expect("should be read");
        assert!(noted.abs_diff(now) < Duration::from_millis(10), "{noted:?} {now:?}");
        assert!(since_boot().expect("should be told") >= now);
    }
}
