//! The pulse of the server: a connection that says nothing and ends with the server, in the moment it ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::run_directory::RunDirectory;

/// Between two tries to connect: how late we are when the server is back.
const EVERY: Duration = Duration::from_millis(100);
/// After a connection that was shorter than this: a server that has no room for us closes each of them, and has no time for us either.
const SHORT: Duration = Duration::from_secs(1);

/// Tell of each beginning and each end.
pub(super) async fn feel(run: PathBuf, stirred: Arc<Notify>) {
    let socket = RunDirectory::new(&run).socket();
    loop {
        if let Ok(mut stream) = UnixStream::connect(&socket).await {
            let begun = Instant::now();
            stirred.notify_one();
            let mut ignored = [0; 64];
            // Whatever it says to somebody who does not speak, it is there for as long as it does.
            while stream.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
            stirred.notify_one();
            if begun.elapsed() < SHORT {
                tokio::time::sleep(SHORT).await;
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
