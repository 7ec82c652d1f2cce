//! Server of a site: embedded files, access control and connections, independently of what its pages show.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;

use crate::assets::Asset;
use crate::connections::{Answer, Connections};
use crate::guard::{Guard, guard};

/// Maximum number of connections; a further connection replaces one of these ([`Connections`]).
pub(crate) const CONNECTIONS: usize = 64;
/// Maximum time and size of a request line with its headers.
pub(crate) const HEADERS_WITHIN: Duration = Duration::from_secs(5);
const LONGEST_HEADERS: usize = 32 << 10;

/// Adds embedded files to a router, and protects all of it with `access`.
pub(crate) fn guarded(mut router: Router, assets: &'static [Asset], access: Guard) -> Router {
    for asset in assets {
        let answer = || async { ([(header::CONTENT_TYPE, asset.media_type)], asset.text) };
        router = router.route(asset.path, get(answer));
    }
    router.layer(from_fn_with_state(access, guard))
}

/// Listens at `address`.
///
/// # Errors
///
/// Returns an error if the address is in use, or does not belong to this machine.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves a site to all clients, until the process ends. At most `blocking` computations run outside of the
/// connections' tasks.
///
/// # Errors
///
/// Returns an error if the runtime cannot be started.
pub(crate) fn serve(listener: TcpListener, router: Router, blocking: usize) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(blocking)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accept(listener, router).await;
        Ok(())
    })
}

async fn accept(listener: tokio::net::TcpListener, router: Router) {
    let connections = Connections::new(CONNECTIONS);
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(LONGEST_HEADERS);
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            // Out of descriptors, or the peer has disconnected already.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        connections.admit(peer.ip(), |place| {
            let router = TowerToHyperService::new(router.clone());
            let service = service_fn(move |request| {
                let (answering, answer) = (place.answer(), router.call(request));
                async { answer.await.map(|answer| answer.map(|body| Answer { body, _answering: answering })) }
            });
            let connection = http.serve_connection(TokioIo::new(socket), service);
            tokio::spawn(async move {
                // Errors of a connection are of no interest.
                let _ = connection.await;
            })
            .abort_handle()
        });
    }
}

/// Answers with a value as JSON.
pub(crate) fn json_answer(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => (status, [(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(_) => failed(),
    }
}

/// Answers that a computation failed.
pub(crate) fn failed() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "the computation failed\n").into_response()
}
