//! The server: bounded in connections, request size and time. However slow, broken or silent its clients are, they
//! take no more than that, and whoever comes next is served.

use super::{Format, Snapshot};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time; one more takes the place of the oldest.
    pub connections: usize,
    /// From the connection to the end of the request's head.
    pub head: Duration,
    /// From the connection to the end of the answer.
    pub whole: Duration,
}

/// Bytes of a request's head; the least that the library allows.
const REQUEST_BYTES: usize = 8192;

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 32, head: Duration::from_secs(5), whole: Duration::from_secs(15) }
    }
}

/// What became of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// They ended in order.
    pub answered: u64,
    /// What they sent was no request.
    pub refused: u64,
    /// They had to make room for newer ones.
    pub evicted: u64,
    /// They took too long.
    pub timed_out: u64,
}

#[derive(Debug, Default)]
struct Counters {
    answered: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    timed_out: AtomicU64,
}

/// Shows the newest snapshot to whoever asks.
#[derive(Clone, Debug)]
pub struct Server {
    current: Arc<Mutex<Arc<Snapshot>>>,
    counters: Arc<Counters>,
    limits: Limits,
}

impl Server {
    /// A server that shows `snapshot`.
    #[must_use]
    pub fn new(snapshot: Snapshot, limits: Limits) -> Self {
        let current = Arc::new(Mutex::new(Arc::new(snapshot)));
        Self { current, counters: Arc::default(), limits }
    }

    /// From now on shows `snapshot`.
    pub fn show(&self, snapshot: Snapshot) {
        let next = Arc::new(snapshot);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// What became of connections so far.
    #[must_use]
    pub fn served(&self) -> Served {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Served {
            answered: count(&self.counters.answered),
            refused: count(&self.counters.refused),
            evicted: count(&self.counters.evicted),
            timed_out: count(&self.counters.timed_out),
        }
    }

    /// Serves until `stop` is there.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
        loop {
            let stream = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(_) => {
                        // No file descriptor is left, or the client has gone already.
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
            };
            open.retain(|task| !task.is_finished());
            while open.len() >= self.limits.connections {
                if let Some(oldest) = open.pop_front() {
                    oldest.abort();
                    // Its socket is closed before another is served.
                    if oldest.await.is_err() {
                        self.counters.evicted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            open.push_back(tokio::spawn(self.clone().connection(stream)));
        }
        open.iter().for_each(JoinHandle::abort);
    }

    /// One connection: one request, one answer.
    async fn connection(self, stream: TcpStream) {
        let local = stream.local_addr().ok();
        let answer = service_fn(|request: Request<Incoming>| {
            let response = self.answer(&request, local);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .keep_alive(false)
            .max_buf_size(REQUEST_BYTES)
            .serve_connection(TokioIo::new(stream), answer);
        let counter = match tokio::time::timeout(self.limits.whole, connection).await {
            Ok(Ok(())) => &self.counters.answered,
            Ok(Err(error)) if error.is_timeout() => &self.counters.timed_out,
            Ok(Err(_)) => &self.counters.refused,
            Err(_) => &self.counters.timed_out,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn answer(&self, request: &Request<Incoming>, local: Option<SocketAddr>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
                let format = Format::accepted(accept.unwrap_or_default());
                let snapshot = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let mut response = Response::new(Full::new(snapshot.render(format)));
                let content_type = HeaderValue::from_static(format.content_type());
                response.headers_mut().insert(CONTENT_TYPE, content_type);
                response
            }
            "/-/healthy" => plain(StatusCode::OK, "memslot serves\n".into()),
            "/" => {
                let address = local.map(|local| format!("http://{local}")).unwrap_or_default();
                plain(StatusCode::OK, format!("memslot: the figures are at {address}/metrics\n"))
            }
            _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /-/healthy\n".into()),
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
