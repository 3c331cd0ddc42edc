//! Decides what to do about volumes from what is seen: no clock, no call, no file.

use std::collections::BTreeSet;

/// A size as it was written, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Size {
    /// The text to repeat wherever the size is reported.
    pub text: String,
    /// The number of bytes.
    pub bytes: u64,
}

/// A claim's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimName {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl ClaimName {
    /// The volume made for this claim: the same after every restart.
    pub(super) fn volume(&self) -> String {
        format!("pvc-{}", self.uid)
    }
}

/// A claim that asks for one of our volumes or has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub name: ClaimName,
    pub class: String,
    pub requested: Size,
    pub access_modes: Vec<String>,
    /// Where the scheduler wants the pod that waits for the volume.
    pub selected_node: Option<String>,
    /// The volume the claim names.
    pub volume: Option<String>,
    /// What the claim's status says it has, when it is bound.
    pub capacity: Option<u64>,
    pub being_deleted: bool,
}

/// Where a volume is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not looked at yet by Kubernetes, or without a claim.
    Free,
    /// A claim has it.
    Bound,
    /// Its claim is gone.
    Released,
}

/// A volume we made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Volume {
    pub name: String,
    pub capacity: Size,
    pub phase: Phase,
    /// Whether its data outlives it.
    pub retain: bool,
    pub being_deleted: bool,
    /// Whether we have taken our hand off it already, and wait for others to do so.
    pub let_go: bool,
}

pub(super) use super::disks::Disk;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Mount the disk of a volume again.
    Mount { volume: String },
    /// Remove the disk, then the volume.
    Delete { volume: String },
    /// Let the volume go and keep its disk.
    LetGo { volume: String },
    /// Remove a disk that no volume names.
    RemoveOrphan { volume: String },
    /// Make a disk, then the volume for this claim on this node.
    Provision { claim: Claim, node: String },
    /// Make the claim's disk larger, then the volume, then the claim's status.
    Grow { claim: ClaimName, volume: String, size: Size },
    /// The volume has grown; the claim's status does not say so yet.
    FinishGrowth { claim: ClaimName, size: Size },
}

/// What has to be done now, in this order.
pub(super) fn plan(claims: &[Claim], volumes: &[Volume], disks: &[Disk]) -> Vec<Action> {
    let ended = volumes.iter().filter_map(end_of_volume);
    let wanted = claims.iter().filter_map(|claim| claim_step(claim, volumes));
    disks
        .iter()
        .filter_map(|disk| mount(disk, volumes))
        .chain(ended)
        .chain(orphans(claims, volumes, disks))
        .chain(wanted)
        .collect()
}

fn mount(disk: &Disk, volumes: &[Volume]) -> Option<Action> {
    let stays = |volume: &Volume| !volume.let_go && end_of_volume(volume).is_none();
    let named = volumes.iter().any(|volume| volume.name == disk.volume && stays(volume));
    (named && !disk.mounted).then(|| Action::Mount { volume: disk.volume.clone() })
}

fn end_of_volume(volume: &Volume) -> Option<Action> {
    if volume.let_go {
        return None;
    }
    let name = volume.name.clone();
    match (volume.phase, volume.retain, volume.being_deleted) {
        (Phase::Released, false, _) | (Phase::Free, false, true) => Some(Action::Delete { volume: name }),
        (Phase::Released | Phase::Free, true, true) => Some(Action::LetGo { volume: name }),
        _ => None,
    }
}

/// Disks left by a run that was cut off. While the claim lives its disk is still to be used.
fn orphans<'a>(
    claims: &[Claim],
    volumes: &[Volume],
    disks: &'a [Disk],
) -> impl Iterator<Item = Action> + use<'a> {
    let of_claims = claims.iter().map(|claim| claim.name.volume());
    let known: BTreeSet<String> = volumes.iter().map(|volume| volume.name.clone()).chain(of_claims).collect();
    disks
        .iter()
        .filter(move |disk| !disk.kept && !known.contains(&disk.volume))
        .map(|disk| Action::RemoveOrphan { volume: disk.volume.clone() })
}

fn claim_step(claim: &Claim, volumes: &[Volume]) -> Option<Action> {
    if claim.being_deleted {
        return None;
    }
    let name = claim.volume.clone().unwrap_or_else(|| claim.name.volume());
    let volume = volumes.iter().find(|volume| volume.name == name);
    match (&claim.volume, volume) {
        (None, None) => {
            let node = claim.selected_node.clone()?;
            Some(Action::Provision { claim: claim.clone(), node })
        }
        (Some(_), Some(volume)) if volume.phase == Phase::Bound => growth(claim, volume),
        // Bound to a volume of somebody else, or Kubernetes is about to bind it to ours.
        _ => None,
    }
}

fn growth(claim: &Claim, volume: &Volume) -> Option<Action> {
    // Until the claim's status says what it has, Kubernetes is still binding it.
    let has = claim.capacity?;
    let claim_name = claim.name.clone();
    if claim.requested.bytes > volume.capacity.bytes {
        let (volume, size) = (volume.name.clone(), claim.requested.clone());
        return Some(Action::Grow { claim: claim_name, volume, size });
    }
    (has < volume.capacity.bytes)
        .then(|| Action::FinishGrowth { claim: claim_name, size: volume.capacity.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Size {
        Size { text: text.into(), bytes: crate::storage::quantity::bytes(text).unwrap() }
    }

    /// A claim that waits for a volume on node-1.
    fn waiting() -> Claim {
        Claim {
            name: ClaimName { namespace: "default".into(), name: "data".into(), uid: "1".into() },
            class: "standard".into(),
            requested: size("1Gi"),
            access_modes: vec!["ReadWriteOnce".into()],
            selected_node: Some("node-1".into()),
            volume: None,
            capacity: None,
            being_deleted: false,
        }
    }

    fn bound() -> Claim {
        Claim { volume: Some("pvc-1".into()), capacity: Some(1 << 30), ..waiting() }
    }

    fn volume() -> Volume {
        Volume {
            name: "pvc-1".into(),
            capacity: size("1Gi"),
            phase: Phase::Bound,
            retain: false,
            being_deleted: false,
            let_go: false,
        }
    }

    fn disk() -> Disk {
        Disk { volume: "pvc-1".into(), mounted: true, kept: false }
    }

    fn named(action: fn(String) -> Action) -> Vec<Action> {
        vec![action("pvc-1".into())]
    }

    const DELETE: fn(String) -> Action = |volume| Action::Delete { volume };
    const MOUNT: fn(String) -> Action = |volume| Action::Mount { volume };
    const LET_GO: fn(String) -> Action = |volume| Action::LetGo { volume };
    const REMOVE_ORPHAN: fn(String) -> Action = |volume| Action::RemoveOrphan { volume };

    #[test]
    fn a_bound_claim_needs_nothing() {
        assert_eq!(plan(&[bound()], &[volume()], &[disk()]), []);
    }

    #[test]
    fn a_volume_is_made_when_the_scheduler_has_chosen_a_node() {
        let undecided = Claim { selected_node: None, ..waiting() };
        assert_eq!(plan(&[undecided], &[], &[]), []);
        let expected = Action::Provision { claim: waiting(), node: "node-1".into() };
        assert_eq!(plan(&[waiting()], &[], &[]), [expected]);
    }

    #[test]
    fn a_cut_off_attempt_is_completed_and_not_taken_for_an_orphan() {
        let expected = Action::Provision { claim: waiting(), node: "node-1".into() };
        assert_eq!(plan(&[waiting()], &[], &[disk()]), [expected]);
    }

    #[test]
    fn a_volume_that_is_about_to_be_bound_is_not_made_again() {
        let free = Volume { phase: Phase::Free, ..volume() };
        assert_eq!(plan(&[waiting()], &[free], &[disk()]), []);
    }

    #[test]
    fn a_claim_on_its_way_out_gets_nothing() {
        let leaving = Claim { being_deleted: true, ..waiting() };
        assert_eq!(plan(&[leaving], &[], &[]), []);
        let leaving = Claim { being_deleted: true, requested: size("2Gi"), ..bound() };
        assert_eq!(plan(&[leaving], &[volume()], &[disk()]), []);
    }

    #[test]
    fn a_larger_request_grows_the_volume_first_and_the_status_last() {
        let larger = Claim { requested: size("2Gi"), ..bound() };
        let (claim, size_2) = (larger.name.clone(), size("2Gi"));
        let grow = Action::Grow { claim: claim.clone(), volume: "pvc-1".into(), size: size_2.clone() };
        assert_eq!(plan(std::slice::from_ref(&larger), &[volume()], &[disk()]), [grow]);
        let grown = Volume { capacity: size_2.clone(), ..volume() };
        let finish = Action::FinishGrowth { claim, size: size_2 };
        assert_eq!(plan(&[larger], &[grown], &[disk()]), [finish]);
    }

    #[test]
    fn another_notation_of_the_same_size_is_no_growth() {
        let same = Claim { requested: size("1024Mi"), ..bound() };
        assert_eq!(plan(&[same], &[volume()], &[disk()]), []);
    }

    #[test]
    fn a_claim_that_kubernetes_is_still_binding_is_left_alone() {
        let binding = Claim { capacity: None, ..bound() };
        assert_eq!(plan(&[binding], &[volume()], &[disk()]), []);
    }

    #[test]
    fn a_released_volume_goes_unless_it_is_to_be_retained() {
        let released = Volume { phase: Phase::Released, ..volume() };
        assert_eq!(plan(&[], std::slice::from_ref(&released), &[disk()]), named(DELETE));
        let retained = Volume { retain: true, ..released };
        assert_eq!(plan(&[], std::slice::from_ref(&retained), &[disk()]), []);
        let deleted = Volume { being_deleted: true, ..retained };
        assert_eq!(plan(&[], &[deleted], &[disk()]), named(LET_GO));
    }

    #[test]
    fn a_volume_we_are_done_with_is_not_deleted_again() {
        let done = Volume { phase: Phase::Released, being_deleted: true, let_go: true, ..volume() };
        assert_eq!(plan(&[], &[done], &[]), []);
    }

    #[test]
    fn a_volume_in_use_stays_even_when_somebody_deletes_it() {
        let deleted = Volume { being_deleted: true, ..volume() };
        assert_eq!(plan(&[bound()], &[deleted], &[disk()]), []);
    }

    #[test]
    fn a_volume_whose_disk_is_not_mounted_is_mounted() {
        let unmounted = Disk { mounted: false, ..disk() };
        assert_eq!(plan(&[bound()], &[volume()], std::slice::from_ref(&unmounted)), named(MOUNT));
        let released = Volume { phase: Phase::Released, ..volume() };
        assert_eq!(plan(&[], &[released], &[unmounted]), named(DELETE));
    }

    #[test]
    fn a_disk_without_claim_and_volume_is_removed_unless_it_was_kept() {
        assert_eq!(plan(&[], &[], &[disk()]), named(REMOVE_ORPHAN));
        let kept = Disk { kept: true, ..disk() };
        assert_eq!(plan(&[], &[], &[kept]), []);
    }
}
