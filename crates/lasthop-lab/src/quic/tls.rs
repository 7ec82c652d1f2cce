//! TLS and QUIC configurations: those of the simulator, with TLS 1.3 by rustls for the packets.

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

/// Name in the servers' certificate.
pub const SERVER: &str = "lasthop";

/// Certificate of the servers and its key. They are not secret: the servers are in namespaces that cannot be reached
/// from outside. (ECDSA over P-256, self-signed, of the same length as in the simulator's flights.)
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
const KEY: &[u8] = include_bytes!("key.der");

/// State shared by all QUIC connections of a lab.
pub struct Tls {
    provider: Arc<CryptoProvider>,
}

impl Default for Tls {
    fn default() -> Self {
        Self { provider: Arc::new(ring::default_provider()) }
    }
}

impl Tls {
    /// Returns the configuration of an end that accepts datagrams of up to `udp_payload` bytes.
    pub fn endpoint(&self, udp_payload: u16) -> EndpointConfig {
        let mut endpoint = EndpointConfig::default();
        // Values outside of UDP's sizes are rejected, and the default remains.
        let _ = endpoint.max_udp_payload_size(udp_payload);
        endpoint
    }

    /// Returns the configuration of a client's connection, which `tally` records.
    ///
    /// # Errors
    ///
    /// Returns an error if rustls rejects the configuration.
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

    /// Returns the configuration of a server's connection, which `tally` records.
    ///
    /// # Errors
    ///
    /// Returns an error if rustls rejects the configuration.
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
        // No client returns with a token.
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

/// Returns the simulator's configuration, with a congestion control that is recorded.
fn transport(quic: &QuicConfig, side: Side, tally: &Arc<Tally>) -> Arc<TransportConfig> {
    let mut transport = quic.transport();
    let reductions = Reductions::new(quic.congestion.factory(), side, tally.clone());
    // Each datagram is sent individually, since the devices have no offloads.
    transport.congestion_controller_factory(Arc::new(reductions)).enable_segmentation_offload(false);
    Arc::new(transport)
}
