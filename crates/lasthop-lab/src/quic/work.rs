//! Applications at both ends of a QUIC connection: those of the simulator, with bytes that can be checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use lasthop_proto::packet::Side;
use lasthop_proto::time::Instant;
use lasthop_sim::network::{Exchange, Task};
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, WriteError};
use tokio::task::JoinSet;

use super::tally::Tally;
use crate::host::pattern;
use crate::transfer::Received;
use lasthop_sys::clock::Clock;

/// Number of bytes written at once.
const CHUNK: usize = 64 * 1024;
/// Marks that all bytes were correct.
const NONE: u64 = u64::MAX;

/// Data that one end has received so far.
pub struct Meter {
    clock: Clock,
    /// Byte count of the whole run, if this end's bytes belong to it.
    run: Option<Arc<AtomicU64>>,
    bytes: AtomicU64,
    /// Time of the last byte, in nanoseconds.
    end: AtomicU64,
    altered: AtomicU64,
    aborted: AtomicBool,
}

impl Meter {
    /// Creates a meter of an end that starts counting at `start`.
    pub fn new(clock: Clock, run: Option<Arc<AtomicU64>>, start: Instant) -> Self {
        Self {
            clock,
            run,
            bytes: AtomicU64::new(0),
            end: AtomicU64::new(start.as_nanos()),
            altered: AtomicU64::new(NONE),
            aborted: AtomicBool::new(false),
        }
    }

    /// Counts bytes of a stream starting at `offset`.
    fn take(&self, offset: u64, bytes: &[u8]) {
        if let Some(at) = pattern::mismatch(offset, bytes) {
            self.altered.fetch_min(at, Ordering::Relaxed);
        }
        // Bytes of requests do not count as delivered data of the flow.
        if let Some(run) = &self.run {
            run.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.end.fetch_max(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
    }

    /// Records the end of the connection.
    pub fn end(&self, orderly: bool) {
        self.aborted.store(!orderly, Ordering::Relaxed);
    }

    /// Returns the data received so far. The caller determines whether it is complete.
    pub fn received(&self) -> Received {
        let altered = self.altered.load(Ordering::Relaxed);
        Received {
            bytes: self.bytes.load(Ordering::Relaxed),
            end: Instant::from_nanos(self.end.load(Ordering::Relaxed)),
            complete: false,
            aborted: self.aborted.load(Ordering::Relaxed),
            altered: (altered != NONE).then_some(altered),
            call: None,
        }
    }
}

/// Error of an end that could not complete its task.
#[derive(Debug)]
pub struct Unfinished;

impl From<ConnectionError> for Unfinished {
    fn from(_: ConnectionError) -> Self {
        Self
    }
}

impl From<WriteError> for Unfinished {
    fn from(_: WriteError) -> Self {
        Self
    }
}

impl From<ReadError> for Unfinished {
    fn from(_: ReadError) -> Self {
        Self
    }
}

/// Sends `bytes` on a stream of their own, and waits until all are acknowledged.
pub async fn send_bulk(connection: &Connection, bytes: u64, tally: &Tally) -> Result<(), Unfinished> {
    let mut stream = connection.open_uni().await?;
    write(&mut stream, bytes).await?;
    acknowledged(stream, Side::Initiator, tally).await
}

/// Writes `bytes` bytes and the stream's end.
async fn write(stream: &mut SendStream, bytes: u64) -> Result<(), Unfinished> {
    let mut chunk = vec![0; CHUNK];
    let mut sent = 0;
    while sent < bytes {
        let len = usize::try_from(bytes - sent).unwrap_or(CHUNK).min(CHUNK);
        pattern::fill(sent, &mut chunk[..len]);
        stream.write_all(&chunk[..len]).await?;
        sent += len as u64;
    }
    stream.finish().map_err(|_| Unfinished)
}

/// Waits until the peer has received all of the stream that `side` sent.
async fn acknowledged(stream: SendStream, side: Side, tally: &Tally) -> Result<(), Unfinished> {
    let acknowledged = match stream.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(Unfinished),
    };
    tally.forget(side, stream.id().into());
    acknowledged
}

/// Reads a stream to its end. Returns its length.
async fn read(mut stream: RecvStream, meter: &Meter) -> Result<u64, Unfinished> {
    let mut offset = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        meter.take(offset, &chunk.bytes);
        offset += chunk.bytes.len() as u64;
    }
    Ok(offset)
}

/// Sends requests, each on a stream of its own, and waits for their responses.
pub async fn ask(
    connection: &Connection,
    exchange: Exchange,
    meter: &Arc<Meter>,
    tally: &Arc<Tally>,
) -> Result<(), Unfinished> {
    let begun = Arc::new(AtomicU32::new(0));
    let mut askers = JoinSet::new();
    for _ in 0..exchange.parallel.min(exchange.requests) {
        let (connection, begun) = (connection.clone(), begun.clone());
        let (meter, tally) = (meter.clone(), tally.clone());
        askers.spawn(async move {
            while begun.fetch_add(1, Ordering::Relaxed) < exchange.requests {
                let (mut request, response) = connection.open_bi().await?;
                write(&mut request, exchange.request).await?;
                if read(response, &meter).await? != exchange.response {
                    return Err(Unfinished);
                }
                tally.forget(Side::Initiator, request.id().into());
            }
            Ok(())
        });
    }
    while let Some(done) = askers.join_next().await {
        done.map_err(|_| Unfinished)??;
    }
    Ok(())
}

/// Runs the server's part. Returns the reason for the end of the connection.
pub async fn serve(connection: &Connection, task: Task, meter: &Arc<Meter>, tally: &Arc<Tally>) -> ConnectionError {
    match task {
        Task::Bulk { .. } => {
            if let Ok(stream) = connection.accept_uni().await {
                // The meter shows missing data.
                let _ = read(stream, meter).await;
            }
        }
        Task::Exchange(exchange) => {
            let mut answers = JoinSet::new();
            while let Ok((response, request)) = connection.accept_bi().await {
                answers.spawn(answer(request, response, exchange, meter.clone(), tally.clone()));
                // Frees the state of completed tasks.
                while answers.try_join_next().is_some() {}
            }
        }
    }
    connection.closed().await
}

async fn answer(
    request: RecvStream,
    mut response: SendStream,
    exchange: Exchange,
    meter: Arc<Meter>,
    tally: Arc<Tally>,
) {
    if matches!(read(request, &meter).await, Ok(bytes) if bytes == exchange.request)
        && write(&mut response, exchange.response).await.is_ok()
    {
        // The result is not needed.
        let _ = acknowledged(response, Side::Acceptor, &tally).await;
    }
}
