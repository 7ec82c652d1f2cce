//! The page and its answers over HTTP.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::board::Board;
use crate::assets::STATUS_ASSETS;
use crate::guard::{Guard, HostNames};
use crate::site::{self, json_answer};

/// Returns the router of the page, without a socket.
pub fn router(board: Arc<Board>, names: HostNames) -> Router {
    let router = Router::new().route("/api/status", get(status_answer)).with_state(board);
    site::guarded(router, &STATUS_ASSETS, Guard { names, with_body: &[] })
}

/// Serves the page to all clients, until the process ends.
///
/// # Errors
///
/// Returns an error if the runtime cannot be started.
pub fn serve(listener: TcpListener, board: Arc<Board>, names: HostNames) -> std::io::Result<()> {
    site::serve(listener, router(board, names), 1)
}

async fn status_answer(State(board): State<Arc<Board>>, RawQuery(query): RawQuery) -> Response {
    let (mut run, mut after) = (None, 0);
    for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let number = value.parse();
        match (key.as_ref(), number) {
            ("run", Ok(number)) => run = Some(number),
            ("after", Ok(number)) => after = number,
            _ => {
                let text = "expected run=NUMBER and after=NUMBER, as in the page's requests\n";
                return (StatusCode::BAD_REQUEST, text).into_response();
            }
        }
    }
    json_answer(StatusCode::OK, &board.to_json(run, after, Instant::now()))
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
