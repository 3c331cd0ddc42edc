//! Takes the cluster down.

use std::path::Path;

use snafu::{ResultExt, Snafu};

use crate::checkout;
use crate::files::FileError;
use crate::layout::Layout;
use crate::leftovers::{self, ClearError};
use crate::lock::{self, LockError};
use crate::progress::Step;

/// The cluster did not go down.
#[derive(Debug, Snafu)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum DownError {
    #[snafu(display("failed to wait for another devcluster"))]
    Wait { source: LockError },
    #[snafu(display("failed to take the cluster down"))]
    Clear { source: ClearError },
    #[snafu(display("failed to clear the checkout"))]
    Checkout { source: FileError },
    #[snafu(display("failed to finish taking the cluster down"))]
    CutOff { source: tokio::task::JoinError },
}

/// Ends and removes everything of the cluster, whole or half started, and makes sure that nothing is left.
pub async fn down(checkout: &Path) -> Result<(), DownError> {
    let checkout = checkout.to_path_buf();
    let work = move || {
        let layout = Layout::default();
        let _lock = lock::take(&layout.lock()).context(WaitSnafu)?;
        let step = Step::start("taking the cluster down");
        leftovers::clear(&layout).context(ClearSnafu)?;
        checkout::remove(&checkout).context(CheckoutSnafu)?;
        step.done();
        Ok(())
    };
    tokio::task::spawn_blocking(work).await.context(CutOffSnafu)?
}
