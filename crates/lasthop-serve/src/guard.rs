//! Which requests are answered, and what every answer says to the browser.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Names under which the page may be asked for, besides `localhost` and addresses.
#[derive(Clone, Default, Debug)]
pub struct HostNames(pub Vec<String>);

/// Only the page's own files and its own server: no inline script, no other origin, no frame.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets requests through that come from the page itself or from who opens it.
pub(crate) async fn guard(State(names): State<HostNames>, request: Request, next: Next) -> Response {
    let refused = refusal(&names, request.method(), request.uri().path(), request.headers());
    let mut response = match refused {
        Some((status, text)) => (status, text).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(names: &HostNames, method: &Method, path: &str, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n"));
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| names.admit(host)) {
        let text = "this host name is not served; use an address, localhost, or a name given by --host-name\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, text));
    }
    // Another site may link to the page, but not make it compute.
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if path.starts_with("/api/") && !matches!(site, None | Some("same-origin" | "none")) {
        return Some((StatusCode::FORBIDDEN, "only the page itself may ask this\n"));
    }
    None
}

impl HostNames {
    /// Whether a request for `host` is meant for us. A name that somebody else's name server points at this machine is not:
    /// its page would be allowed to read what we answer (DNS rebinding). Addresses cannot be pointed elsewhere.
    fn admit(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let known = |known: &String| known.eq_ignore_ascii_case(name);
        bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost") || self.0.iter().any(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_names_given_are_served() {
        let names = HostNames(vec!["lab.example".to_owned()]);
        for host in [
            "127.0.0.1:8097",
            "127.0.0.1",
            "[::1]:8097",
            "[::1]",
            "localhost:1",
            "LOCALHOST",
            "lab.example:80",
            "192.0.2.7",
        ] {
            assert!(names.admit(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8097",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            ":8097",
            "a:b",
        ] {
            assert!(!names.admit(host), "{host}");
        }
    }
}
