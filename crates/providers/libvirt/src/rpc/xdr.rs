//! XDR, the form in which libvirt's messages travel: big-endian words, everything padded to four bytes.
//!
//! Nothing that comes in is believed: lengths are checked against what is there before anything is allocated.

use bytes::Bytes;
use polyvirt_provider_kit::uuid::Uuid;

/// The longest text, as libvirt itself has it.
const MOST_TEXT: usize = 4 << 20;
/// The longest list, as libvirt itself has it.
const MOST_ITEMS: usize = 262_144;

/// Why bytes could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XdrError {
    /// They end too early.
    #[error("a message of libvirt ends too early")]
    Short,
    /// A length is beyond what libvirt allows.
    #[error("a message of libvirt claims a length of {0}")]
    TooLong(usize),
    /// Text that is no UTF-8.
    #[error("a text of libvirt is no UTF-8")]
    NotText,
    /// A choice that is not known.
    #[error("a message of libvirt has the unknown variant {0}")]
    Variant(u32),
}

/// What can be written.
pub(crate) trait Encode {
    /// Appends itself.
    fn encode(&self, to: &mut Vec<u8>);
}

/// What can be read.
pub(crate) trait Decode: Sized {
    /// Takes itself from the front.
    fn decode(from: &mut Reader) -> Result<Self, XdrError>;
}

/// Bytes that are being read.
#[derive(Clone, Debug)]
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The next bytes as they are.
    pub(crate) fn take(&mut self, length: usize) -> Result<Bytes, XdrError> {
        if self.0.len() < length {
            return Err(XdrError::Short);
        }
        Ok(self.0.split_to(length))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], XdrError> {
        let mut array = [0; N];
        array.copy_from_slice(&self.take(N)?);
        Ok(array)
    }

    fn length(&mut self, most: usize) -> Result<usize, XdrError> {
        let length = usize::try_from(u32::decode(self)?).unwrap_or(usize::MAX);
        if length > most {
            return Err(XdrError::TooLong(length));
        }
        Ok(length)
    }
}

/// Reads one thing; what follows it is of a newer protocol and is left.
pub(crate) fn read<T: Decode>(bytes: Bytes) -> Result<T, XdrError> {
    T::decode(&mut Reader::new(bytes))
}

/// Writes one thing.
pub(crate) fn write(what: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    what.encode(&mut bytes);
    bytes
}

const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl Encode for $kind {
            fn encode(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Decode for $kind {
            fn decode(from: &mut Reader) -> Result<Self, XdrError> {
                Ok(Self::from_be_bytes(from.array()?))
            }
        }
    )*};
}

number!(u32, i32, u64, i64, f64);

impl Encode for &str {
    fn encode(&self, to: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).encode(to);
        to.extend_from_slice(self.as_bytes());
        to.resize(to.len() + padding(self.len()), 0);
    }
}

impl Encode for String {
    fn encode(&self, to: &mut Vec<u8>) {
        self.as_str().encode(to);
    }
}

impl Decode for String {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let length = from.length(MOST_TEXT)?;
        let text = from.take(length)?;
        from.take(padding(length))?;
        Self::from_utf8(text.to_vec()).map_err(|_| XdrError::NotText)
    }
}

/// Bytes that are nobody's business but libvirt's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opaque(Bytes);

impl Encode for Opaque {
    fn encode(&self, to: &mut Vec<u8>) {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX).encode(to);
        to.extend_from_slice(&self.0);
        to.resize(to.len() + padding(self.0.len()), 0);
    }
}

impl Decode for Opaque {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let length = from.length(MOST_TEXT)?;
        let bytes = from.take(length)?;
        from.take(padding(length))?;
        Ok(Self(bytes))
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        u32::from(self.is_some()).encode(to);
        if let Some(inner) = self {
            inner.encode(to);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        match u32::decode(from)? {
            0 => Ok(None),
            1 => T::decode(from).map(Some),
            other => Err(XdrError::Variant(other)),
        }
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, to: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).encode(to);
        for item in self {
            item.encode(to);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        self.as_slice().encode(to);
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        let length = from.length(MOST_ITEMS)?;
        (0..length).map(|_| T::decode(from)).collect()
    }
}

impl Encode for Uuid {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.bytes());
    }
}

impl Decode for Uuid {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        from.array().map(Self::from_bytes)
    }
}

impl<T: Encode> Encode for &T {
    fn encode(&self, to: &mut Vec<u8>) {
        (*self).encode(to);
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Vec<u8>) {}
}

impl Decode for () {
    fn decode(_: &mut Reader) -> Result<Self, XdrError> {
        Ok(())
    }
}

macro_rules! tuple {
    ($($name:ident . $place:tt),*) => {
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            fn encode(&self, to: &mut Vec<u8>) {
                $(self.$place.encode(to);)*
            }
        }
        impl<$($name: Decode),*> Decode for ($($name,)*) {
            fn decode(from: &mut Reader) -> Result<Self, XdrError> {
                Ok(($($name::decode(from)?,)*))
            }
        }
    };
}

tuple!(A.0);
tuple!(A.0, B.1);
tuple!(A.0, B.1, C.2);
tuple!(A.0, B.1, C.2, D.3);
tuple!(A.0, B.1, C.2, D.3, E.4);
tuple!(A.0, B.1, C.2, D.3, E.4, F.5);

/// A value of a list of named values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Any whole number that is not below zero.
    Number(u64),
    /// Any other whole number.
    Signed(i64),
    /// A fraction.
    Fraction(f64),
    /// A text.
    Text(String),
}

impl Decode for Value {
    fn decode(from: &mut Reader) -> Result<Self, XdrError> {
        Ok(match u32::decode(from)? {
            // A truth is a number too.
            1 | 6 => signed(i64::from(i32::decode(from)?)),
            2 => Self::Number(u64::from(u32::decode(from)?)),
            3 => signed(i64::decode(from)?),
            4 => Self::Number(u64::decode(from)?),
            5 => Self::Fraction(f64::decode(from)?),
            7 => Self::Text(String::decode(from)?),
            other => return Err(XdrError::Variant(other)),
        })
    }
}

fn signed(number: i64) -> Value {
    u64::try_from(number).map_or(Value::Signed(number), Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Sample = (String, Vec<(u32, Option<String>)>, i64, Option<u64>);

    fn round<T: Encode + Decode>(value: &T) -> Result<T, XdrError> {
        read(Bytes::from(write(value)))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            text in ".{0,40}",
            list in prop::collection::vec((any::<u32>(), prop::option::of(".{0,9}")), 0..8),
            number in any::<i64>(),
            last in prop::option::of(any::<u64>()),
        ) {
            let sample: Sample = (text, list, number, last);
            prop_assert_eq!(write(&sample).len() % 4, 0);
            prop_assert_eq!(round(&sample), Ok(sample));
        }

        #[test]
        fn no_bytes_make_it_fall(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read::<Sample>(Bytes::from(bytes.clone()));
            let _ = read::<Vec<(String, Value)>>(Bytes::from(bytes));
        }

        #[test]
        fn bytes_cut_off_anywhere_are_refused(text in ".{1,20}", cut in 1_usize..4) {
            let bytes = write(&(text, 7_u32));
            let short = Bytes::from(bytes[..bytes.len() - cut].to_vec());
            prop_assert_eq!(read::<(String, u32)>(short), Err(XdrError::Short));
        }
    }

    #[test]
    fn text_is_padded_as_rfc_4506_has_it() {
        assert_eq!(write(&"abcde"), b"\0\0\0\x05abcde\0\0\0");
        assert_eq!(write(&None::<u32>), b"\0\0\0\0");
        assert_eq!(write(&(1_u32, -1_i32)), b"\0\0\0\x01\xff\xff\xff\xff");
    }

    #[test]
    fn a_length_that_lies_costs_no_memory() {
        let lie = Bytes::from_static(b"\xff\xff\xff\xff");
        assert_eq!(
            read::<String>(lie.clone()),
            Err(XdrError::TooLong(0xffff_ffff))
        );
        let long = Bytes::from_static(b"\x00\x03\xff\xff");
        assert_eq!(read::<Vec<u32>>(long), Err(XdrError::Short));
    }
}
