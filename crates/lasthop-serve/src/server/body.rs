//! Bodies of requests: measurements, scenarios and reports, whose lengths the guard has checked.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tokio::sync::OwnedSemaphorePermit;

use super::{App, failed};

/// Maximum time for receiving a body.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// Received body, with its share of the memory for bodies.
#[derive(Default)]
pub(super) struct Received {
    pub bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

/// Receives a body of at most `most` bytes. It takes memory as data arrives, and no place to compute: a slow client
/// does not block others.
pub(super) async fn receive(app: &App, body: Body, most: usize) -> Result<Received, Response> {
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
        Ok(Ok(())) => Ok(Received { bytes: all, _share: share }),
        Ok(Err(response)) => Err(response),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "timed out waiting for the request body\n").into_response()),
    }
}
