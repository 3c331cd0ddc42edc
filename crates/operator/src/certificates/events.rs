//! Which changes are worth an event: a person reads them in `kubectl describe`.

use api::condition::{CertificateCondition, CertificateReason, find};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType};

/// What is told when the one condition changes. Waiting is told only of something that was ready before, or that needs
/// somebody: everything waits for a moment when it is new.
pub(super) fn between(before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let (then, now) = (find(before, CertificateCondition::Ready), find(after, CertificateCondition::Ready));
    let Some(now) = now else { return Vec::new() };
    let same = then.is_some_and(|then| then.status == now.status && then.reason == now.reason);
    let was_ready = then.is_some_and(|then| then.status == "True");
    if same || (now.status != "True" && !was_ready && !needs_somebody(&now.reason)) {
        return Vec::new();
    }
    let is_good = now.status == "True" && now.reason != word(CertificateReason::Expiring);
    vec![Event {
        type_: if is_good { EventType::Normal } else { EventType::Warning },
        reason: now.reason.clone(),
        note: Some(now.message.clone()).filter(|message| !message.is_empty()),
        action: "IssueCertificates".to_owned(),
        secondary: None,
    }]
}

fn needs_somebody(reason: &str) -> bool {
    [
        CertificateReason::WaitingForSecret,
        CertificateReason::Unusable,
        CertificateReason::NameCollision,
        CertificateReason::InvalidSpec,
        CertificateReason::ApplyRefused,
    ]
    .map(word)
    .contains(&reason)
}

fn word(reason: CertificateReason) -> &'static str {
    reason.into()
}

#[cfg(test)]
mod tests {
    use api::condition::{Assessment, merge};

    use super::*;

    fn ready(state: bool, reason: CertificateReason) -> Vec<Condition> {
        let told = Assessment {
            condition: CertificateCondition::Ready,
            state: state.into(),
            reason,
            message: "words".to_owned(),
        };
        merge(&[], &[told], None, jiff::Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn transitions_are_told_once_and_the_first_wait_is_not() {
        use CertificateReason::{Expiring, Issued, Rotating, Unusable, WaitingForCA, WaitingForSecret};
        let told = |before: &[Condition], state, reason| -> Vec<(bool, String)> {
            let events = between(before, &ready(state, reason));
            events.into_iter().map(|event| (matches!(event.type_, EventType::Normal), event.reason)).collect()
        };
        let one = |normal: bool, reason: &str| vec![(normal, reason.to_owned())];
        assert_eq!(told(&[], false, WaitingForCA), []);
        assert_eq!(told(&[], false, WaitingForSecret), one(false, "WaitingForSecret"));
        let waiting = ready(false, WaitingForCA);
        assert_eq!(told(&waiting, true, Issued), one(true, "Issued"));
        let issued = ready(true, Issued);
        assert_eq!(told(&issued, true, Issued), []);
        assert_eq!(told(&issued, true, Rotating), one(true, "Rotating"));
        assert_eq!(told(&issued, true, Expiring), one(false, "Expiring"));
        assert_eq!(told(&issued, false, WaitingForCA), one(false, "WaitingForCA"));
        assert_eq!(told(&waiting, false, Unusable), one(false, "Unusable"));
    }
}
