//! Answers of the page of five steps. Measurements, scenarios and reports come in bodies, whose lengths the guard has looked at.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::Value;

use super::{App, aside, json_answer, lines};
use crate::cure::{self, LARGEST_MEASUREMENT, LARGEST_REPORT, LARGEST_SCENARIO};

/// A body comes within this time, once there is a place to compute.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// An advice that takes longer rests on the runs that there are.
const LONGEST_ADVICE: Duration = Duration::from_secs(180);

/// What a cure installs.
pub(super) async fn configuration_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let permit = match app.soon.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    answer(aside(permit, move |_| cure::configuration(&query.unwrap_or_default())).await)
}

/// The link that was measured.
pub(super) async fn link_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    // First the place, so that no more measurements are in memory than there are places.
    let permit = match app.measuring.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    let bytes = match whole(body, LARGEST_MEASUREMENT).await {
        Ok(bytes) => bytes,
        Err(response) => return response,
    };
    answer(aside(permit, move |stop| cure::link(&query.unwrap_or_default(), &bytes, stop)).await)
}

/// The cures on a link, as they are simulated.
pub(super) async fn advise_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    let bytes = match whole(body, LARGEST_SCENARIO).await {
        Ok(bytes) => bytes,
        Err(response) => return response,
    };
    let permit = match app.long.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    lines(permit, LONGEST_ADVICE, move |stop, sink| cure::advise(&query.unwrap_or_default(), &bytes, 0, stop, sink))
        .await
}

/// A report beside a promise.
pub(super) async fn prove_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    let permit = match app.measuring.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    let bytes = match whole(body, LARGEST_REPORT).await {
        Ok(bytes) => bytes,
        Err(response) => return response,
    };
    answer(aside(permit, move |_| cure::prove(&query.unwrap_or_default(), &bytes)).await)
}

fn answer(value: Result<Value, Response>) -> Response {
    value.map_or_else(|response| response, |value| json_answer(StatusCode::OK, &value))
}

/// A body of `most` bytes at the most, all of it.
async fn whole(body: Body, most: usize) -> Result<Vec<u8>, Response> {
    let mut stream = body.into_data_stream();
    let mut all = Vec::new();
    let read = async {
        while let Some(part) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            let part = part.map_err(|_| (StatusCode::BAD_REQUEST, "the body ended early\n").into_response())?;
            if all.len() + part.len() > most {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "more than a page takes\n").into_response());
            }
            all.extend_from_slice(&part);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_WITHIN, read).await {
        Ok(Ok(())) => Ok(all),
        Ok(Err(response)) => Err(response),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not come in time\n").into_response()),
    }
}
