//! How late the witness itself is: on a machine without time to spare, not every gap is the cluster's.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::gauge::Gap;

/// How often it looks at the clock.
const EVERY: Duration = Duration::from_millis(10);
/// What is not worth remembering.
const BRIEF: Duration = Duration::from_millis(5);

/// The stretches of time in which the witness should have been woken and was not, until it stops.
pub(super) async fn stretches(start: Instant, stop: CancellationToken) -> Vec<Gap> {
    let mut stalls = Vec::new();
    while !stop.is_cancelled() {
        let due = Instant::now() + EVERY;
        tokio::time::sleep_until(due).await;
        let length = due.elapsed();
        if length > BRIEF {
            stalls.push(Gap { length, began: due - start });
        }
    }
    stalls
}
