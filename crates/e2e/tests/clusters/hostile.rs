//! Bad specs and Secrets, given to clusters that serve: each is refused by the API server or reported in words that name what is
//! wrong, no server is hurt, and the last good input always heals.

mod beside;
mod refused;
mod rolls;
mod row;
mod settings;
mod subject;
mod templates;
mod users;

use api::{ValkeyCluster, ValkeyNode};
use e2e::{World, world};
use kube::api::PostParams;
use serde_json::{Value, json};

use row::Reported;
use subject::{Problems, Subject, lacks};

#[tokio::test]
async fn nothing_bad_that_is_asked_for_hurts_a_cluster_that_serves() {
    world::run("hostile", async |world| {
        users::prepare(world).await;
        let problems = Problems::default();
        let [programs, places, guests] = rolls::rows();
        let ((refused, users), (of_volumes, templates), settings, beside, programs, places, guests) = futures::join!(
            Box::pin(people(world, &problems)),
            Box::pin(kept(world, &problems)),
            Box::pin(tuned(world, &problems)),
            Box::pin(beside::judge(world, &problems)),
            Box::pin(rolled(world, "programs", &programs, &problems)),
            Box::pin(rolled(world, "places", &places, &problems)),
            Box::pin(rolled(world, "guests", &guests, &problems)),
        );
        let at_admission = refused + of_volumes;
        let reported = users + templates + settings + beside + programs + places + guests;
        let problems = problems.all();
        let hurt = problems.iter().filter(|problem| problem.contains("hurt: ")).count();
        eprintln!(
            "{} bad inputs: {at_admission} refused at admission, {reported} reported, {hurt} hurt",
            at_admission + reported
        );
        assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
        assert!(at_admission + reported >= 60, "the table should not shrink unnoticed");
    })
    .await;
}

/// In memory and alone: whatever restarts it would be noticed.
async fn people(world: &World, problems: &Problems) -> (usize, usize) {
    let subject = Subject::new(world, "people", &json!({})).await;
    let rows = refused::rows();
    for row in &rows {
        problems.note(row.what, subject.refuses(row).await);
    }
    let creations = refused::creations();
    for (name, more, says) in &creations {
        problems.note(name, refuses_creation(world, name, more, says).await);
    }
    problems.note("after all refusals", subject.serves().await);
    let users = users::rows();
    report(&subject, &users, problems).await;
    (rows.len() + creations.len(), users.len())
}

/// On a volume and alone: it may be restarted.
async fn kept(world: &World, problems: &Problems) -> (usize, usize) {
    let subject = Subject::new(world, "kept", &json!({"persistence": {"size": "64Mi"}})).await;
    let rows = refused::of_volumes();
    for row in &rows {
        problems.note(row.what, subject.refuses(row).await);
    }
    let templates = templates::rows();
    report(&subject, &templates, problems).await;
    (rows.len(), templates.len())
}

async fn tuned(world: &World, problems: &Problems) -> usize {
    // Somebody's own, which runs nowhere.
    let spec = json!({"image": e2e::nodes::IMAGE, "nodeSelector": {"example.com/no-such": "machine"}});
    world.create::<ValkeyNode>(json!({"metadata": {"name": "tuned-1-0"}, "spec": spec})).await;
    let subject = Subject::new(world, "tuned", &json!({})).await;
    let rows = settings::rows();
    report(&subject, &rows, problems).await;
    rows.len()
}

async fn rolled(world: &World, name: &'static str, rows: &[Reported], problems: &Problems) -> usize {
    let subject = Subject::new(world, name, &json!({"replicas": 1})).await;
    report(&subject, rows, problems).await;
    rows.len()
}

async fn report(subject: &Subject<'_>, rows: &[Reported], problems: &Problems) {
    for row in rows {
        problems.note(&format!("{}: {}", subject.name, row.what), subject.reports(row).await);
    }
}

async fn refuses_creation(world: &World, name: &str, more: &Value, says: &[&str]) -> Result<(), String> {
    let spec = with(json!({"shards": 1}), more);
    let cluster = json!({"metadata": {"name": name}, "spec": spec});
    let cluster: ValkeyCluster = serde_json::from_value(cluster).expect("should be a cluster");
    match world.api::<ValkeyCluster>().create(&PostParams::default(), &cluster).await {
        Ok(_) => Err("was not refused".to_owned()),
        Err(kube::Error::Api(status)) if lacks(&status.message, says).is_empty() => Ok(()),
        Err(error) => Err(format!("the refusal lacks one of {says:?}: {error}")),
    }
}

/// An object with more fields.
fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().expect("should be fields") {
        object[key] = value.clone();
    }
    object
}
