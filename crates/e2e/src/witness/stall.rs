//! How late the witness itself is: on a machine without time to spare, not every gap is the cluster's.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often it looks at the clock.
const EVERY: Duration = Duration::from_millis(10);

/// The longest time by which the witness was woken too late, until it stops.
pub(super) async fn longest(stop: CancellationToken) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.is_cancelled() {
        let due = Instant::now() + EVERY;
        tokio::time::sleep_until(due).await;
        longest = longest.max(due.elapsed());
    }
    longest
}
