//! Texts of a provider: cut, and without control characters.

use std::collections::BTreeMap;

/// The longest name of anything, in bytes.
pub const NAME: usize = 1024;
/// The longest text for people, in bytes.
pub const TEXT: usize = 4096;
/// The most of what there are a few of.
pub const FEW: usize = 64;
/// The most of what there may be many of.
pub const MANY: usize = 512;

/// Cuts at a character, and makes spaces of control characters: a terminal or a log must not obey a provider.
pub fn plain(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.shrink_to_fit();
    }
    if text.chars().any(char::is_control) {
        *text = text.replace(char::is_control, " ");
    }
}

/// The first of a list, each of them plain.
pub fn plain_all(list: &mut Vec<String>, most: usize) {
    list.truncate(most);
    for text in list {
        plain(text, NAME);
    }
}

/// The first of a map, each of them plain.
pub fn plain_map(map: &mut BTreeMap<String, String>, most: usize) {
    let entries = std::mem::take(map).into_iter().take(most);
    *map = entries
        .map(|(mut key, mut value)| {
            plain(&mut key, NAME);
            plain(&mut value, TEXT);
            (key, value)
        })
        .collect();
}
