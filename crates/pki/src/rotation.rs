//! Replacing an authority while everybody goes on talking: first everybody trusts the new one, then everybody shows what the
//! new one signed, and only then is the old one forgotten. Each step is taken when the one before it is *proven* by every
//! party, not when it was published: what is published arrives late, and by different ways.
//!
//! What was published is all the memory there is. Whoever is cut off between two steps, or takes over, goes on from there.

use std::collections::{BTreeMap, BTreeSet};

/// The thumbprint of an authority's anchor.
pub type Anchor = String;

/// What everybody is given: whom to trust, and a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Counts what was published. A party proves a number, not a content: the same content may have been published before,
    /// and what a party said then is not what it holds now.
    pub generation: u64,
    /// Whom to trust, the oldest first.
    pub trusted: Vec<Anchor>,
    /// Who signs.
    pub issuer: Anchor,
    /// The number under which it began to sign.
    pub issuing_since: u64,
}

impl Published {
    /// The first of all.
    pub fn first(anchor: Anchor) -> Self {
        Self { generation: 1, trusted: vec![anchor.clone()], issuer: anchor, issuing_since: 1 }
    }
}

/// What a party has proven to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Proof {
    /// The number of whom it trusts.
    pub trusts: u64,
    /// The number under which the certificate was published that it shows.
    pub shows: u64,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: everybody has what was published, and it is what is wanted.
    Rest,
    /// These have not proven the last step.
    WaitFor(BTreeSet<String>),
    /// Publish this.
    Publish(Published),
}

/// The next step towards one authority and no other. `parties` are all that exist, by name: one that is not heard of holds
/// everything up, one that does not exist any more does not.
pub fn next(published: &Published, wanted: &str, parties: &BTreeMap<String, Proof>) -> Next {
    let Published { generation, trusted, issuer, issuing_since } = published;
    let all_but_proven = |proven: &dyn Fn(&Proof) -> bool| -> BTreeSet<String> {
        parties.iter().filter(|(_, proof)| !proven(proof)).map(|(name, _)| name.clone()).collect()
    };
    let publish = |trusted: Vec<Anchor>, issuer: &str, issuing_since: u64| {
        Next::Publish(Published {
            generation: generation + 1,
            trusted,
            issuer: issuer.to_owned(),
            issuing_since,
        })
    };
    if !trusted.iter().any(|one| one == wanted) {
        let more = trusted.iter().cloned().chain([wanted.to_owned()]).collect();
        return publish(more, issuer, *issuing_since);
    }
    let distrustful = all_but_proven(&|proof| proof.trusts >= *generation);
    if !distrustful.is_empty() {
        return Next::WaitFor(distrustful);
    }
    if issuer != wanted {
        return publish(trusted.clone(), wanted, generation + 1);
    }
    let outdated = all_but_proven(&|proof| proof.shows >= *issuing_since);
    if !outdated.is_empty() {
        return Next::WaitFor(outdated);
    }
    if trusted.len() > 1 {
        return publish(vec![wanted.to_owned()], issuer, *issuing_since);
    }
    Next::Rest
}
