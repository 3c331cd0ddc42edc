//! Where tests take hold of a running operator.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

type Hook = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What happens after a server has obeyed a command: nothing, unless a test wants the operator to end there.
#[derive(Clone, Default)]
pub struct AfterCommand(Option<Hook>);

impl AfterCommand {
    /// Do this.
    pub fn new(hook: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    pub(crate) async fn call(&self) {
        if let Some(hook) = &self.0 {
            hook().await;
        }
    }
}

impl fmt::Debug for AfterCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AfterCommand").field(&self.0.is_some()).finish()
    }
}
