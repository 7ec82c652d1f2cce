//! Sends or receives bulk data over quinn with its default configuration.
//!
//! `bulk-quinn server ADDRESS CERT KEY`, `bulk-quinn client ADDRESS down|up BYTES`

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, RecvStream, SendStream, ServerConfig};
use rustls::KeyLogFile;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ALPN: &[u8] = b"perf";
const BLOCK: [u8; 65536] = [0; 65536];

#[tokio::main]
async fn main() -> Fallible<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address, cert, key] => serve(address.parse()?, cert, key).await,
        ["client", address, way, bytes] => transfer(address.parse()?, way == "up", bytes.parse()?).await,
        _ => Err("usage: bulk-quinn server ADDRESS CERT KEY | client ADDRESS down|up BYTES".into()),
    }
}

async fn serve(address: SocketAddr, cert: &str, key: &str) -> Fallible<()> {
    let chain = vec![CertificateDer::from_pem_file(cert)?];
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint = Endpoint::server(config, address)?;
    println!("ready");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            while let Ok((send, receive)) = connection.accept_bi().await {
                tokio::spawn(answer(send, receive));
            }
            Fallible::Ok(())
        });
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Fallible<()> {
    let mut head = [0; 8];
    receive.read_exact(&mut head).await?;
    drain(&mut receive).await?;
    fill(&mut send, u64::from_be_bytes(head)).await?;
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

async fn transfer(address: SocketAddr, up: bool, bytes: u64) -> Fallible<()> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    let mut endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
    let connection = endpoint.connect(address, "bulk.test")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&if up { 0 } else { bytes }.to_be_bytes()).await?;
    if up {
        fill(&mut send, bytes).await?;
    }
    send.finish()?;
    drain(&mut receive).await?;
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn fill(send: &mut SendStream, mut bytes: u64) -> Fallible<()> {
    while bytes > 0 {
        let next = bytes.min(BLOCK.len() as u64);
        send.write_all(&BLOCK[..next as usize]).await?;
        bytes -= next;
    }
    Ok(())
}

async fn drain(receive: &mut RecvStream) -> Fallible<()> {
    while receive.read_chunk(usize::MAX, true).await?.is_some() {}
    Ok(())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Accepts every certificate: both ends run in namespaces of the same machine.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
