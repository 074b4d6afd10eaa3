//! What a guest writes, for a terminal that is not the guest's: a guest must not move the cursor, ask the terminal or change
//! its colours.

const ESCAPE: u8 = 0x1B;
const BELL: u8 = 0x07;

/// Takes out all sequences by which programs drive a terminal, and all control characters but ends of lines and tabs. They
/// may be cut anywhere between two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plain {
    /// In the middle of text.
    #[default]
    Text,
    /// After an escape.
    Escape,
    /// In a sequence that a letter ends, such as a colour.
    Sequence,
    /// In a text for the terminal itself, such as its title.
    Command,
    /// After the first byte of what may be a control character in UTF-8.
    Utf8,
}

impl Plain {
    /// The text of the next bytes.
    pub fn text(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            *self = self.step(byte, &mut text);
        }
        text
    }

    fn step(self, byte: u8, text: &mut Vec<u8>) -> Self {
        if byte == ESCAPE {
            return Self::Escape;
        }
        match self {
            Self::Text => in_text(byte, text),
            Self::Escape => after_escape(byte),
            Self::Sequence if matches!(byte, b' '..=b'?') => self,
            Self::Command if byte != BELL => self,
            Self::Utf8 if !matches!(byte, 0x80..=0x9F) => {
                text.push(0xC2);
                in_text(byte, text)
            }
            Self::Sequence | Self::Command | Self::Utf8 => Self::Text,
        }
    }
}

fn in_text(byte: u8, text: &mut Vec<u8>) -> Plain {
    if byte == 0xC2 {
        return Plain::Utf8;
    }
    if !byte.is_ascii_control() || matches!(byte, b'\n' | b'\t') {
        text.push(byte);
    }
    Plain::Text
}

fn after_escape(byte: u8) -> Plain {
    match byte {
        b'[' => Plain::Sequence,
        b']' | b'P' | b'X' | b'^' | b'_' => Plain::Command,
        b' '..=b'/' => Plain::Escape,
        _ => Plain::Text,
    }
}

/// One whole text.
pub fn plain(text: &str) -> String {
    let bytes = Plain::default().text(text.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_drive_no_terminal() {
        for (shown, text) in [
            (
                "guest# \x1b[6nGUEST\x1b[1;31m ok\x07\r\n",
                "guest# GUEST ok\n",
            ),
            ("\x1b]0;title\x07a\x1b]0;title\x1b\\b", "ab"),
            ("\x1b(Bplain\ttext", "plain\ttext"),
            ("\u{9b}31m größer ©", "31m größer ©"),
            ("\x1b[", ""),
        ] {
            assert_eq!(plain(shown), text, "{shown:?}");
        }
    }

    #[test]
    fn sequences_may_be_cut_anywhere() {
        let whole = "a\x1b[1;31mb\x1b]0;t\x1b\\c§\u{85}d\r\n".as_bytes();
        for at in 0..whole.len() {
            let mut filter = Plain::default();
            let mut text = filter.text(&whole[..at]);
            text.extend(filter.text(&whole[at..]));
            assert_eq!(String::from_utf8_lossy(&text), "abc§d\n", "{at}");
        }
    }
}
