use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;
use crate::site::{HEADERS_WITHIN, listen};

fn page() -> Router {
    router(Catalogue::new(&[]).unwrap(), HostNames::default())
}

fn get_request(path: &str) -> axum::http::request::Builder {
    Request::get(path).header("host", "127.0.0.1:8097").header("x-lasthop-page", "1")
}

fn answer(request: Request<Body>) -> (StatusCode, axum::http::HeaderMap, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let response = page().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    })
}

fn get_answer(path: &str) -> (StatusCode, axum::http::HeaderMap, String) {
    answer(get_request(path).body(Body::empty()).unwrap())
}

#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    let (_, _, html) = get_answer("/");
    for asset in &ASSETS {
        let (status, headers, text) = get_answer(asset.path);
        assert_eq!((status, text.as_str()), (StatusCode::OK, asset.text), "{}", asset.path);
        assert_eq!(headers[header::CONTENT_TYPE], asset.media_type);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
    }
    // Resources that the pages and their scripts name exist.
    let (_, _, cure) = get_answer("/cure");
    let pages = html + &cure;
    let named = pages
        .split(['"', '\''])
        .filter(|word| word.ends_with(".js") || word.ends_with(".css") || word.ends_with(".svg"));
    for name in named {
        assert!(ASSETS.iter().any(|asset| asset.path == format!("/{name}")), "{name}");
    }
    for asset in &ASSETS {
        for import in asset.text.split("from './").skip(1) {
            let name = import.split('\'').next().unwrap();
            assert!(ASSETS.iter().any(|asset| asset.path == format!("/{name}")), "{} imports {name}", asset.path);
        }
    }
}

#[test]
fn who_is_not_meant_to_ask_is_refused() {
    let ask = |request: axum::http::request::Builder| answer(request.body(Body::empty()).unwrap()).0;
    assert_eq!(ask(Request::get("/").header("host", "evil.example")), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(ask(Request::get("/api/catalogue")), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(ask(Request::post("/").header("host", "localhost")), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(ask(get_request("/api/catalogue").header("sec-fetch-site", "cross-site")), StatusCode::FORBIDDEN);
    assert_eq!(ask(get_request("/api/catalogue").header("sec-fetch-site", "same-site")), StatusCode::FORBIDDEN);
    assert_eq!(ask(get_request("/api/catalogue").header("sec-fetch-site", "same-origin")), StatusCode::OK);
    // A link on another site may lead here.
    assert_eq!(ask(get_request("/").header("sec-fetch-site", "cross-site")), StatusCode::OK);
    let plain = || Request::get("/api/catalogue").header("host", "127.0.0.1:8097");
    assert_eq!(ask(plain()), StatusCode::FORBIDDEN);
    // All headers on the origin must name the page.
    for (name, value, status) in [
        ("origin", "http://127.0.0.1:8097", StatusCode::OK),
        ("origin", "http://evil.example", StatusCode::FORBIDDEN),
        ("origin", "http://127.0.0.1:8098", StatusCode::FORBIDDEN),
        ("origin", "http://127.0.0.1:8097.evil.example", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("referer", "http://127.0.0.1:8097/", StatusCode::OK),
        ("referer", "http://evil.example/http://127.0.0.1:8097/", StatusCode::FORBIDDEN),
        ("sec-fetch-site", "none", StatusCode::FORBIDDEN),
        ("content-length", "1", StatusCode::PAYLOAD_TOO_LARGE),
        ("transfer-encoding", "chunked", StatusCode::PAYLOAD_TOO_LARGE),
        ("host", "evil.example", StatusCode::MISDIRECTED_REQUEST),
    ] {
        assert_eq!(ask(get_request("/api/catalogue").header(name, value)), status, "{name}: {value}");
    }
    // Other sites cannot send the header: their browser's preflight request is refused without any permission.
    let asks =
        Request::options("/api/catalogue").header("host", "127.0.0.1:8097").header("origin", "http://evil.example");
    let (status, headers, _) = answer(asks.body(Body::empty()).unwrap());
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(headers.keys().all(|name| !name.as_str().starts_with("access-control")));
    assert_eq!(ask(get_request("/etc/passwd")), StatusCode::NOT_FOUND);
    assert_eq!(ask(get_request("/../Cargo.toml")), StatusCode::NOT_FOUND);
}

/// Bodies are accepted only for measurements and the like, only from the page, and only up to the maximum length.
#[test]
fn a_body_is_taken_where_it_is_meant_and_from_the_page_alone() {
    let post = |path: &str, body: &'static str| {
        Request::post(path)
            .header("host", "127.0.0.1:8097")
            .header("x-lasthop-page", "1")
            .header("content-length", body.len())
            .body(Body::from(body))
            .unwrap()
    };
    let (status, _, text) = answer(post("/api/link?file=a.txt:4", "0100"));
    assert_eq!(status, StatusCode::OK, "{text}");
    let link: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(link["fit"]["down"]["fit"]["lost"], 1);
    let (status, _, text) = answer(post("/api/link?file=a.txt:4", "01x0"));
    let error: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, error["error"]["control"].as_str()), (StatusCode::BAD_REQUEST, Some("file")));
    for path in ["/api/link", "/api/advise", "/api/prove"] {
        let status = |change: &dyn Fn(&mut Request<Body>)| {
            let mut request = post(path, "x");
            change(&mut request);
            answer(request).0
        };
        let set = |name: &'static str, value: &'static str| {
            move |request: &mut Request<Body>| {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
        };
        assert_eq!(status(&set("origin", "http://evil.example")), StatusCode::FORBIDDEN, "{path}");
        assert_eq!(status(&set("sec-fetch-site", "cross-site")), StatusCode::FORBIDDEN, "{path}");
        assert_eq!(status(&|it| drop(it.headers_mut().remove("x-lasthop-page"))), StatusCode::FORBIDDEN, "{path}");
        assert_eq!(status(&set("content-length", "99999999999")), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        assert_eq!(status(&set("content-length", "-1")), StatusCode::LENGTH_REQUIRED, "{path}");
        assert_eq!(
            status(&|it| drop(it.headers_mut().remove("content-length"))),
            StatusCode::LENGTH_REQUIRED,
            "{path}"
        );
        assert_eq!(status(&set("transfer-encoding", "chunked")), StatusCode::LENGTH_REQUIRED, "{path}");
        assert_eq!(status(&|it| *it.method_mut() = axum::http::Method::PUT), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let asks = Request::options(path).header("host", "127.0.0.1:8097").header("origin", "http://evil.example");
        assert_eq!(answer(asks.body(Body::empty()).unwrap()).0, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(get_answer(path).0, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    assert_eq!(get_answer("/api/configuration?cure=E2E-BBR").0, StatusCode::OK);
}

/// A client that sends a measurement byte by byte delays neither numbers nor other measurements.
#[test]
fn half_a_measurement_keeps_nobody_waiting() {
    let address = started();
    let held: Vec<_> = (0..3 * COMPUTING)
        .map(|_| {
            let mut socket = TcpStream::connect(address).unwrap();
            let head = format!("POST /api/link?file=a.txt:9 HTTP/1.1\r\nHost: {address}\r\nX-Lasthop-Page: 1");
            write!(socket, "{head}\r\nContent-Length: 9\r\n\r\n0").unwrap();
            socket
        })
        .collect();
    let mut text = String::new();
    let path = "/api/first?size=20+KiB&runs=1&schemes=E2E";
    ask(address, path, Duration::from_secs(30)).read_to_string(&mut text).unwrap();
    assert!(text.contains("{\"done\":true}"), "{text}");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head =
        format!("POST /api/link?file=a.txt:4 HTTP/1.1\r\nHost: {address}\r\nX-Lasthop-Page: 1\r\nConnection: close");
    write!(socket, "{head}\r\nContent-Length: 4\r\n\r\n0100").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    drop(held);
}

#[test]
fn a_comparison_comes_line_by_line() {
    let (status, headers, text) = get_answer("/api/compare?size=100+KiB&runs=2&schemes=E2E,LL");
    assert_eq!(status, StatusCode::OK);
    assert!(headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("application/x-ndjson"));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[3]["done"], true);
}

#[test]
fn what_is_wrong_comes_as_one_line_with_its_key() {
    for path in ["/api/first", "/api/compare", "/api/trace", "/api/scenario"] {
        let (status, _, text) = get_answer(&format!("{path}?scenario=wavelan-lan&delay.wired=soon"));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        let error: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error["error"]["key"], "links.wired.delay", "{path}");
        assert_eq!(error["error"]["control"], "delay.wired", "{path}");
    }
}

#[test]
fn the_scenario_comes_as_a_file() {
    let (status, headers, text) = get_answer("/api/scenario?scenario=wavelan-lan&loss=3+%25");
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_DISPOSITION], "attachment; filename=\"wavelan-lan.toml\"");
    assert!(lasthop_scenario::Scenario::parse("file", &text).is_ok());
}

/// Returns the address of a page on a real socket, which is served until the test's process ends.
fn started() -> SocketAddr {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || serve(listener, Catalogue::new(&[]).unwrap(), HostNames::default()));
    address
}

/// Returns a connection with a request for `path`, as the page sends it; its answer must not take longer than
/// `patience`.
fn ask(address: SocketAddr, path: &str, patience: Duration) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nX-Lasthop-Page: 1\r\nConnection: close\r\n\r\n").unwrap();
    socket
}

/// Over a real socket, clients request hours of work and disconnect, as often as there are places to compute.
#[test]
fn work_ends_when_the_client_leaves() {
    let address = started();
    let ask = |path: &str| ask(address, path, Duration::from_secs(8));
    for _ in 0..3 * COMPUTING {
        let mut socket = ask("/api/compare?size=64+MiB&runs=1000&loss=10+%25");
        let mut first = [0; 16];
        socket.read_exact(&mut first).unwrap();
        assert_eq!(&first[..15], b"HTTP/1.1 200 OK");
    }
    let mut text = String::new();
    ask("/api/compare?size=100+KiB&runs=1&schemes=E2E").read_to_string(&mut text).unwrap();
    assert!(text.contains("{\"done\":true}"), "{text}");
}

/// Twice as many clients as there are places send half a request, repeatedly, and one reads no answer.
#[test]
fn half_sent_requests_keep_the_page_from_nobody() {
    let address = started();
    let mut held = Vec::new();
    for round in 0..4 {
        for _ in 0..2 * CONNECTIONS {
            let mut socket = TcpStream::connect(address).unwrap();
            // The connection may be closed already.
            let _ = write!(socket, "GET / HTTP/1.1\r\nHost: {address}\r\n");
            held.push(socket);
        }
        // Far less than half-sent requests may take.
        let mut socket = ask(address, "/", HEADERS_WITHIN / 2);
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "round {round}: {text}");
    }
}

/// A class of thirty sends requests at the same time, while all places are busy with long answers: each gets its
/// numbers in turn.
#[test]
fn a_class_waits_for_its_turn() {
    let address = started();
    let ask = |path: &str| ask(address, path, Duration::from_secs(60));
    let long: Vec<_> = (0..COMPUTING)
        .map(|_| {
            let mut socket = ask("/api/compare?size=64+MiB&runs=1000&loss=10+%25");
            socket.read_exact(&mut [0; 16]).unwrap();
            socket
        })
        .collect();
    let class: Vec<_> = (0..30).map(|_| ask("/api/compare?size=20+KiB&runs=1&schemes=E2E")).collect();
    // Quick answers do not wait for them.
    let mut text = String::new();
    ask("/api/first?size=20+KiB&runs=1&schemes=E2E").read_to_string(&mut text).unwrap();
    assert!(text.contains("{\"done\":true}"), "{text}");
    drop(long);
    for mut socket in class {
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("{\"done\":true}"), "{text}");
    }
}
