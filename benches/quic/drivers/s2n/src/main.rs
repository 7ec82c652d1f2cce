//! Sends or receives bulk data over s2n-quic with its default configuration.
//!
//! `bulk-s2n server ADDRESS CERT KEY`, `bulk-s2n client ADDRESS down|up BYTES CERT`

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use s2n_quic::client::Connect;
use s2n_quic::provider::tls::rustls;
use s2n_quic::stream::{ReceiveStream, SendStream};
use s2n_quic::{Client, Server};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ALPN: [&str; 1] = ["perf"];
static BLOCK: [u8; 65536] = [0; 65536];

#[tokio::main]
async fn main() -> Fallible<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address, cert, key] => serve(address.parse()?, cert, key).await,
        ["client", address, way, bytes, cert] => transfer(address.parse()?, way == "up", bytes.parse()?, cert).await,
        _ => Err("usage: bulk-s2n server ADDRESS CERT KEY | client ADDRESS down|up BYTES CERT".into()),
    }
}

async fn serve(address: SocketAddr, cert: &str, key: &str) -> Fallible<()> {
    let tls = rustls::Server::builder()
        .with_certificate(Path::new(cert), Path::new(key))?
        .with_application_protocols(ALPN.into_iter())?
        .build()?;
    let mut server = Server::builder().with_tls(tls)?.with_io(address)?.start()?;
    println!("ready");
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
                let (receive, send) = stream.split();
                tokio::spawn(answer(send, receive));
            }
        });
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut receive: ReceiveStream) -> Fallible<()> {
    let mut head = Vec::new();
    while let Some(data) = receive.receive().await? {
        // Only the length is needed; the rest is counted by nobody.
        head.extend(data.iter().take(8_usize.saturating_sub(head.len())));
    }
    let head: [u8; 8] = head[..].try_into()?;
    fill(&mut send, u64::from_be_bytes(head)).await?;
    send.close().await?;
    Ok(())
}

async fn transfer(address: SocketAddr, up: bool, bytes: u64, cert: &str) -> Fallible<()> {
    let tls = rustls::Client::builder()
        .with_certificate(Path::new(cert))?
        .with_application_protocols(ALPN.into_iter())?
        .with_key_logging()?
        .build()?;
    let client = Client::builder().with_tls(tls)?.with_io("0.0.0.0:0")?.start()?;
    let mut connection = client.connect(Connect::new(address).with_server_name("bulk.test")).await?;
    let (mut receive, mut send) = connection.open_bidirectional_stream().await?.split();
    let head = if up { 0 } else { bytes }.to_be_bytes().to_vec();
    send.send(head.into()).await?;
    if up {
        fill(&mut send, bytes).await?;
    }
    send.finish()?;
    while receive.receive().await?.is_some() {}
    connection.close(0u32.into());
    Ok(())
}

async fn fill(send: &mut SendStream, mut bytes: u64) -> Fallible<()> {
    while bytes > 0 {
        let next = bytes.min(BLOCK.len() as u64);
        send.send(BLOCK[..next as usize].to_vec().into()).await?;
        bytes -= next;
    }
    Ok(())
}
