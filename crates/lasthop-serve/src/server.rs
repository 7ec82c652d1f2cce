//! HTTP server of the page.

mod uploads;

use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::answers::{self, Extent};
use crate::assets::ASSETS;
use crate::catalogue::Catalogue;
use crate::cure::{LARGEST_MEASUREMENT, LARGEST_REPORT, LARGEST_SCENARIO};
use crate::guard::{Guard, HostNames};
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::site::{self, CONNECTIONS, failed, json_answer};

/// Number of answers of a kind that are computed at the same time; each uses all cores. Quick answers do not queue
/// behind long ones.
const COMPUTING: usize = 2;
/// Maximum number of requests that wait for a place to compute: as many as there can be connections.
const WAITING: usize = CONNECTIONS;
/// Time after which an answer is cut short.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);
/// Maximum size of bodies in memory, in bytes; a measurement takes at most an eighth.
const BODIES: usize = 512 << 20;
/// More lines than an answer has, so that a client that does not read blocks nothing.
const LINES: usize = 1024;

/// Paths that take a body, and its maximum length.
const WITH_BODY: [(&str, usize); 3] =
    [("/api/link", LARGEST_MEASUREMENT), ("/api/advise", LARGEST_SCENARIO), ("/api/prove", LARGEST_REPORT)];

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
    let router = Router::new()
        .route("/api/catalogue", get(catalogue_answer))
        .route("/api/first", get(|app, query| compare_answer(app, query, Extent::First)))
        .route("/api/compare", get(|app, query| compare_answer(app, query, Extent::All)))
        .route("/api/trace", get(trace_answer))
        .route("/api/scenario", get(scenario_answer))
        .route("/api/configuration", get(uploads::configuration_answer))
        .route("/api/link", post(uploads::link_answer))
        .route("/api/advise", post(uploads::advise_answer))
        .route("/api/prove", post(uploads::prove_answer));
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

async fn catalogue_answer(State(app): State<Arc<App>>) -> Response {
    json_answer(StatusCode::OK, &app.catalogue.to_json())
}

async fn scenario_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let plan = compute(&app, query, |plan, _| Ok((plan.name.clone(), plan.scenario_file()))).await;
    match plan {
        Ok((name, text)) => {
            let stem = std::path::Path::new(&name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
            let stem: String = stem.unwrap_or_default().chars().map(plain).collect();
            let headers = [
                (header::CONTENT_TYPE, "application/toml; charset=utf-8".to_owned()),
                (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{stem}.toml\"")),
            ];
            (headers, text).into_response()
        }
        Err(response) => response,
    }
}

async fn trace_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    match compute(&app, query, |plan, stop| answers::trace(plan, stop)).await {
        Ok(Some(value)) => json_answer(StatusCode::OK, &value),
        Ok(None) => (StatusCode::SERVICE_UNAVAILABLE, "this run takes too long for a page\n").into_response(),
        Err(response) => response,
    }
}

async fn compare_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, extent: Extent) -> Response {
    let lane = match extent {
        Extent::First => &app.soon,
        Extent::All => &app.long,
    };
    let permit = match lane.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    let app = app.clone();
    lines(permit, LONGEST_ANSWER, move |stop, sink| {
        let plan = Plan::read(&app.catalogue, query.as_deref().unwrap_or_default())?;
        answers::compare(&plan, extent, 0, stop, sink)
    })
    .await
}

/// Runs `work` outside of the connections' tasks, and answers with a line of JSON for each value that it produces. The
/// work is stopped when the client disconnects, and after `longest`.
async fn lines(
    permit: OwnedSemaphorePermit,
    longest: Duration,
    work: impl FnOnce(&(dyn Fn() -> bool + Sync), &mut (dyn FnMut(Value) + Send)) -> Result<(), Refusal> + Send + 'static,
) -> Response {
    let (lines, stream) = mpsc::channel(LINES);
    let (begun, beginning) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut begun = Some(begun);
        let deadline = Instant::now() + longest;
        // The client has disconnected, or requests something else: the receiver is dropped.
        let stop = || lines.is_closed() || Instant::now() > deadline;
        let done = work(&stop, &mut |line| {
            if let Some(begun) = begun.take() {
                let _ = begun.send(Ok(()));
            }
            let _ = lines.try_send(Bytes::from(format!("{line}\n")));
        });
        match (done, begun) {
            (Err(refusal), Some(begun)) => drop(begun.send(Err(refusal))),
            // The answer has begun, so the refusal is its last line.
            (Err(refusal), None) => drop(lines.try_send(Bytes::from(format!("{}\n", json!({ "error": refusal }))))),
            (Ok(()), _) => {}
        }
    });
    match beginning.await {
        Ok(Ok(())) => {
            let body = Body::from_stream(Lines(stream));
            ([(header::CONTENT_TYPE, "application/x-ndjson; charset=utf-8")], body).into_response()
        }
        Ok(Err(refusal)) => refused(&refusal),
        Err(_) => failed(),
    }
}

/// Stream of lines.
struct Lines(mpsc::Receiver<Bytes>);

impl Stream for Lines {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|line| line.map(Ok))
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

/// Parses the plan of a request and runs `work` with it, like [`aside`].
async fn compute<T: Send + 'static>(
    app: &Arc<App>,
    query: Option<String>,
    work: impl FnOnce(&Plan, &dyn Fn() -> bool) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Response> {
    let permit = app.soon.permit().await?;
    let app = app.clone();
    aside(permit, move |stop| work(&Plan::read(&app.catalogue, query.as_deref().unwrap_or_default())?, stop)).await
}

/// Runs `work` outside of the connections' tasks. It is stopped when the client disconnects, or when it takes too long.
async fn aside<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Response> {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let gone = Gone(Arc::default());
    let stopped = gone.0.clone();
    let done = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let deadline = Instant::now() + LONGEST_ANSWER;
        let stop = || stopped.load(Ordering::Relaxed) || Instant::now() > deadline;
        work(&stop)
    });
    done.await.map_err(|_| failed())?.map_err(|refusal| refused(&refusal))
}

fn refused(refusal: &Refusal) -> Response {
    json_answer(StatusCode::BAD_REQUEST, &json!({ "error": refusal }))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
