use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::assets::ASSETS;
use crate::status::Reading;

fn board() -> Arc<Board> {
    let board = Board::new(7, [("tunnel", "/run/lasthop/tunnel.sock".to_owned())]);
    board.record(0, Instant::now(), Ok(Reading { status: json!({ "device": "lasthop0" }), ..Reading::default() }));
    Arc::new(board)
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    let builder = Request::builder().method(method).uri(path);
    builder.header("host", "127.0.0.1:8098").header("x-lasthop-page", "1")
}

fn answer(request: axum::http::request::Builder) -> (StatusCode, HeaderMap, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = request.body(Body::empty()).unwrap();
        let response = router(board(), HostNames::default()).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
    })
}

fn get_answer(path: &str) -> (StatusCode, HeaderMap, String) {
    answer(request(Method::GET, path))
}

#[test]
fn the_page_is_whole_and_asks_nobody_else() {
    for asset in &STATUS_ASSETS {
        let (status, headers, text) = get_answer(asset.path);
        assert_eq!((status, text.as_str()), (StatusCode::OK, asset.text), "{}", asset.path);
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let shared = ASSETS.iter().find(|other| other.path == asset.path && asset.path != "/");
        assert!(shared.is_none_or(|other| other.text == asset.text), "{} differs between the sites", asset.path);
        let named = asset.text.split(['"', '\'']).filter(|_| asset.path == "/");
        let imported = asset.text.split("from './").skip(1).filter_map(|rest| rest.split('\'').next());
        for name in named.filter(|word| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end))).chain(imported) {
            assert!(STATUS_ASSETS.iter().any(|asset| asset.path == format!("/{name}")), "{}: {name}", asset.path);
        }
    }
}

#[test]
fn the_state_is_read_and_nothing_else_is_possible() {
    let (status, headers, text) = get_answer("/api/status");
    assert_eq!((status, &headers[header::CACHE_CONTROL]), (StatusCode::OK, &"no-store".parse().unwrap()));
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&all["run"], &all["round"], all["daemons"].as_array().unwrap().len()), (&json!("7"), &json!(1), 1));
    assert_eq!(all["daemons"][0]["status"]["device"], "lasthop0");
    assert_eq!(all["daemons"][0]["history"]["rounds"].as_array().unwrap().len(), 1);
    let (_, _, text) = get_answer("/api/status?run=7&after=1");
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["daemons"][0]["history"]["rounds"], json!([]));
    for query in ["after=-1", "run=x", "reload=1", "after"] {
        assert_eq!(get_answer(&format!("/api/status?{query}")).0, StatusCode::BAD_REQUEST, "{query}");
    }
    for path in ["/api/status", "/", "/api/link", "/api/reload"] {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let (status, headers, _) = answer(request(method.clone(), path));
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert!(headers.keys().all(|name| !name.as_str().starts_with("access-control")));
        }
    }
    let (status, _, text) = answer(request(Method::HEAD, "/api/status"));
    assert_eq!((status, text.as_str()), (StatusCode::OK, ""));
    for path in ["/api/reload", "/api/catalogue", "/cure", "/run/lasthop/tunnel.sock", "/../Cargo.toml"] {
        assert_eq!(get_answer(path).0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn other_sites_cannot_read_the_state() {
    let ask = |name: &str, value: &str| {
        let mut request = Request::get("/api/status").header(name, value);
        for (known, value) in [("host", "127.0.0.1:8098"), ("x-lasthop-page", "1")] {
            if known != name {
                request = request.header(known, value);
            }
        }
        answer(request).0
    };
    assert_eq!(ask("accept", "*/*"), StatusCode::OK);
    // A name that someone else points at this machine (DNS rebinding).
    assert_eq!(ask("host", "evil.example:8098"), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(ask("host", "127.0.0.1.evil.example"), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(ask("origin", "http://evil.example"), StatusCode::FORBIDDEN);
    assert_eq!(ask("sec-fetch-site", "cross-site"), StatusCode::FORBIDDEN);
    assert_eq!(ask("content-length", "1"), StatusCode::PAYLOAD_TOO_LARGE);
    let plain = Request::get("/api/status").header("host", "127.0.0.1:8098");
    assert_eq!(answer(plain).0, StatusCode::FORBIDDEN);
}
