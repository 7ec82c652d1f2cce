//! Numbers of the course (docs/course), computed anew by the program that answers the page.
//!
//! | file of a lab | contents |
//! |---|---|
//! | `NN-name.md` | text and questions, for students |
//! | `NN-name.toml` | links into the page, values, and questions with the intervals of right answers |
//! | `solutions/NN-name.md` | written by these tests: `LASTHOP_WRITE_DOCUMENTS=1 cargo test -p lasthop-answers --test all` |

mod expression;
mod lab;
mod numerals;
mod solution;
mod values;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use self::lab::{Kind, Lab};
use self::values::Values;

/// Returns the folder of the course.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/course")
}

/// Returns the labs, with what was computed of each so far.
fn labs() -> &'static [(Lab, Values)] {
    static LABS: OnceLock<Vec<(Lab, Values)>> = OnceLock::new();
    LABS.get_or_init(|| lab::read(&folder()).into_iter().map(|lab| (lab, Values::default())).collect())
}

#[test]
fn there_are_ten_labs_of_30_to_60_minutes() {
    let numbers: Vec<u32> = labs().iter().map(|(lab, _)| lab.number).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    for (lab, _) in labs() {
        assert!((30..=60).contains(&lab.minutes), "{}: {} minutes", lab.name, lab.minutes);
        assert!((3..=6).contains(&lab.questions.len()), "{}: {} questions", lab.name, lab.questions.len());
        assert!(
            lab.questions.iter().all(|question| !question.hint.is_empty()),
            "{}: a question without a hint",
            lab.name
        );
    }
}

/// A reader who rounds the number that the page shows is right.
#[test]
fn right_answers_lie_in_their_intervals() {
    let mut wrong = Vec::new();
    for (lab, values) in labs() {
        for question in &lab.questions {
            let Kind::Number { right, near, answer, digits, .. } = &question.kind else { continue };
            let (name, value) = (format!("question {}", question.number), values.number(lab, answer));
            let rounded: f64 = format!("{value:.digits$}").parse().unwrap();
            if [value, rounded].into_iter().any(|value| value < right[0] || right[1] < value) {
                wrong.push(format!("{name}: {value} is not in {right:?}"));
            }
            if near[0] >= right[0] || right[1] >= near[1] {
                wrong.push(format!("{name}: {near:?} does not enclose {right:?}"));
            }
            // The interval of right answers excludes guesses: at most a quarter around its middle, or one to each side.
            let (middle, width) = (f64::midpoint(right[0], right[1]).abs(), right[1] - right[0]);
            if width > 0.5 * middle && (*digits > 0 || width > 2.0) {
                wrong.push(format!("{name}: {right:?} is too wide"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn chosen_answers_hold() {
    let mut wrong = Vec::new();
    for (lab, values) in labs() {
        for question in &lab.questions {
            let Kind::Choice { holds, .. } = &question.kind else { continue };
            assert!(!holds.is_empty(), "question {}: nothing shows that the answer is right", question.number);
            for claim in holds {
                if !values.holds(lab, claim) {
                    wrong.push(format!("question {}: {claim} is false: {}", question.number, values.told(lab, claim)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Numbers in the text of labs are settings of the links in it, or facts with a source.
#[test]
fn numbers_in_the_labs_are_settings_of_their_links() {
    for (lab, values) in labs() {
        let path = folder().join(format!("{}.md", lab.name));
        numerals::check(&path.display().to_string(), &std::fs::read_to_string(&path).unwrap(), &values.settings(lab));
    }
}

#[test]
fn solutions_have_the_computed_numbers() {
    for (lab, values) in labs() {
        let path = folder().join(format!("solutions/{}.md", lab.name));
        let text = solution::text(lab, values);
        if std::env::var_os("LASTHOP_WRITE_DOCUMENTS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let is = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = is.lines().zip(text.lines()).find(|(is, should)| is != should);
        assert!(
            is == text,
            "{}: other numbers: {differs:?}; LASTHOP_WRITE_DOCUMENTS=1 cargo test -p lasthop-answers --test all writes it",
            path.display()
        );
    }
}
