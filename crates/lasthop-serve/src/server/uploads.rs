//! Answers of the page of five steps. Measurements, scenarios and reports come in bodies, whose lengths the guard has
//! checked.

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
use tokio::sync::OwnedSemaphorePermit;

use super::{App, aside, failed, json_answer, lines};
use crate::cure::{self, LARGEST_MEASUREMENT, LARGEST_REPORT, LARGEST_SCENARIO};

/// Maximum time for receiving a body.
const BODY_WITHIN: Duration = Duration::from_secs(60);
/// Time after which advice rests on the runs so far.
const LONGEST_ADVICE: Duration = Duration::from_secs(180);

/// Answers with the files that a cure installs.
pub(super) async fn configuration_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let permit = match app.soon.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    answer(aside(permit, move |_| cure::configuration(&query.unwrap_or_default())).await)
}

/// Answers with the evaluation of a measured link.
pub(super) async fn link_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    let sent = match whole(&app, body, LARGEST_MEASUREMENT).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    let permit = match app.measuring.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    answer(aside(permit, move |stop| cure::link(&query.unwrap_or_default(), &sent.bytes, stop)).await)
}

/// Answers with advice on a link, while cures are simulated.
pub(super) async fn advise_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    let sent = match whole(&app, body, LARGEST_SCENARIO).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    let permit = match app.long.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    lines(permit, LONGEST_ADVICE, move |stop, sink| {
        cure::advise(&query.unwrap_or_default(), &sent.bytes, 0, stop, sink)
    })
    .await
}

/// Answers with the comparison of a report and a promise.
pub(super) async fn prove_answer(State(app): State<Arc<App>>, RawQuery(query): RawQuery, body: Body) -> Response {
    let sent = match whole(&app, body, LARGEST_REPORT).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    let permit = match app.measuring.permit().await {
        Ok(permit) => permit,
        Err(response) => return response,
    };
    answer(aside(permit, move |_| cure::prove(&query.unwrap_or_default(), &sent.bytes)).await)
}

fn answer(value: Result<Value, Response>) -> Response {
    value.map_or_else(|response| response, |value| json_answer(StatusCode::OK, &value))
}

/// Received body, with its share of the memory for bodies.
struct Sent {
    bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

/// Receives a body of at most `most` bytes. It takes memory as data arrives, and no place to compute: a slow client
/// does not block others.
async fn whole(app: &App, body: Body, most: usize) -> Result<Sent, Response> {
    let mut stream = body.into_data_stream();
    let (mut all, mut share) = (Vec::new(), None::<OwnedSemaphorePermit>);
    let read = async {
        while let Some(part) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
            let part = part.map_err(|_| (StatusCode::BAD_REQUEST, "the body ended early\n").into_response())?;
            if all.len() + part.len() > most {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "request body too large\n").into_response());
            }
            let bytes = part.len() as u32;
            let more = app.bodies.clone().acquire_many_owned(bytes).await.map_err(|_| failed())?;
            match &mut share {
                Some(share) => share.merge(more),
                None => share = Some(more),
            }
            all.extend_from_slice(&part);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_WITHIN, read).await {
        Ok(Ok(())) => Ok(Sent { bytes: all, _share: share }),
        Ok(Err(response)) => Err(response),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "timed out waiting for the request body\n").into_response()),
    }
}
