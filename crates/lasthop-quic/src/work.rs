//! Applications: the data that each end writes to streams, and the processing of arriving data.

use std::collections::BTreeMap;

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamEvent, StreamId, WriteError};

use crate::config::Task;

/// Payload: zeros from a shared buffer.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Application of one end.
#[derive(Debug)]
pub struct Work {
    task: Task,
    /// Bytes yet to be written, by stream.
    writing: BTreeMap<StreamId, u64>,
    /// Number of requests started.
    begun: u32,
    /// Number of streams that arrived completely.
    arrived: u32,
    /// Number of this end's streams that the peer has acknowledged completely.
    acknowledged: u32,
    /// Number of bytes that arrived.
    pub received: u64,
}

/// Result of reading a stream.
struct Read {
    bytes: u64,
    ended: Ended,
}

/// End of a stream.
#[derive(PartialEq, Eq)]
enum Ended {
    Yes,
    No,
}

impl Work {
    pub fn new(task: Task) -> Self {
        Self { task, writing: BTreeMap::new(), begun: 0, arrived: 0, acknowledged: 0, received: 0 }
    }

    /// Starts writing at the initiator's end.
    pub fn begin(&mut self, connection: &mut Connection) {
        match self.task {
            Task::Bulk { bytes } => self.open(connection, Dir::Uni, bytes),
            Task::Exchange(exchange) => {
                while self.begun < exchange.requests && self.begun - self.arrived < exchange.parallel {
                    let begun = self.begun;
                    self.open(connection, Dir::Bi, exchange.request);
                    if begun == self.begun {
                        return;
                    }
                }
            }
        }
    }

    fn open(&mut self, connection: &mut Connection, direction: Dir, bytes: u64) {
        if let Some(id) = connection.streams().open(direction) {
            self.begun += 1;
            self.writing.insert(id, bytes);
            self.write(connection, id);
        }
    }

    /// Handles an event; returns the stream that the peer has now acknowledged completely.
    pub fn on_event(&mut self, connection: &mut Connection, event: StreamEvent) -> Option<StreamId> {
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = connection.streams().accept(dir) {
                    self.on_readable(connection, id);
                }
            }
            StreamEvent::Readable { id } => self.on_readable(connection, id),
            StreamEvent::Writable { id } => self.write(connection, id),
            StreamEvent::Available { .. } => {
                if connection.side().is_client() {
                    self.begin_more(connection);
                }
            }
            StreamEvent::Finished { id } => {
                self.acknowledged += 1;
                return Some(id);
            }
            StreamEvent::Stopped { id, .. } => {
                self.writing.remove(&id);
            }
        }
        None
    }

    fn begin_more(&mut self, connection: &mut Connection) {
        if let Task::Exchange(_) = self.task {
            self.begin(connection);
        }
    }

    fn on_readable(&mut self, connection: &mut Connection, id: StreamId) {
        let Read { bytes, ended } = read(connection, id);
        self.received += bytes;
        if ended == Ended::No {
            return;
        }
        self.arrived += 1;
        let Task::Exchange(exchange) = self.task else { return };
        if connection.side().is_client() {
            self.begin(connection);
        } else {
            self.writing.insert(id, exchange.response);
            self.write(connection, id);
        }
    }

    /// Writes as much as the connection accepts.
    fn write(&mut self, connection: &mut Connection, id: StreamId) {
        let Some(left) = self.writing.get_mut(&id) else { return };
        while *left > 0 {
            let len = (*left).min(ZEROS.len() as u64) as usize;
            match connection.send_stream(id).write_chunks(&mut [Bytes::from_static(&ZEROS[..len])]) {
                Ok(written) => *left -= written.bytes as u64,
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => break,
            }
        }
        self.writing.remove(&id);
        // No end has reset it; a peer that stopped reading was handled above.
        let _ = connection.send_stream(id).finish();
    }

    /// Returns whether the end on that side of the connection has sent and received everything.
    pub fn through(&self, side: quinn_proto::Side) -> bool {
        match self.task {
            Task::Bulk { .. } if side.is_client() => self.acknowledged == 1,
            Task::Bulk { .. } => self.arrived == 1,
            Task::Exchange(exchange) => self.arrived == exchange.requests,
        }
    }
}

/// Reads all available data, in order.
fn read(connection: &mut Connection, id: StreamId) -> Read {
    let mut bytes = 0;
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Read { bytes, ended: Ended::No } };
    let ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            Ok(None) | Err(ReadError::Reset(_)) => break Ended::Yes,
            Err(ReadError::Blocked) => break Ended::No,
        }
    };
    // Updates for the peer are sent with the next packets, which are polled in any case.
    let _ = chunks.finalize();
    Read { bytes, ended }
}
