//! Answers one request of the page, for browsers that run this program as WebAssembly (WASI preview 1).
//!
//! Usage: `lasthop-page PATH QUERY`, with the body on standard input. Standard output has a line of JSON, `{"status",
//! "type", "file"}`, and then the answer, as `lasthop serve` sends it. A browser runs a new instance for each request,
//! so a request that is no longer needed ends with its instance.
#![forbid(unsafe_code)]

use std::io::{Read, Write, stdin, stdout};
use std::process::ExitCode;
use std::time::Instant;

use lasthop_answers::{Answer, Catalogue, Part, Request, request};
use serde_json::json;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match respond(&words, &mut stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lasthop-page: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the answer to the request that `words` name.
fn respond(words: &[String], out: &mut (impl Write + Send)) -> Result<(), String> {
    let [path, query] = words else { return Err("usage: lasthop-page PATH QUERY < BODY".to_owned()) };
    let Some(request) = Request::by_path(path) else {
        let known = Request::ALL.map(Request::path).join(", ");
        return Err(format!("there is no path {path}; expected one of {known}"));
    };
    let mut body = Vec::new();
    if request.largest_body().is_some() {
        stdin().read_to_end(&mut body).map_err(|error| format!("standard input: {error}"))?;
    }
    if request.largest_body().is_some_and(|most| body.len() > most) {
        let answer = Answer::text(413, "request body too large; the command has no such limit\n");
        return write_whole(&answer, out).map_err(|error| error.to_string());
    }
    let catalogue = Catalogue::new(&[]).map_err(|error| error.to_string())?;
    let deadline = Instant::now() + request.longest();
    let (mut begun, mut written) = (false, Ok(()));
    request.answer(&catalogue, query, &body, JOBS, &|| Instant::now() > deadline, &mut |part| {
        if written.is_err() {
            return;
        }
        written = match part {
            Part::Whole(answer) => write_whole(&answer, out),
            Part::Line(line) if begun => out.write_all(line.as_bytes()).and_then(|()| out.flush()),
            Part::Line(line) => write_head(200, request::LINES, None, out)
                .and_then(|()| out.write_all(line.as_bytes()))
                .and_then(|()| out.flush()),
        };
        begun = true;
    });
    written.map_err(|error| format!("standard output: {error}"))
}

/// Number of threads: a browser gives one to each instance.
const JOBS: usize = 1;

fn write_whole(answer: &Answer, out: &mut impl Write) -> std::io::Result<()> {
    write_head(answer.status, answer.media_type, answer.file_name.as_deref(), out)?;
    out.write_all(answer.text.as_bytes())?;
    out.flush()
}

fn write_head(status: u16, media_type: &str, file: Option<&str>, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", json!({ "status": status, "type": media_type, "file": file }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Returns the description of an answer, and its text.
    fn answer(path: &str, query: &str) -> (Value, String) {
        let mut out = Vec::new();
        respond(&[path.to_owned(), query.to_owned()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (head, rest) = text.split_once('\n').unwrap();
        (serde_json::from_str(head).unwrap(), rest.to_owned())
    }

    #[test]
    fn the_first_line_describes_the_answer() {
        let (head, text) = answer("/api/scenario", "scenario=wavelan-lan&loss=3+%25");
        let toml = "application/toml; charset=utf-8";
        assert_eq!(head, json!({ "status": 200, "type": toml, "file": "wavelan-lan.toml" }));
        assert!(text.starts_with("# The page's numbers: lasthop compare FILE --schemes E2E,"), "{text}");
        let (head, text) = answer("/api/trace", "scenario=wavelan-lan&delay.wired=soon");
        assert_eq!(head, json!({ "status": 400, "type": "application/json", "file": null }));
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error["error"]["control"], "delay.wired");
    }

    #[test]
    fn numbers_come_in_lines_after_one_description() {
        let (head, text) = answer("/api/compare", "scenario=wavelan-lan&size=100+KiB&runs=2&schemes=E2E,LL");
        assert_eq!(head, json!({ "status": 200, "type": request::LINES, "file": null }));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3]["done"], true);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            respond(&words, &mut Vec::new()).unwrap_err()
        };
        assert_eq!(refused(&["/api/first"]), "usage: lasthop-page PATH QUERY < BODY");
        let unknown = refused(&["/api/frist", ""]);
        assert!(unknown.starts_with("there is no path /api/frist; expected one of /api/catalogue, "), "{unknown}");
    }

    #[test]
    fn an_output_that_is_closed_is_an_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let words = ["/api/catalogue", ""].map(str::to_owned);
        assert!(respond(&words, &mut Closed).unwrap_err().starts_with("standard output: "));
    }
}
