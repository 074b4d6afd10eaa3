//! The report in the words of CI systems.

use std::fmt::Write as _;

use crate::report::{Outcome, Verdict};

/// One test suite with a case for each check.
pub(crate) fn write(outcomes: &[Outcome]) -> String {
    let is = |wanted: fn(&Verdict) -> bool| outcomes.iter().filter(|o| wanted(&o.verdict)).count();
    let failed = is(|v| matches!(v, Verdict::Fail(_)));
    let skipped = is(|v| matches!(v, Verdict::NotApplicable(_)));
    let seconds: f64 = outcomes.iter().map(|o| o.took.as_secs_f64()).sum();
    let cases: String = outcomes.iter().map(case).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"polyvirt-conformance\" tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\" errors=\"0\" time=\"{seconds:.3}\">\n\
         {cases}</testsuite>\n",
        outcomes.len()
    )
}

fn case(outcome: &Outcome) -> String {
    let mut text = format!(
        "  <testcase classname=\"provider.v1\" name=\"{}\" time=\"{:.3}\">",
        outcome.check,
        outcome.took.as_secs_f64()
    );
    let promise = escaped(outcome.promise);
    let verdict = match &outcome.verdict {
        Verdict::Pass => String::new(),
        Verdict::Fail(why) => {
            format!("<failure message=\"{}\">{promise}</failure>", escaped(why))
        }
        Verdict::NotApplicable(why) => format!("<skipped message=\"{}\"/>", escaped(why)),
    };
    // A String takes everything.
    let _ = writeln!(text, "{verdict}</testcase>");
    text
}

/// What a hostile provider says must not end our document, and XML has no way to write most control characters.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\r' | '\t' => safe.push(' '),
            letter if letter.is_control() => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_provider_says_cannot_break_the_document() {
        let outcome = |verdict| Outcome {
            check: "a-check",
            promise: "It <holds>.",
            verdict,
            took: Duration::from_millis(1500),
        };
        let text = write(&[
            outcome(Verdict::Pass),
            outcome(Verdict::Fail("\"/><x>\u{1b}[31m\nred & dead".to_owned())),
            outcome(Verdict::NotApplicable("no".to_owned())),
        ]);
        assert!(
            text.contains("tests=\"3\" failures=\"1\" skipped=\"1\""),
            "{text}"
        );
        assert!(text.contains("time=\"4.500\""), "{text}");
        assert!(
            text.contains(
                "message=\"&quot;/&gt;&lt;x&gt;\u{fffd}[31m red &amp; dead\">It &lt;holds&gt;."
            ),
            "{text}"
        );
        assert!(
            text.contains("<skipped message=\"no\"/></testcase>"),
            "{text}"
        );
    }
}
