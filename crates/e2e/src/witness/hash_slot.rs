//! Which slot a key belongs to, and keys for a given slot.

use std::sync::LazyLock;

use valkey::slots::SLOT_COUNT;

static TAGS: LazyLock<Vec<String>> = LazyLock::new(find_tags);

/// The slot of a key without braces, or of what stands between its braces.
pub fn slot_of(tag: &str) -> u16 {
    crc16(tag.as_bytes()) % SLOT_COUNT
}

/// One tag for every slot, by slot: `{tag}` anywhere in a key puts the key into the slot.
pub fn tags() -> &'static [String] {
    &TAGS
}

fn find_tags() -> Vec<String> {
    let mut tags = vec![String::new(); usize::from(SLOT_COUNT)];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let tag = number.to_string();
        let place = &mut tags[usize::from(slot_of(&tag))];
        if place.is_empty() {
            *place = tag;
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags
}

/// The checksum the cluster specification names: CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As a server answers CLUSTER KEYSLOT.
        assert_eq!((slot_of("foo"), slot_of("bar"), slot_of("")), (12182, 5061, 0));
    }

    #[test]
    fn every_slot_has_a_tag() {
        let tags = tags();
        for (slot, tag) in tags.iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag)), slot);
            assert!(!tag.is_empty(), "an empty tag is none: the whole key would count");
        }
    }
}
