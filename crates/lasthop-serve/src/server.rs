//! HTTP server of the page.

mod body;

use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_core::Stream;
use lasthop_answers::{Answer, Catalogue, Part, Request, request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use self::body::{Received, receive};
use crate::assets::ASSETS;
use crate::guard::{Guard, HostNames};
use crate::site::{self, CONNECTIONS, failed};

/// Number of answers of a kind that are computed at the same time; each uses all cores. Quick answers do not queue
/// behind long ones.
const COMPUTING: usize = 2;
/// Maximum number of requests that wait for a place to compute: as many as there can be connections.
const WAITING: usize = CONNECTIONS;
/// Maximum size of bodies in memory, in bytes; a measurement takes at most an eighth.
const BODIES: usize = 512 << 20;
/// More lines than an answer has, so that a client that does not read blocks nothing.
const LINES: usize = 1024;

/// Paths that take a body, and its maximum length.
static WITH_BODY: [(&str, usize); 3] =
    [with_body(Request::Link), with_body(Request::Advise), with_body(Request::Prove)];

const fn with_body(request: Request) -> (&'static str, usize) {
    match request.largest_body() {
        Some(most) => (request.path(), most),
        None => (request.path(), 0),
    }
}

struct App {
    catalogue: Catalogue,
    /// Lane for the first numbers, a displayed run, or a scenario.
    soon: Lane,
    /// Lane for all runs of a comparison, and for advice.
    long: Lane,
    /// Lane for measurements.
    measuring: Lane,
    /// Remaining bytes of bodies in memory.
    bodies: Arc<Semaphore>,
}

/// Places to compute, with a first-come, first-served queue.
struct Lane {
    computing: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Returns the router of everything that is served, without a socket.
pub fn router(catalogue: Catalogue, names: HostNames) -> Router {
    let bodies = Arc::new(Semaphore::new(BODIES));
    let app = App { catalogue, soon: Lane::new(), long: Lane::new(), measuring: Lane::new(), bodies };
    let mut router = Router::new();
    for request in Request::ALL {
        let answer = move |State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body| async move {
            answer(app, request, query.unwrap_or_default(), body).await.unwrap_or_else(|refused| refused)
        };
        let method = if request.largest_body().is_some() { post(answer) } else { get(answer) };
        router = router.route(request.path(), method);
    }
    site::guarded(router.with_state(Arc::new(app)), &ASSETS, Guard { names, with_body: &WITH_BODY })
}

/// Serves the page to all clients, until the process ends.
///
/// # Errors
///
/// Returns an error if the runtime cannot be started.
pub fn serve(listener: TcpListener, catalogue: Catalogue, names: HostNames) -> std::io::Result<()> {
    // One thread per computation.
    site::serve(listener, router(catalogue, names), 3 * COMPUTING)
}

/// Answers a request. Returns an error if there is no place for it.
async fn answer(app: Arc<App>, request: Request, query: String, body: Body) -> Result<Response, Response> {
    // The guard has checked the length of the body.
    let received = match request.largest_body() {
        Some(most) => receive(&app, body, most).await?,
        None => Received::default(),
    };
    let lane = match request {
        // Computed already.
        Request::Catalogue => return Ok(whole_answer(Answer::json(200, &app.catalogue.to_json()))),
        Request::First | Request::Trace | Request::Scenario | Request::Atlas | Request::Configuration => &app.soon,
        Request::Compare | Request::Advise => &app.long,
        Request::Link | Request::Prove => &app.measuring,
    };
    let permit = lane.permit().await?;
    Ok(aside(permit, app.clone(), request, query, received).await)
}

/// Computes an answer outside of the connections' tasks. The work is stopped when the client disconnects, or when it
/// takes too long.
async fn aside(
    permit: OwnedSemaphorePermit,
    app: Arc<App>,
    request: Request,
    query: String,
    received: Received,
) -> Response {
    let (parts, mut stream) = mpsc::channel(LINES);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let deadline = Instant::now() + request.longest();
        // The client has disconnected, or requests something else: the receiver is dropped.
        let stop = || parts.is_closed() || Instant::now() > deadline;
        request.answer(&app.catalogue, &query, &received.bytes, 0, &stop, &mut |part| {
            let _ = parts.try_send(part);
        });
    });
    match stream.recv().await {
        Some(Part::Whole(answer)) => whole_answer(answer),
        Some(Part::Line(line)) => {
            let body = Body::from_stream(Lines { first: Some(line), rest: stream });
            ([(header::CONTENT_TYPE, request::LINES)], body).into_response()
        }
        None => failed(),
    }
}

fn whole_answer(answer: Answer) -> Response {
    let Answer { status, media_type, file_name, text } = answer;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, [(header::CONTENT_TYPE, media_type)], text).into_response();
    if let Some(Ok(saved)) = file_name.map(|name| HeaderValue::try_from(format!("attachment; filename=\"{name}\""))) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, saved);
    }
    response
}

/// Stream of lines.
struct Lines {
    first: Option<String>,
    rest: mpsc::Receiver<Part>,
}

impl Stream for Lines {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let bytes = |line: String| Some(Ok(Bytes::from(line)));
        if let Some(line) = self.first.take() {
            return Poll::Ready(bytes(line));
        }
        self.rest.poll_recv(context).map(|part| match part? {
            Part::Line(line) => bytes(line),
            Part::Whole(_) => None,
        })
    }
}

impl Lane {
    fn new() -> Self {
        Self { computing: Arc::new(Semaphore::new(COMPUTING)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a permit to compute; returns a refusal if too many requests are waiting.
    fn permit(&self) -> impl Future<Output = Result<OwnedSemaphorePermit, Response>> {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        async {
            let before = self.waiting.fetch_add(1, Ordering::Relaxed);
            let _waits = Waits(&self.waiting);
            if before >= WAITING {
                return Err((StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n").into_response());
            }
            self.computing.clone().acquire_owned().await.map_err(|_| failed())
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
