//! A cluster that serves while bad things are asked of it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use api::ValkeyCluster;
use api::cluster::ClusterPhase;
use e2e::clusters::{Server, condition};
use e2e::objects::uid;
use e2e::{World, wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use serde_json::{Value, json};
use tokio::time::Instant;
use valkey::acl::{REVISION_USER, SCRATCH_USER};

use super::row::{Input, Refused, Reported, Touches};
use super::with;

const PASSWORD: &str = "good-1";
const KEY: (&str, &str) = ("written", "before anything happened");
/// How long something may take to be told, or to heal, on a busy machine.
pub(super) const IN_TIME: Duration = Duration::from_secs(45);
/// Users that come and go with what is asked for, without a word of their own: the mark of the users file, and the exporter's.
const PASSING: [&str; 3] = [SCRATCH_USER, REVISION_USER, "_exporter"];

/// What went wrong, all of it: a table is most useful as a whole.
#[derive(Default)]
pub(super) struct Problems(Mutex<Vec<String>>);

impl Problems {
    pub(super) fn note(&self, what: &str, result: Result<(), String>) {
        if let Err(problem) = result {
            eprintln!("{what}: {problem}");
            self.0.lock().expect("nobody panics with it").push(format!("{what}: {problem}"));
        }
    }

    pub(super) fn all(self) -> Vec<String> {
        self.0.into_inner().expect("nobody panics with it")
    }
}

/// What a server is: nothing of it may change.
#[derive(Debug, PartialEq)]
struct Life {
    node: String,
    pod: String,
    run: String,
    users: Vec<String>,
    config: BTreeMap<String, String>,
}

/// See the module.
pub(super) struct Subject<'a> {
    world: &'a World,
    pub(super) name: &'static str,
    /// The spec to come back to.
    good: Value,
}

/// The Secret that a subject's user has its password from.
fn passwords_of(name: &str) -> String {
    format!("{name}-passwords")
}

impl<'a> Subject<'a> {
    /// Make it, and write the key that must be there to the end.
    pub(super) async fn new(world: &'a World, name: &'static str, more: &Value) -> Self {
        let passwords = json!({"metadata": {"name": passwords_of(name)}, "stringData": {"app": PASSWORD}});
        world.create::<Secret>(passwords).await;
        let secret = json!({"name": passwords_of(name), "keys": ["app"]});
        let app = json!({"name": "app", "passwordSecret": secret, "permissions": "+@all ~* &*"});
        let good = with(json!({"shards": 1, "exporter": {"enabled": false}, "users": [app]}), more);
        world.ready_cluster(name, good.clone()).await;
        let subject = Self { world, name, good };
        wait::until(&format!("{name} takes a key"), IN_TIME, async || {
            let connection = subject.primary().await.open_as("app", PASSWORD).await;
            let connection = connection.map_err(|error| error.to_string())?;
            let answer = connection.raw(&["SET", KEY.0, KEY.1]).await;
            answer.map(drop).map_err(|error| error.to_string())
        })
        .await;
        subject
    }

    /// Its first node leads to the end: nothing here may make another one do so.
    async fn primary(&self) -> Server {
        self.world.cluster_server(self.name, &format!("{}-0-0", self.name)).await
    }

    async fn life(&self, server: &Server) -> Result<Life, String> {
        let ask = async {
            let connection = server.open().await?;
            let run = connection.info_all().await?.server().run_id.unwrap_or_default();
            let users = connection.acl_list().await?.users;
            let config = connection.config_get(&["*"]).await?;
            Ok::<_, valkey::Error>((run, users, config))
        };
        let (run, users, config) = ask.await.map_err(|error| error.to_string())?;
        // Passwords are held in these, and a life is printed when a test fails.
        let config = config.into_iter().filter(|(name, _)| !name.ends_with("auth")).collect();
        let users = users
            .iter()
            .filter(|(name, _)| !PASSING.contains(&name.as_str()))
            .map(|(name, user)| format!("{name}: {user:?} {:?}", user.passwords))
            .collect();
        Ok(Life { node: server.node.clone(), pod: uid(&server.pod), run, users, config })
    }

    async fn lives(&self, touches: Touches) -> Result<Vec<Life>, String> {
        let mut lives = Vec::new();
        let servers = match touches {
            Touches::Nothing => self.world.cluster_servers(self.name).await,
            Touches::Replica => vec![self.primary().await],
        };
        for server in servers {
            let mut life = self.life(&server).await?;
            if touches == Touches::Replica {
                // What can be changed without a restart is changed before the roll begins.
                (life.users, life.config) = Default::default();
            }
            lives.push(life);
        }
        Ok(lives)
    }

    /// The key is there, and whoever could read it still can.
    pub(super) async fn serves(&self) -> Result<(), String> {
        let read = async {
            let connection = self.primary().await.open_as("app", PASSWORD).await?;
            connection.raw(&["GET", KEY.0]).await
        };
        let value = read.await.map_err(|error| format!("hurt: {error}"))?;
        let there = format!("{value:?}").contains(KEY.1);
        if there { Ok(()) } else { Err(format!("hurt: the key is {value:?}")) }
    }

    fn raw(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<ValkeyCluster>(&());
        Api::namespaced_with(self.world.client.clone(), &self.world.namespace, &resource)
    }

    /// The API server must say no, and why.
    pub(super) async fn refuses(&self, row: &Refused) -> Result<(), String> {
        let user = PatchParams {
            field_manager: Some("a-user".to_owned()),
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        match self.raw().patch(self.name, &user, &Patch::Merge(json!({"spec": row.change}))).await {
            Ok(_) => {
                self.put_back().await;
                Err("was not refused".to_owned())
            }
            Err(kube::Error::Api(status)) => match lacks(&status.message, row.says).as_slice() {
                [] => Ok(()),
                missing => Err(format!("the refusal lacks {missing:?}: {}", status.message)),
            },
            Err(other) => Err(other.to_string()),
        }
    }

    /// It is told, nobody is hurt, and the last good input heals.
    pub(super) async fn reports(&self, row: &Reported) -> Result<(), String> {
        let begun = Instant::now();
        let before = self.lives(row.touches).await?;
        self.hand_in(&row.input).await;
        let told = eventually(IN_TIME, async || {
            let status = self.world.cluster_status(self.name).await;
            match condition(&status, row.condition) {
                Some((state, reason, message))
                    if state == row.alarm()
                        && reason == row.reason
                        && lacks(&message, row.says).is_empty() =>
                {
                    Ok(())
                }
                other => Err(format!("{} is {other:?}", row.condition)),
            }
        });
        let told = told.await.map_err(|seen| format!("not {} with {:?}: {seen}", row.reason, row.says));
        let after = self.lives(row.touches).await.and_then(|after| same(&before, &after));
        let served = self.serves().await;
        let noticed = begun.elapsed();
        let corrected = Instant::now();
        self.put_back().await;
        let healed = self.heals(row).await;
        let last = self.lives(row.touches).await.and_then(|last| same(&before, &last));
        eprintln!(
            "{}: {}: told after {noticed:.1?}, healed after {:.1?}",
            self.name,
            row.what,
            corrected.elapsed()
        );
        told.and(after).and(served).and(healed).and(last).and(self.serves().await)
    }

    async fn hand_in(&self, input: &Input) {
        let secret = passwords_of(self.name);
        match input {
            Input::Spec(change) => self.world.change_cluster(self.name, change.clone()).await,
            Input::Passwords(change) => drop(self.world.patch::<Secret>(&secret, change.clone()).await),
            Input::NoPasswords => self.world.delete::<Secret>(&secret).await,
        }
    }

    /// What was good, as a whole.
    async fn put_back(&self) {
        let name = passwords_of(self.name);
        let password = ByteString(PASSWORD.as_bytes().to_vec());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"app": password}});
        let apply = PatchParams::apply("a-user").force();
        let written = self.world.api::<Secret>().patch(&name, &apply, &Patch::Apply(secret)).await;
        written.expect("should be put back");
        let api = self.raw();
        loop {
            let mut object = api.get(self.name).await.expect("should be there");
            object.data["spec"] = self.good.clone();
            match api.replace(self.name, &PostParams::default(), &object).await {
                Ok(_) => return,
                // The operator wrote the status in between.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("the last good spec of {} was refused: {error}", self.name),
            }
        }
    }

    async fn heals(&self, row: &Reported) -> Result<(), String> {
        let healed = eventually(IN_TIME, async || {
            let cluster = self.world.get::<ValkeyCluster>(self.name).await;
            let status = cluster.status.unwrap_or_default();
            let is = |type_: &str, state: &str| condition(&status, type_).is_some_and(|(is, ..)| is == state);
            let quiet = !is(row.condition, row.alarm());
            let settled = status.phase == Some(ClusterPhase::Ready) && is("Progressing", "False");
            if quiet && settled && status.observed_generation == cluster.metadata.generation {
                Ok(())
            } else {
                Err(format!(
                    "{:?}: {:?}, {:?}",
                    status.phase,
                    status.message,
                    condition(&status, row.condition)
                ))
            }
        });
        healed.await.map_err(|seen| format!("the last good input does not heal: {seen}"))
    }
}

fn same(before: &[Life], after: &[Life]) -> Result<(), String> {
    if before == after { Ok(()) } else { Err(format!("hurt: {before:?} became {after:?}")) }
}

/// The words that a message lacks.
pub(super) fn lacks<'a>(message: &str, says: &[&'a str]) -> Vec<&'a str> {
    says.iter().copied().filter(|word| !message.contains(word)).collect()
}

/// Looks until it is so; what was seen last if time is up.
pub(super) async fn eventually<F>(patience: Duration, mut look: F) -> Result<(), String>
where
    F: AsyncFnMut() -> Result<(), String>,
{
    let begun = Instant::now();
    loop {
        match look().await {
            Err(seen) if begun.elapsed() > patience => return Err(seen),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Ok(()) => return Ok(()),
        }
    }
}
