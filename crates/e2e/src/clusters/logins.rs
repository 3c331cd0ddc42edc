//! Who is let in with what, on every server of a cluster, and how soon after a change.

use std::time::{Duration, Instant};

use super::{Server, everywhere};

/// Who is let in with what, and who is not.
pub struct Logins<'a> {
    /// Users with passwords that are right.
    pub good: &'a [(&'a str, &'a str)],
    /// Users with passwords that are wrong.
    pub bad: &'a [(&'a str, &'a str)],
}

impl Logins<'_> {
    /// Makes a change and waits until every server acts on it; returns how long that took. The time begins before the change
    /// is sent.
    pub async fn after(
        self,
        what: &str,
        change: impl Future<Output = ()>,
        servers: &[Server],
        patience: Duration,
    ) -> Duration {
        let begun = Instant::now();
        let look = everywhere(what, servers, patience, async |server| {
            for (user, password) in self.good {
                if !server.lets_in(user, password).await? {
                    return Ok(Err(format!("{user} is not let in")));
                }
            }
            for (user, password) in self.bad {
                if server.lets_in(user, password).await? {
                    return Ok(Err(format!("{user} is still let in")));
                }
            }
            Ok(Ok(()))
        });
        futures::future::join(change, look).await;
        let took = begun.elapsed();
        eprintln!("{what}: on all {} servers after {took:?}", servers.len());
        took
    }
}
