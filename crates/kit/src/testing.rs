//! A Kubernetes client whose API server is a function: every call is recorded, and the function answers.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::CONTENT_TYPE;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// One call, as it arrives at the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `GET`, `PATCH`, …
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Decoded pairs of the query, in their order.
    pub query: Vec<(String, String)>,
    /// Media type of the body.
    pub content_type: String,
    /// The body, `null` if there is none.
    pub body: Value,
}

impl Call {
    /// Value of a parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What the API server says: a status code and a body.
pub type Answer = (u16, String);

/// An answer with an object.
pub fn object(value: &Value) -> Answer {
    (200, value.to_string())
}

/// An answer that refuses, as the API server words it.
pub fn failure(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    (code, status.to_string())
}

/// Everything that was asked, in its order.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<Call>>>);

impl Calls {
    /// All calls so far.
    pub fn all(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, call: Call) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

/// A client of an API server that answers like this.
pub fn client<F, A>(answer: F) -> (Client, Calls)
where
    F: Fn(Call) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let calls = Calls::default();
    let recorded = calls.clone();
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let (answer, recorded) = (answer.clone(), recorded.clone());
        async move {
            let call = read(request).await;
            recorded.push(call.clone());
            let (code, body) = answer(call).await;
            let mut response = Response::new(Body::from(body.into_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
            Ok::<_, Infallible>(response)
        }
    });
    (Client::new(service, "default"), calls)
}

async fn read(request: Request<Body>) -> Call {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await.unwrap_or_default();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Call {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().split('&').filter_map(pair).collect(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    Some((decode(key), decode(value)))
}

/// `%XX` and `+`, which are all that queries of a client contain.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).unwrap_or(b'%')
            }
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
