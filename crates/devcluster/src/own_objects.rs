//! Objects of the cluster that a real one is set up with, too.

use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use snafu::{ResultExt, Snafu};

/// An object could not be applied.
#[derive(Debug, Snafu)]
#[snafu(display("failed to apply the {kind} {name}"))]
pub struct ApplyError {
    kind: String,
    name: String,
    #[snafu(source(from(kube::Error, Box::new)))]
    source: Box<kube::Error>,
}

/// Applies an object under this name.
pub(crate) async fn apply<K>(api: &Api<K>, name: &str, mut object: Value) -> Result<(), ApplyError>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    object["metadata"]["name"] = name.into();
    let parameters = PatchParams::apply("devcluster").force();
    let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
    applied.context(ApplySnafu { kind: K::kind(&()), name }).map(drop)
}
