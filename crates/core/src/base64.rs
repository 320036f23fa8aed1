//! Bytes inside JSON: text as it is where it is text, and standard base64 with padding where it is not.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const WORDS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for n in 0..4 {
            let word = WORDS[(bits >> (18 - 6 * n)) as usize & 63];
            text.push(if n <= three.len() { char::from(word) } else { '=' });
        }
    }
    text
}

/// `None` if it is not base64 in its one spelling.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (n, four) in text.chunks(4).enumerate() {
        let last = (n + 1) * 4 == text.len();
        let padding = four.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || (padding > 0 && !last) {
            return None;
        }
        let mut bits = 0u32;
        for byte in &four[..4 - padding] {
            bits = bits << 6 | value(*byte)?;
        }
        bits <<= 6 * padding;
        let three = bits.to_be_bytes();
        bytes.extend_from_slice(&three[1..4 - padding]);
    }
    Some(bytes)
}

fn value(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Text(String),
    Base64(String),
}

pub(crate) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    let written = match std::str::from_utf8(bytes) {
        Ok(text) => Written::Text(text.to_owned()),
        Err(_) => Written::Base64(encode(bytes)),
    };
    written.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(text.into()),
        Written::Base64(text) => {
            decode(&text).map(Bytes::from).ok_or_else(|| serde::de::Error::custom("bytes are not base64"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_goes_both_ways_and_nonsense_is_refused() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(plain.as_bytes()), coded);
        }
        for length in 0..70usize {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 37 + length) as u8).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
        for text in ["a", "ab==cd==", "====", "a b=", "YQ=a", "_w=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
