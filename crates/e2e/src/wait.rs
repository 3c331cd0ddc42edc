//! Waiting for something to become true, with a deadline and the last thing seen in the message.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

/// How often a state is looked at.
const EVERY: Duration = Duration::from_millis(200);

/// Wait until `look` answers `Ok`; its last `Err` is the message when time is up.
pub async fn until<T, E, F>(what: &str, patience: Duration, mut look: F) -> T
where
    E: Debug,
    F: AsyncFnMut() -> Result<T, E>,
{
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(value) => return value,
            Err(last) if begun.elapsed() > patience => {
                panic!("{what}: not within {patience:?}; last seen: {last:?}")
            }
            Err(_) => tokio::time::sleep(EVERY).await,
        }
    }
}

/// Check that something stays true for a while.
pub async fn always<E, F>(what: &str, span: Duration, mut look: F)
where
    E: Debug,
    F: AsyncFnMut() -> Result<(), E>,
{
    let begun = Instant::now();
    while begun.elapsed() < span {
        if let Err(seen) = look().await {
            panic!("{what}: not any more after {:?}: {seen:?}", begun.elapsed());
        }
        tokio::time::sleep(EVERY).await;
    }
}
