//! Time that nobody sets: machines set their clocks when they start, which is when everything restarts.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::files;

/// Since something was noted in this file for the first time; it is now, if nothing was yet, or if what was is not of this life
/// of the machine.
pub(crate) fn since_noted(path: &Path) -> io::Result<Duration> {
    let now = since_boot()?;
    let first = files::read_if_there(path)?;
    let since = first.as_deref().and_then(parse).and_then(|first| now.checked_sub(first));
    if since.is_none() {
        files::replace(path, 0o600, &mut render(now).as_bytes())?;
    }
    Ok(since.unwrap_or_default())
}

/// Since the machine was started.
fn since_boot() -> io::Result<Duration> {
    let text = fs::read_to_string("/proc/uptime")?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no number of seconds"))
}

/// Reads seconds, with whatever follows them.
fn parse(text: &str) -> Option<Duration> {
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Writes what can be read again.
fn render(time: Duration) -> String {
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
    fn time_is_counted_from_the_first_note() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("note");
        assert_eq!(since_noted(&path).unwrap(), Duration::ZERO);
        let now = since_boot().unwrap();
        fs::write(&path, render(now.saturating_sub(Duration::from_secs(7)))).unwrap();
        let since = since_noted(&path).unwrap();
        assert!((7..9).contains(&since.as_secs()), "{since:?}");
        // Of another life of the machine, or nonsense.
        for text in [render(now + Duration::from_hours(1)), "soon".to_owned()] {
            fs::write(&path, text).unwrap();
            assert_eq!(since_noted(&path).unwrap(), Duration::ZERO);
            assert!(since_noted(&path).unwrap() < Duration::from_secs(2));
        }
        assert!(since_noted(Path::new("/nowhere/note")).is_err());
    }
}
