//! The provider of docs/howto/write-a-provider.md, as small as one can be.

use std::sync::Arc;

use polyvirt_conformance::{Profile, Verdict, run};

#[allow(dead_code, reason = "its main serves; here it is called")]
#[path = "../../examples/shelf.rs"]
mod example;

#[tokio::test]
async fn the_example_of_the_howto_conforms() {
    let report = run(Arc::new(example::Shelf::default()), &Profile::simulated()).await;
    assert!(report.conforms(), "{report}");
    let passed = report.outcomes.iter();
    let passed = passed.filter(|o| o.verdict == Verdict::Pass).count();
    assert!(passed >= 12, "{report}");
    println!("{report}");
}

#[test]
fn the_example_stays_small() {
    let text = include_str!("../../examples/shelf.rs");
    assert!(text.lines().count() < 200);
}
