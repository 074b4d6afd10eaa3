//! User data for cloud-init: checked as far as a mistake would be silent in the guest, and joined where there are two.

use bytes::Bytes;

use super::document::Document;
use super::format::{self, Format};
use super::mime::{self, Part};
use super::yaml::{self, Shape};
use crate::problem::Problem;

/// One document as it is, or two in one MIME message.
///
/// cloud-init takes the parts in order. Of two `#cloud-config` parts that set the same key the later one wins, which is that
/// of the Secret, unless they say otherwise by `merge_how`.
pub(super) fn user_data(documents: &[Document]) -> Result<Bytes, Problem> {
    let formats = documents.iter().map(check).collect::<Result<Vec<_>, _>>()?;
    if let [one] = documents {
        return Ok(one.bytes().clone());
    }
    let parts = documents
        .iter()
        .zip(formats)
        .map(|(d, format)| part(d, format));
    Ok(mime::join(&parts.collect::<Result<Vec<_>, _>>()?))
}

fn part(document: &Document, format: Format) -> Result<Part<'_>, Problem> {
    if format == Format::Mime {
        return Ok(Part::Message(document.bytes()));
    }
    let content_type = format.content_type().ok_or_else(|| {
        document.problem("A Talos machine configuration cannot be joined with another document. Give either inline or secretRef")
    })?;
    Ok(Part::Document {
        content_type,
        bytes: document.bytes(),
    })
}

fn check(document: &Document) -> Result<Format, Problem> {
    if Format::is_gzip(document.bytes()) {
        return Ok(Format::Gzip);
    }
    let text = document.text()?;
    let format = Format::of_text(text).ok_or_else(|| document.problem(unknown(text)))?;
    match format {
        Format::CloudConfig => check_shape(document, text, Shape::Mapping)?,
        Format::CloudConfigArchive => check_shape(document, text, Shape::Sequence)?,
        Format::Script if !text.starts_with("#!") => {
            return Err(document.problem("A script must begin with #! in its very first column. Remove the white space before it"));
        }
        _ => {}
    }
    Ok(format)
}

fn check_shape(document: &Document, text: &str, wanted: Shape) -> Result<(), Problem> {
    let found = yaml::shape(text).map_err(|e| document.problem(format!("{e}. Correct it")))?;
    if found == wanted || found == Shape::Nothing {
        return Ok(());
    }
    Err(document.problem(match wanted {
        Shape::Sequence => "A #cloud-config-archive is a list. Begin each of its entries with a dash",
        _ => "A #cloud-config is a mapping. Write keys such as users: or packages: below the first line",
    }))
}

fn unknown(text: &str) -> String {
    let advice = mistake(text).unwrap_or("Begin it with one of those");
    format!(
        "A guest would ignore this, for its first line is none of {}. {advice}",
        format::ACCEPTED
    )
}

/// The mistakes that people make.
fn mistake(text: &str) -> Option<&'static str> {
    let start = text.trim_start();
    let first_line = start.lines().next().unwrap_or_default();
    if first_line
        .replace(' ', "")
        .eq_ignore_ascii_case("#cloud-config")
    {
        return Some("Write #cloud-config without a space");
    }
    if start.to_ascii_lowercase().starts_with("content-type:") {
        return Some(
            "Add the line MIME-Version: 1.0 below Content-Type, for cloud-init looks for it",
        );
    }
    if ["I2Nsb3VkLWNvbmZpZ", "IyEv", "H4sI", "Q29udGVudC1UeXBl"]
        .iter()
        .any(|p| start.starts_with(p))
    {
        return Some("It looks encoded in base64: give the text itself");
    }
    if start.starts_with('{') && start.contains("\"ignition\"") {
        return Some("It looks like Ignition: move it to spec.userData.ignition");
    }
    let is_mapping = yaml::shape(text).is_ok_and(|shape| shape == Shape::Mapping);
    is_mapping.then_some("If it is a cloud-config, put #cloud-config above it as the first line")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Bytes, Problem> {
        user_data(&[Document::for_test(text.to_owned())])
    }

    fn message(text: &str) -> String {
        one(text).expect_err(text).message
    }

    #[test]
    fn one_valid_document_is_passed_on_untouched() {
        for text in [
            "#cloud-config\n",
            "#cloud-config\nusers:\n- name: admin\n  sudo: ALL=(ALL) NOPASSWD:ALL\n",
            "#cloud-config\nhostname: a\nhostname: b\n",
            "#cloud-config\n# päckages\npackages: [ä]\n",
            "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    a: 1\n- \"#!/bin/sh\"\n",
            "## template: jinja\n#cloud-config\n{% if x %}\n: [\n",
            "#!/bin/sh\necho hi: [\n",
            "#cloud-boothook\n#!/bin/sh\n",
            "Content-Type: multipart/mixed; boundary=\"x\"\nMIME-Version: 1.0\n\n--x\n\nhi\n--x--\n",
            "version: v1alpha1\nmachine: {}\n---\napiVersion: v1alpha1\nkind: X\n",
        ] {
            assert_eq!(
                one(text),
                Ok(Bytes::copy_from_slice(text.as_bytes())),
                "{text}"
            );
        }
    }

    #[test]
    fn gzip_is_passed_on_untouched() {
        let gzip = Bytes::from_static(&[0x1f, 0x8b, 8, 0, 0xff]);
        assert_eq!(user_data(&[Document::for_test(gzip.clone())]), Ok(gzip));
    }

    #[test]
    fn a_broken_cloud_config_is_told_with_its_place() {
        let problem = one("#cloud-config\nusers:\n- name: \"hunter2\n").unwrap_err();
        assert_eq!(problem.field, "spec.userData.cloudInit.inline");
        assert!(problem.message.starts_with("Line "), "{problem}");
        assert!(!problem.message.contains("hunter2"), "{problem}");
        assert!(message("#cloud-config\n- a\n").contains("is a mapping"));
        assert!(message("#cloud-config\nruncmd\n").contains("is a mapping"));
        assert!(message("#cloud-config-archive\na: 1\n").contains("is a list"));
        assert!(message("\n#!/bin/sh\n").contains("very first column"));
    }

    #[test]
    fn what_a_guest_would_ignore_is_refused_with_advice() {
        for (text, advice) in [
            ("users: []\n", "put #cloud-config above it"),
            ("# cloud-config\nusers: []\n", "without a space"),
            (
                "Content-Type: multipart/mixed; boundary=x\n\n--x--",
                "MIME-Version: 1.0",
            ),
            ("I2Nsb3VkLWNvbmZpZwo=", "base64"),
            (
                "{\"ignition\": {\"version\": \"3.4.0\"}}",
                "spec.userData.ignition",
            ),
            ("echo hello hunter2", "Begin it with one of those"),
        ] {
            let message = message(text);
            assert!(message.contains(advice), "{message}");
            assert!(
                message.contains("#cloud-config, #! (a script)"),
                "{message}"
            );
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let document = Document::for_test(Bytes::from_static(b"#cloud-config\na: \xff\n"));
        let problem = user_data(&[document]).unwrap_err();
        assert!(
            problem
                .message
                .contains("Byte 17 is no part of a UTF-8 text"),
            "{problem}"
        );
    }

    #[test]
    fn talos_cannot_be_joined() {
        let talos = Document::for_test("version: v1alpha1\nmachine: {}\n");
        let script = Document::for_test("#!/bin/sh\n");
        let problem = user_data(&[talos, script]).unwrap_err();
        assert!(problem.message.contains("Talos"), "{problem}");
    }
}
