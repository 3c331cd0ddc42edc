//! Waiting for what servers do among themselves.

use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(20);

/// Looks until there is an answer.
///
/// # Panics
/// If there is none in time.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = look().await {
            return answer;
        }
        assert!(Instant::now() < end, "did not happen in time: {what}");
        tokio::time::sleep(EVERY).await;
    }
}
