//! The place a test works in: the cluster, a namespace of its own under the *restricted* policy, kubectl. A test that
//! fails leaves its namespace and a folder with everything useful; one that passes removes its namespace.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Once};

use devcluster::{Cluster, Target};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

/// See the module.
#[derive(Clone)]
pub struct World {
    /// A client with all rights.
    pub client: Client,
    /// The test's namespace.
    pub namespace: String,
    /// Which cluster it is.
    pub target: Target,
    /// Open ways to ports of pods; they end with the test.
    forwards: Arc<Mutex<Vec<Child>>>,
}

/// Run a test in a world of its own.
pub async fn run<F>(name: &str, test: F)
where
    F: AsyncFnOnce(&World),
{
    let world = World::open(name).await;
    let result = AssertUnwindSafe(test(&world)).catch_unwind().await;
    match result {
        Ok(()) => world.close().await,
        Err(panic) => {
            world.collect(name).await;
            std::panic::resume_unwind(panic);
        }
    }
}

impl World {
    /// A namespace that did not exist before.
    pub async fn open(name: &str) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let target = Target::find()
            .expect("should be able to look for a cluster")
            .expect("there should be a cluster: run `make cluster-up deploy`, or set KUBECONFIG");
        let client = devcluster::client(&target.kubeconfig()).await.expect("should reach the cluster");
        let short: String = name.chars().take(40).collect::<String>().replace('_', "-");
        let moment = jiff::Timestamp::now().as_millisecond() % 10_000_000;
        let namespace = format!("{}-{moment}", short.trim_matches('-'));
        let world = Self { client, namespace, target, forwards: Arc::default() };
        world.create_namespace().await;
        world
    }

    async fn create_namespace(&self) {
        let body: Namespace = serde_json::from_value(json!({"metadata": {
            "name": self.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted", "valkey.io/e2e": "true"},
        }}))
        .expect("should be a namespace");
        let api = Api::<Namespace>::all(self.client.clone());
        api.create(&PostParams::default(), &body).await.expect("should create the namespace");
    }

    /// Remove the namespace; Kubernetes empties it in the background.
    pub async fn close(&self) {
        let api = Api::<Namespace>::all(self.client.clone());
        api.delete(&self.namespace, &DeleteParams::default()).await.expect("should delete the namespace");
    }

    /// The local cluster, for tests that break machines.
    pub fn local(&self) -> &Cluster {
        match &self.target {
            Target::Local(cluster) => cluster,
            Target::External(_) => panic!("this test disturbs machines: it runs on the local cluster only"),
        }
    }

    async fn collect(&self, name: &str) {
        let Target::Local(cluster) = &self.target else { return };
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/e2e-failures").join(name);
        let wanted = [self.namespace.as_str(), crate::operator::NAMESPACE];
        match cluster.collect(&folder, &wanted).await {
            Ok(()) => eprintln!("{name}: logs, events and objects are in {}", folder.display()),
            Err(error) => eprintln!("{name}: failed to collect: {error}"),
        }
    }

    /// Run kubectl in the test's namespace and return what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let (ok, output) = self.try_kubectl(arguments).await;
        assert!(ok, "kubectl {} failed: {output}", arguments.join(" "));
        output
    }

    /// Run kubectl; whether it succeeded, and what it printed.
    pub async fn try_kubectl(&self, arguments: &[&str]) -> (bool, String) {
        let mut kubectl = self.kubectl_command();
        let output = kubectl
            .args(["-n", &self.namespace])
            .args(arguments)
            .output()
            .await
            .expect("kubectl should start");
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), text)
    }

    fn kubectl_command(&self) -> Command {
        match &self.target {
            Target::Local(cluster) => cluster.kubectl(),
            Target::External(path) => {
                let mut command = Command::new("kubectl");
                command.env("KUBECONFIG", path).kill_on_drop(true);
                command
            }
        }
    }

    /// Make a port of a pod reachable on this machine; returns the port here.
    pub async fn forward(&self, pod: &str, port: u16) -> u16 {
        let mut child = self
            .kubectl_command()
            .args(["-n", &self.namespace, "port-forward", &format!("pod/{pod}"), &format!(":{port}")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("kubectl should start");
        let output = child.stdout.take().expect("its output should be ours");
        let mut lines = BufReader::new(output).lines();
        let line = lines.next_line().await.expect("should read").unwrap_or_default();
        // It prints a line for each connection, and would end if nobody read them.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        // `Forwarding from 127.0.0.1:40123 -> 6379`
        let local = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split_once(' '));
        let local = local.and_then(|(port, _)| port.parse().ok());
        self.forwards.lock().await.push(child);
        local.unwrap_or_else(|| panic!("kubectl port-forward said {line:?}"))
    }

    /// Run a command in the server's container of a pod.
    pub async fn exec(&self, pod: &str, command: &[&str]) -> String {
        let mut arguments = vec!["exec", pod, "-c", "valkey", "--"];
        arguments.extend(command);
        self.kubectl(&arguments).await.trim().to_owned()
    }
}
