//! New passwords for the system users while everything runs. Each state is in the Secret before anybody acts on it:
//!
//! 1. *offered*: the new password is in the Secret beside the one in use. Servers that run learn it at once, those that
//!    start find it in the users file.
//! 2. *switched*: once no server could refuse it, not even one that starts again with what its kubelet mounted, it takes
//!    the place of the one in use, which stays valid as the previous one until the next rotation.
//!
//! An operator that dies anywhere finds one of the two and goes on; the order is noted in the Secret, so that it is obeyed
//! once.

use secrecy::SecretString;

use super::passwords::Passwords;

/// What was decided in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Turn {
    /// Servers are to learn new passwords.
    Offered,
    /// Everybody is to use them.
    Switched,
}

/// What the passwords become. `order` is what the user asks for and `obeyed` the last order the status tells of; `settled`
/// says that every server answers, accepts exactly the passwords there are, would do so after a restart too, and follows
/// its primary with the one in use.
pub(in super::super) fn advance(
    held: Passwords,
    order: Option<&str>,
    obeyed: Option<&str>,
    settled: bool,
    fresh: impl FnMut() -> SecretString,
) -> (Passwords, Option<Turn>) {
    if !settled {
        return (held, None);
    }
    if held.are_changing() {
        return (held.switched(), Some(Turn::Switched));
    }
    let news = order.filter(|order| Some(*order) != obeyed && Some(*order) != held.rotation.as_deref());
    match news {
        Some(order) => (held.offered(order, fresh), Some(Turn::Offered)),
        None => (held, None),
    }
}
