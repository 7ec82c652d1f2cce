//! Requests that are accepted, and headers of every response.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Host names under which the page may be requested, besides `localhost` and addresses.
#[derive(Clone, Default, Debug)]
pub struct HostNames(pub Vec<String>);

/// Requests that are accepted.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Host names of the site.
    pub names: HostNames,
    /// Paths that take a body, and its maximum length; all others only support GET and HEAD.
    pub with_body: &'static [(&'static str, usize)],
}

/// Permits only the page's own files and its own server: no inline script, no other origin, no frame.
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

/// Accepts requests that come from the page itself, or from a user who opens it.
pub(crate) async fn guard(State(access): State<Guard>, request: Request, next: Next) -> Response {
    let refused = refusal(&access, &request);
    let mut response = match refused {
        Some((status, text)) => (status, text).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Header that the page sends with every request. Pages of other sites cannot: a browser would first send a preflight
/// request, which is refused. All browsers enforce this, also those that send no `Sec-Fetch-Site` over plain HTTP.
const FROM_PAGE: HeaderName = HeaderName::from_static("x-lasthop-page");

fn refusal(access: &Guard, request: &Request) -> Option<(StatusCode, &'static str)> {
    let (headers, path) = (request.headers(), request.uri().path());
    if let Some(refused) = body_refusal(access.with_body, request) {
        return Some(refused);
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok().filter(|host| access.names.admit(host)),
        _ => None,
    };
    let named_elsewhere = |host: &str| request.uri().authority().is_some_and(|authority| authority.as_str() != host);
    let Some(host) = host.filter(|host| !named_elsewhere(host)) else {
        let text = "this host name is not served; use an address, localhost, or a name given by --host-name\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, text));
    };
    // Another site may link to the page, but not make it compute.
    if path.starts_with("/api/") && !is_from_page(headers, host) {
        return Some((
            StatusCode::FORBIDDEN,
            "only the page itself may request this (programs: send X-Lasthop-Page: 1)\n",
        ));
    }
    None
}

/// Rejects a method that the path does not support, and a body that is too long or of unknown length.
fn body_refusal(with_body: &[(&str, usize)], request: &Request) -> Option<(StatusCode, &'static str)> {
    let (headers, path) = (request.headers(), request.uri().path());
    let lengths: Vec<Option<usize>> = headers
        .get_all(header::CONTENT_LENGTH)
        .iter()
        .map(|length| length.to_str().ok().and_then(|length| length.parse().ok()))
        .collect();
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    match with_body.iter().find(|(with, _)| *with == path) {
        Some((_, most)) => match (request.method(), lengths.as_slice()) {
            (&Method::POST, [Some(length)]) if !chunked && length <= most => None,
            (&Method::POST, [Some(_)]) if !chunked => {
                Some((StatusCode::PAYLOAD_TOO_LARGE, "request body too large; the command has no such limit\n"))
            }
            (&Method::POST, _) => Some((StatusCode::LENGTH_REQUIRED, "a request body requires Content-Length\n")),
            _ => Some((StatusCode::METHOD_NOT_ALLOWED, "only POST is supported here\n")),
        },
        None if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            Some((StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n"))
        }
        None if chunked || lengths.iter().any(|length| *length != Some(0)) => {
            Some((StatusCode::PAYLOAD_TOO_LARGE, "a request body is not supported here\n"))
        }
        None => None,
    }
}

/// Returns whether all of the browser's headers on the origin of a request name the page at `host`.
fn is_from_page(headers: &HeaderMap, host: &str) -> bool {
    let all = |name: HeaderName, right: &dyn Fn(&str) -> bool| {
        headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(right))
    };
    let ours = |url: &str| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|rest| rest.split('/').next().is_some_and(|named| named.eq_ignore_ascii_case(host)))
    };
    headers.contains_key(FROM_PAGE)
        && all(HeaderName::from_static("sec-fetch-site"), &|site| site == "same-origin")
        && all(header::ORIGIN, &ours)
        && all(header::REFERER, &ours)
}

impl HostNames {
    /// Returns whether a request for `host` is meant for this server. A name that a foreign name server points at this
    /// machine is not: its page would be allowed to read the answers (DNS rebinding). Addresses cannot be redirected.
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
