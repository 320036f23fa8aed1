//! Server-sent events, as they come in pieces.

use bytes::BytesMut;

/// More than any message has; a server that sends more is none of ours.
const MESSAGE_MAX: usize = 64 << 20;

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub event: String,
    pub data: String,
    /// The id it came with, or the one before.
    pub id: Option<String>,
}

/// Takes bytes in and gives messages out.
#[derive(Debug, Default)]
pub(super) struct Parser {
    pub bytes: BytesMut,
    /// How far the bytes were looked through for the end of a line.
    looked: usize,
    message: Message,
    has_data: bool,
    /// The newest id, which stays for the messages that follow.
    id: Option<String>,
}

impl Parser {
    /// Of a stream that goes on after the message with this id.
    pub fn after(id: Option<String>) -> Parser {
        Parser { id, ..Parser::default() }
    }

    /// The next message that is complete; one without data says only where the stream stands.
    pub fn next(&mut self) -> Result<Option<Message>, &'static str> {
        while let Some(line) = self.line() {
            if line.is_empty() {
                let (had, had_id) = (std::mem::take(&mut self.has_data), self.message.id.is_some());
                let mut message = std::mem::take(&mut self.message);
                if had || had_id {
                    message.id = self.id.clone();
                    return Ok(Some(message));
                }
                continue;
            }
            self.field(&line);
        }
        if self.bytes.len() + self.message.data.len() > MESSAGE_MAX {
            return Err("a message is too long");
        }
        Ok(None)
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.message.event),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            "id" if !value.contains('\0') => {
                self.id = Some(value.to_owned());
                self.message.id = self.id.clone();
            }
            // A comment keeps the connection alive; other fields mean nothing to this reader.
            _ => {}
        }
    }

    /// A complete line, without its end.
    fn line(&mut self) -> Option<String> {
        let found = self.bytes[self.looked..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.looked + at) else {
            self.looked = self.bytes.len();
            return None;
        };
        let line = self.bytes.split_to(end + 1);
        self.looked = 0;
        let line = &line[..end];
        Some(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        ": hello\n\nid: 1\nevent: created\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid: 2\n\n: beat\n\n";

    fn message(event: &str, data: &str, id: Option<&str>) -> Message {
        Message { event: event.to_owned(), data: data.to_owned(), id: id.map(str::to_owned) }
    }

    #[test]
    fn messages_are_the_same_however_their_bytes_are_cut() {
        let wanted = [
            message("created", "{\"a\":\n1}", Some("1")),
            message("", "x", Some("1")),
            message("", "", Some("2")),
        ];
        for size in 1..TEXT.len() {
            let mut parser = Parser::default();
            let mut found = Vec::new();
            for piece in TEXT.as_bytes().chunks(size) {
                parser.bytes.extend_from_slice(piece);
                while let Some(message) = parser.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, wanted, "pieces of {size}");
        }
    }

    #[test]
    fn a_message_without_an_id_stands_where_the_stream_went_on() {
        let mut parser = Parser::after(Some("7".to_owned()));
        parser.bytes.extend_from_slice(b"event: interrupted\ndata: x\n\n");
        assert_eq!(parser.next(), Ok(Some(message("interrupted", "x", Some("7")))));
    }

    #[test]
    fn a_message_that_never_ends_is_given_up() {
        let mut parser = Parser::default();
        parser.bytes.extend_from_slice(&vec![b'x'; MESSAGE_MAX + 1]);
        assert_eq!(parser.next(), Err("a message is too long"));
    }
}
