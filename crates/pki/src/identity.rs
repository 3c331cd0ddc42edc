//! Who somebody is, as a SPIFFE URI: `spiffe://<trust domain>/ns/<namespace>/valkeycluster/<cluster>/<role>[/<pod>]`.

use std::fmt;
use std::str::FromStr;

use snafu::{OptionExt as _, Snafu, ensure};
use strum::{Display, EnumString, IntoEnumIterator as _};

const SCHEME: &str = "spiffe://";
/// Longer URIs are none, by the standard.
const LONGEST: usize = 2048;

/// What somebody is in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, strum::EnumIter)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// The agent beside a server.
    Sidecar,
    /// The agent that prepares a pod.
    Init,
    /// The one who looks after the cluster.
    Operator,
}

/// Why a URI names nobody.
#[derive(Debug, PartialEq, Eq, Snafu)]
pub enum IdentityError {
    /// Another kind of URI, or one of another shape.
    #[snafu(display(
        "{uri:?} is not of the form spiffe://<trust domain>/ns/<namespace>/valkeycluster/<cluster>/<role>[/<pod>]"
    ))]
    Shape {
        /// What was given, cut.
        uri: String,
    },
    /// There is no such role.
    #[snafu(display("{role:?} is none of the roles {}", roles()))]
    FindRole {
        /// What was given, cut.
        role: String,
    },
}

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Whose word counts.
    pub trust_domain: String,
    /// Of the cluster.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
    /// What it is there.
    pub role: Role,
    /// In which pod, for those who are in one.
    pub pod: Option<String>,
}

/// Where somebody belongs: a cluster, told apart from all others. Clusters of one name in two namespaces are two.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home {
    /// Whose word counts.
    pub trust_domain: String,
    /// Of the cluster.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
}

impl Home {
    /// The name by which the operator is asked for as the one who looks after this cluster. Neither a cluster nor a namespace has
    /// a dot in its name, so it can be read in one way only.
    pub fn door(&self) -> String {
        let Self { trust_domain, namespace, cluster } = self;
        format!("{cluster}.{namespace}.{trust_domain}")
    }

    /// The cluster that is asked for by a name.
    pub fn of_door(name: &str) -> Option<Self> {
        let mut parts = name.splitn(3, '.');
        let (cluster, namespace, trust_domain) = (parts.next()?, parts.next()?, parts.next()?);
        let all = [cluster, namespace, trust_domain];
        all.iter().all(|part| is_name(part)).then(|| Self {
            trust_domain: trust_domain.to_owned(),
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
        })
    }
}

impl Identity {
    /// Where it belongs.
    pub fn home(&self) -> Home {
        Home {
            trust_domain: self.trust_domain.clone(),
            namespace: self.namespace.clone(),
            cluster: self.cluster.clone(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trust_domain, namespace, cluster, role, pod } = self;
        write!(formatter, "{SCHEME}{trust_domain}/ns/{namespace}/valkeycluster/{cluster}/{role}")?;
        pod.iter().try_for_each(|pod| write!(formatter, "/{pod}"))
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, Self::Err> {
        let shape = || ShapeSnafu { uri: cut(uri) };
        ensure!(uri.len() <= LONGEST, shape());
        let path = uri.strip_prefix(SCHEME).with_context(shape)?;
        let parts: Vec<&str> = path.split('/').collect();
        ensure!(parts.iter().all(|part| is_name(part)), shape());
        let (trust_domain, namespace, cluster, role, pod) = match parts.as_slice() {
            [domain, "ns", namespace, "valkeycluster", cluster, role] => {
                (domain, namespace, cluster, role, None)
            }
            [domain, "ns", namespace, "valkeycluster", cluster, role, pod] => {
                (domain, namespace, cluster, role, Some((*pod).to_owned()))
            }
            _ => return shape().fail(),
        };
        let role = role.parse().ok().with_context(|| FindRoleSnafu { role: cut(role) })?;
        Ok(Self {
            trust_domain: (*trust_domain).to_owned(),
            namespace: (*namespace).to_owned(),
            cluster: (*cluster).to_owned(),
            role,
            pod,
        })
    }
}

/// Names as Kubernetes has them: nothing that could be written in two ways, or that means a step up.
fn is_name(part: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let ends = [part.bytes().next(), part.bytes().next_back()];
    !part.is_empty()
        && part.bytes().all(is_plain)
        && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
        && !part.contains("..")
}

/// Errors are read by people; whoever sends a megabyte gets back a line.
fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

fn roles() -> String {
    Role::iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ")
}
