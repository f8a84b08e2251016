//! A fingerprint as the sidecar keeps it: some twenty bytes, for there is one a session.

use crate::files::fingerprint::Fingerprint;

/// Packs a fingerprint; empty for a file that must be looked at again.
pub fn pack(print: Option<&Fingerprint>) -> Vec<u8> {
    let Some(print) = print else { return Vec::new() };
    let mut out = Vec::with_capacity(40);
    out.extend(print.mtime_ns.to_le_bytes());
    // Mostly the same moment.
    put_signed(&mut out, print.ctime_ns.wrapping_sub(print.mtime_ns));
    for number in [print.size, print.inode, print.device] {
        put(&mut out, number);
    }
    if let Some((mtime_ns, ctime_ns, size)) = print.wal {
        out.extend(mtime_ns.to_le_bytes());
        put_signed(&mut out, ctime_ns.wrapping_sub(mtime_ns));
        put(&mut out, size);
    }
    out
}

/// Reads what [`pack`] wrote; `None` for a file that must be looked at again.
pub fn unpack(mut bytes: &[u8]) -> Option<Fingerprint> {
    let (mtime_ns, ctime_ns) = take_times(&mut bytes)?;
    let (size, inode, device) = (take(&mut bytes)?, take(&mut bytes)?, take(&mut bytes)?);
    let wal = if bytes.is_empty() {
        None
    } else {
        let (mtime_ns, ctime_ns) = take_times(&mut bytes)?;
        Some((mtime_ns, ctime_ns, take(&mut bytes)?))
    };
    bytes.is_empty().then_some(Fingerprint { mtime_ns, ctime_ns, size, inode, device, wal, has_tail: false })
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Seven bits a byte, the lowest first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take_times(bytes: &mut &[u8]) -> Option<(i64, i64)> {
    let (mtime, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    let mtime_ns = i64::from_le_bytes(*mtime);
    let folded = take(bytes)?;
    let apart = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
    Some((mtime_ns, mtime_ns.wrapping_add(apart)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_comes_back() {
        let numbers = [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX];
        let times = [0, 1, -1, 1_796_080_945_278_048_123, i64::MIN, i64::MAX];
        for (&number, &time) in numbers.iter().zip(&times) {
            for (&other, &later) in numbers.iter().zip(&times) {
                for wal in [None, Some((later, time, other))] {
                    let (mtime_ns, ctime_ns) = (time, later);
                    let print = Fingerprint {
                        mtime_ns,
                        ctime_ns,
                        size: number,
                        inode: other,
                        device: number,
                        wal,
                        has_tail: false,
                    };

                    assert_eq!(unpack(&pack(Some(&print))), Some(print));
                }
            }
        }
    }

    #[test]
    fn what_was_not_packed_is_none() {
        let print = Fingerprint {
            mtime_ns: 1,
            ctime_ns: 2,
            size: 3,
            inode: 4,
            device: 5,
            wal: None,
            has_tail: false,
        };
        let packed = pack(Some(&print));

        let longer = [packed.as_slice(), &[0]].concat();

        assert!((0..packed.len()).all(|end| unpack(&packed[..end]).is_none()));
        assert_eq!(unpack(&longer), None);
    }
}
