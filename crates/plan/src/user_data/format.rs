//! What a piece of user data is. Decided as the guest's agent decides it: by how it begins.

/// Everything that cloud-init takes, and what cloudbase-init (Windows) and Talos take over the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    CloudConfig,
    CloudConfigArchive,
    CloudConfigJsonPatch,
    Script,
    WindowsScript,
    Include,
    IncludeOnce,
    Boothook,
    PartHandler,
    UpstartJob,
    Jinja,
    Mime,
    Gzip,
    TalosMachineConfig,
}

/// The longer of two that begin alike comes first.
const BEGINNINGS: [(&str, Format); 14] = [
    ("#cloud-config-archive", Format::CloudConfigArchive),
    ("#cloud-config-jsonp", Format::CloudConfigJsonPatch),
    ("#cloud-config", Format::CloudConfig),
    ("#cloud-boothook", Format::Boothook),
    ("#include-once", Format::IncludeOnce),
    ("#include", Format::Include),
    ("#part-handler", Format::PartHandler),
    ("#upstart-job", Format::UpstartJob),
    ("## template: jinja", Format::Jinja),
    ("#!", Format::Script),
    ("#ps1", Format::WindowsScript),
    ("rem cmd", Format::WindowsScript),
    ("<powershell>", Format::WindowsScript),
    ("<script>", Format::WindowsScript),
];

/// What to write into the first line, for messages.
pub(super) const ACCEPTED: &str = "#cloud-config, #! (a script), #cloud-boothook, #include, #include-once, #part-handler, \
    #cloud-config-archive, #cloud-config-jsonp, #upstart-job, ## template: jinja, #ps1 (Windows) or the headers of a MIME message";

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How far cloud-init looks for the header that makes a text a MIME message.
const MIME_WINDOW: usize = 4096;

impl Format {
    /// Whether the bytes are compressed; then nothing else can be told of them.
    pub(super) fn is_gzip(bytes: &[u8]) -> bool {
        bytes.starts_with(&GZIP_MAGIC)
    }

    /// `None` if every agent would ignore the text.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        let start = text.trim_start();
        let begins = |prefix: &str| {
            start
                .get(..prefix.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(prefix))
        };
        let known = BEGINNINGS.iter().find(|(prefix, _)| begins(prefix));
        if let Some((_, format)) = known {
            return Some(*format);
        }
        if begins_with_mail_header(text) && says_mime_version(text) {
            return Some(Self::Mime);
        }
        is_talos(text).then_some(Self::TalosMachineConfig)
    }

    /// The type of a part of a multipart message; `None` if it cannot be a part.
    pub(super) const fn content_type(self) -> Option<&'static str> {
        Some(match self {
            Self::CloudConfig => "text/cloud-config",
            Self::CloudConfigArchive => "text/cloud-config-archive",
            Self::CloudConfigJsonPatch => "text/cloud-config-jsonp",
            Self::Script | Self::WindowsScript => "text/x-shellscript",
            Self::Include => "text/x-include-url",
            Self::IncludeOnce => "text/x-include-once-url",
            Self::Boothook => "text/cloud-boothook",
            Self::PartHandler => "text/part-handler",
            Self::UpstartJob => "text/upstart-job",
            Self::Jinja => "text/jinja2",
            Self::Gzip => "application/gzip",
            Self::Mime | Self::TalosMachineConfig => return None,
        })
    }
}

/// Whether the first line is a header such as `Content-Type: multipart/mixed`.
pub(super) fn begins_with_mail_header(text: &str) -> bool {
    let name = text.split_once(':').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        || text.starts_with("From ")
}

/// Whether the header is where cloud-init looks for it.
pub(super) fn says_mime_version(text: &str) -> bool {
    let window = &text.as_bytes()[..text.len().min(MIME_WINDOW)];
    String::from_utf8_lossy(window)
        .to_ascii_lowercase()
        .contains("mime-version:")
}

/// Talos reads its machine configuration from the place of the user data, and it has no header of its own.
fn is_talos(text: &str) -> bool {
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    has("version: v1alpha1") && has("machine:") || has("apiVersion: v1alpha1") && has("kind:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_beginning_is_known() {
        for (text, format) in [
            ("#cloud-config\nusers: []", Some(Format::CloudConfig)),
            ("\n  #Cloud-Config\n", Some(Format::CloudConfig)),
            (
                "#cloud-config-archive\n- a",
                Some(Format::CloudConfigArchive),
            ),
            (
                "#cloud-config-jsonp\n[]",
                Some(Format::CloudConfigJsonPatch),
            ),
            ("#!/bin/sh\n", Some(Format::Script)),
            ("#include\nhttp://x", Some(Format::Include)),
            ("#include-once\nhttp://x", Some(Format::IncludeOnce)),
            ("#cloud-boothook\n#!/bin/sh", Some(Format::Boothook)),
            ("#part-handler\n", Some(Format::PartHandler)),
            ("#upstart-job\n", Some(Format::UpstartJob)),
            ("## template: jinja\n#cloud-config", Some(Format::Jinja)),
            ("##template:jinja\n", None),
            ("#ps1_sysnative\n", Some(Format::WindowsScript)),
            ("rem cmd\r\n", Some(Format::WindowsScript)),
            ("<powershell>\n", Some(Format::WindowsScript)),
            (
                "Content-Type: multipart/mixed; boundary=x\nMIME-Version: 1.0\n\n",
                Some(Format::Mime),
            ),
            (
                "From nobody\nContent-Type: text/plain\nmime-version: 1.0\n\n",
                Some(Format::Mime),
            ),
            (
                "version: v1alpha1\nmachine:\n  type: worker\n",
                Some(Format::TalosMachineConfig),
            ),
            (
                "---\napiVersion: v1alpha1\nkind: HostnameConfig\n",
                Some(Format::TalosMachineConfig),
            ),
            ("Content-Type: multipart/mixed; boundary=x\n\n", None),
            ("\nMIME-Version: 1.0\n\n", None),
            ("users: []\n", None),
            ("# cloud-config\n", None),
            ("ü", None),
        ] {
            assert_eq!(Format::of_text(text), format, "{text}");
        }
    }
}
