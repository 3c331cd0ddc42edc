//! One token that is cancelled when the process is asked to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled on SIGTERM (the kubelet) and SIGINT (a terminal).
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("asked to stop by SIGTERM"),
            _ = interrupt.recv() => tracing::info!("asked to stop by SIGINT"),
        }
        stop.cancel();
    });
    Ok(token)
}
