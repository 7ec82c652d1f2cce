//! TLS and QUIC configurations: those of the simulator, with TLS 1.3 by rustls around the packets.

use std::sync::Arc;

use lasthop_proto::packet::Side;
use lasthop_sim::network::QuicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::crypto::{CryptoProvider, ring};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore, version};
use quinn::{ClientConfig, EndpointConfig, ServerConfig, TransportConfig, ValidationTokenConfig};

use super::tally::{Client, Reductions, Server, Tally};
use crate::error::LabError;

/// The name that the servers' certificate is for.
pub const SERVER: &str = "lasthop";

/// The servers' certificate and its key, which are no secret: they stand for themselves, in namespaces that nobody else reaches.
/// (ECDSA over P-256, self-signed, as long as the one that the simulator's flights have in them.)
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
const KEY: &[u8] = include_bytes!("key.der");

/// What all QUIC connections of a lab share.
pub struct Tls {
    provider: Arc<CryptoProvider>,
}

impl Default for Tls {
    fn default() -> Self {
        Self { provider: Arc::new(ring::default_provider()) }
    }
}

impl Tls {
    /// What an end takes: datagrams up to `udp_payload` bytes.
    pub fn endpoint(&self, udp_payload: u16) -> EndpointConfig {
        let mut endpoint = EndpointConfig::default();
        // Refused only outside of UDP's sizes, in which case it takes what it does by default.
        let _ = endpoint.max_udp_payload_size(udp_payload);
        endpoint
    }

    /// A connection of a client, which `tally` counts.
    ///
    /// # Errors
    ///
    /// When rustls refuses what was made for it.
    pub fn client(&self, quic: &QuicConfig, tally: &Arc<Tally>) -> Result<ClientConfig, LabError> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_slice(CERTIFICATE)).map_err(refused)?;
        let tls = rustls::ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(refused)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = QuicClientConfig::try_from(tls).map_err(refused)?;
        let mut client = ClientConfig::new(Arc::new(Client::new(tls, tally.clone())));
        client.transport_config(transport(quic, Side::Initiator, tally));
        Ok(client)
    }

    /// The same for a server's.
    ///
    /// # Errors
    ///
    /// When rustls refuses what was made for it.
    pub fn server(&self, quic: &QuicConfig, tally: &Arc<Tally>) -> Result<ServerConfig, LabError> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY));
        let tls = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(vec![CertificateDer::from_slice(CERTIFICATE)], key)
            .map_err(refused)?;
        let tls = QuicServerConfig::try_from(tls).map_err(refused)?;
        let mut server = ServerConfig::with_crypto(Arc::new(Server::new(tls, tally.clone())));
        // Nobody comes back with one.
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        server
            .transport_config(transport(quic, Side::Acceptor, tally))
            .validation_token_config(tokens)
            .migration(false);
        Ok(server)
    }
}

fn refused(error: impl ToString) -> LabError {
    LabError::Quic(error.to_string())
}

/// The simulator's, with a congestion control that is watched.
fn transport(quic: &QuicConfig, side: Side, tally: &Arc<Tally>) -> Arc<TransportConfig> {
    let mut transport = quic.transport();
    let reductions = Reductions::new(quic.congestion.factory(), side, tally.clone());
    // Each datagram is sent by itself, as the devices have no offloads.
    transport.congestion_controller_factory(Arc::new(reductions)).enable_segmentation_offload(false);
    Arc::new(transport)
}
