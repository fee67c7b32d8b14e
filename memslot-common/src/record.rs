//! The `record!` macro: one definition of a structure for both sides.

/// A scalar that a record may hold.
#[allow(unreachable_pub, reason = "the macro names it in public structures")]
pub trait Scalar: Copy + Sized {
    /// The value at the start of `bytes`, in the machine's byte order; `None` where they are too few.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Writes the value to the start of `bytes`, which must be long enough.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! scalar {
    ($($kind:ty),*) => { $(
        impl Scalar for $kind {
            fn read(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_ne_bytes(bytes.first_chunk().copied()?))
            }
            fn write(self, bytes: &mut [u8]) {
                if let Some(place) = bytes.first_chunk_mut() {
                    *place = self.to_ne_bytes();
                }
            }
        }
    )* };
}
scalar!(u8, u16, u32, u64, i16, i32, i64);

/// Defines a `repr(C)` structure of scalars that has no padding (checked when compiled), with a
/// strict reader and a writer, so that no side mirrors the other's layout by hand.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident { $( $(#[$field_meta:meta])* pub $field:ident : $kind:ty, )* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $( $(#[$field_meta])* pub $field: $kind, )* }

        const _: () = assert!(size_of::<$name>() == 0 $( + size_of::<$kind>() )*, "padding in a record");

        impl $name {
            /// Bytes that one record takes.
            pub const SIZE: usize = size_of::<Self>();

            /// The record whose every member is 0.
            pub const ZERO: Self = Self { $( $field: 0, )* };

            /// The record that `bytes` hold; `None` unless they are exactly one record long.
            #[must_use]
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                if bytes.len() != Self::SIZE {
                    return None;
                }
                Some(Self { $( $field: $crate::record::Scalar::read(
                    bytes.get(core::mem::offset_of!(Self, $field)..)?)?, )* })
            }

            /// The record's bytes, as the kernel side lays them out.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                $( $crate::record::Scalar::write(
                    self.$field, &mut bytes[core::mem::offset_of!(Self, $field)..]); )*
                bytes
            }
        }
    };
}
