//! Two documents in one: MIME multipart (RFC 2046), the way in which cloud-init takes several.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

const LINE_END: &str = "\r\n";

/// RFC 2045 allows 76 characters in a line of base64.
const BASE64_LINE: usize = 76;

/// A part of a message.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    /// A document of a known type.
    Document {
        /// For its header.
        content_type: &'static str,
        /// Any bytes.
        bytes: &'a [u8],
    },
    /// A MIME message with its own headers, which becomes a part as it stands.
    Message(&'a [u8]),
}

impl Part<'_> {
    const fn bytes(&self) -> &[u8] {
        match self {
            Self::Document { bytes, .. } | Self::Message(bytes) => bytes,
        }
    }
}

/// The same parts always make the same message.
pub(super) fn join(parts: &[Part<'_>]) -> Bytes {
    let boundary = boundary(parts);
    let mut message = format!(
        "Content-Type: multipart/mixed; boundary=\"{boundary}\"{LINE_END}MIME-Version: 1.0{LINE_END}"
    )
    .into_bytes();
    for part in parts {
        message.extend_from_slice(format!("{LINE_END}--{boundary}{LINE_END}").as_bytes());
        write_part(&mut message, part);
    }
    message.extend_from_slice(format!("{LINE_END}--{boundary}--{LINE_END}").as_bytes());
    message.into()
}

fn write_part(message: &mut Vec<u8>, part: &Part<'_>) {
    match part {
        Part::Message(bytes) => message.extend_from_slice(bytes),
        Part::Document {
            content_type,
            bytes,
        } => {
            // Always base64: cloud-init's mail parser mangles what is not ASCII, and line ends must stay as they are.
            let headers = [
                format!("Content-Type: {content_type}"),
                "MIME-Version: 1.0".to_owned(),
                "Content-Transfer-Encoding: base64".to_owned(),
                String::new(),
            ];
            message.extend_from_slice(headers.join(LINE_END).as_bytes());
            write_base64(message, bytes);
        }
    }
}

fn write_base64(message: &mut Vec<u8>, bytes: &[u8]) {
    let encoded = STANDARD.encode(bytes);
    for line in encoded.as_bytes().chunks(BASE64_LINE) {
        message.extend_from_slice(LINE_END.as_bytes());
        message.extend_from_slice(line);
    }
}

/// The first of a fixed series that occurs in no part.
fn boundary(parts: &[Part<'_>]) -> String {
    let mut number = 0_u64;
    loop {
        let candidate = format!("polyvirt-part-{number}");
        if !parts
            .iter()
            .any(|part| contains(part.bytes(), candidate.as_bytes()))
        {
            return candidate;
        }
        number += 1;
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Part<'_> = Part::Document {
        content_type: "text/cloud-config",
        bytes: b"#cloud-config\nx: \xc3\xa4\n",
    };

    fn text(parts: &[Part<'_>]) -> String {
        String::from_utf8(join(parts).to_vec()).unwrap()
    }

    #[test]
    fn documents_become_parts_in_order() {
        let script = Part::Document {
            content_type: "text/x-shellscript",
            bytes: b"#!/bin/sh\n",
        };
        assert_eq!(
            text(&[CONFIG, script]),
            "Content-Type: multipart/mixed; boundary=\"polyvirt-part-0\"\r\n\
             MIME-Version: 1.0\r\n\
             \r\n--polyvirt-part-0\r\n\
             Content-Type: text/cloud-config\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\
             \r\nI2Nsb3VkLWNvbmZpZwp4OiDDpAo=\
             \r\n--polyvirt-part-0\r\n\
             Content-Type: text/x-shellscript\r\nMIME-Version: 1.0\r\nContent-Transfer-Encoding: base64\r\n\
             \r\nIyEvYmluL3NoCg==\
             \r\n--polyvirt-part-0--\r\n"
        );
    }

    #[test]
    fn a_message_is_nested_as_it_stands_under_another_boundary() {
        let inner = join(&[CONFIG, CONFIG]);
        let outer = text(&[CONFIG, Part::Message(&inner)]);
        assert!(outer.contains(std::str::from_utf8(&inner).unwrap()));
        assert!(
            outer.starts_with("Content-Type: multipart/mixed; boundary=\"polyvirt-part-1\"\r\n")
        );
        assert_eq!(outer.matches("--polyvirt-part-1").count(), 3);
    }

    #[test]
    fn lines_of_base64_keep_within_76_characters() {
        let long = Part::Document {
            content_type: "application/gzip",
            bytes: &[7; 1000],
        };
        assert!(text(&[long, CONFIG]).lines().all(|line| line.len() <= 76));
    }
}
