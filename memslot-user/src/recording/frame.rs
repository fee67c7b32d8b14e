//! The messages of an Arrow IPC stream, one at a time, each checked before the decoder sees it.
//!
//! The decoder trusts lengths: a damaged one would make it allocate without bound or slice out of
//! range. So every length is compared with the file and with what our tables can hold at most.

use super::error::Error;
use arrow_ipc::{Buffer as BufferPlace, Message, MessageHeader, RecordBatch, root_as_message};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Rows that a batch can have at most; the writer makes 65,536.
const MOST_ROWS: i64 = 1 << 20;
/// Bytes of the message head (a schema is the largest, some KiB).
const MOST_HEAD: u32 = 1 << 20;
/// Bytes of the message body.
const MOST_BODY: i64 = 1 << 28;
/// Bytes of the texts of a dictionary, and how many texts.
const MOST_TEXT: i64 = 1 << 16;
const MOST_TEXTS: i64 = 128;

/// What stands next in the stream.
pub(super) enum Frame {
    /// A whole message with its prefix.
    Message(Vec<u8>),
    /// The marker at the end of a finished stream.
    End,
    /// The file ends without the marker, or within a message.
    CutOff,
}

/// Reads messages from a file.
pub(super) struct Frames {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    at: u64,
    columns: usize,
}

impl Frames {
    /// Reads `file`, whose batches have `columns` columns.
    pub(super) fn new(path: PathBuf, file: File, columns: usize) -> Result<Self, Error> {
        let length = file.metadata().map_err(|error| Error::io("look at", &path, error))?.len();
        Ok(Self { path, file: BufReader::with_capacity(1 << 16, file), length, at: 0, columns })
    }

    /// The schema has been read: batches have so many columns.
    pub(super) fn expect_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the next message begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Bytes from there to the end.
    pub(super) fn remaining(&self) -> u64 {
        self.length - self.at
    }

    /// The error that says what is wrong with the message at [`Self::at`].
    pub(super) fn corrupt(&self, reason: impl Into<String>) -> Error {
        Error::Corrupt { path: self.path.clone(), at: self.at, reason: reason.into() }
    }

    /// Goes past the message of `length` bytes that [`Self::next`] returned.
    pub(super) fn advance(&mut self, length: usize) {
        self.at += length as u64;
    }

    /// The next message, checked.
    pub(super) fn next(&mut self) -> Result<Frame, Error> {
        let remaining = self.remaining();
        let mut message = vec![0; 8];
        if remaining < 8 || !self.fill(&mut message)? {
            return Ok(Frame::CutOff);
        }
        // A machine that lost power can leave a tail of zeros.
        if message == [0; 8] {
            return Ok(Frame::CutOff);
        }
        let (marker, head) = message.split_at(4);
        let head = u32::from_le_bytes(head.try_into().map_err(|_| self.corrupt("no length"))?);
        if marker != [0xff; 4] {
            return Err(self.corrupt("no message begins here"));
        }
        if head == 0 {
            return if remaining == 8 { Ok(Frame::End) } else { Err(self.corrupt("more follows the end")) };
        }
        if head > MOST_HEAD {
            return Err(self.corrupt(format!("a message head of {head} bytes")));
        }
        let body_at = 8 + u64::from(head);
        if body_at > remaining || !self.grow(&mut message, u64::from(head))? {
            return Ok(Frame::CutOff);
        }
        let parsed = self.parse(&message)?;
        let (body, kind) = (parsed.bodyLength(), parsed.header_type());
        let body = match u64::try_from(body) {
            Ok(length) if body <= MOST_BODY => length,
            _ => return Err(self.corrupt(format!("a message body of {body} bytes"))),
        };
        if body > remaining - body_at || !self.grow(&mut message, body)? {
            return Ok(Frame::CutOff);
        }
        self.check(&message, kind)?;
        Ok(Frame::Message(message))
    }

    /// Appends `more` bytes of the file; false if the file has become too short for them.
    fn grow(&mut self, message: &mut Vec<u8>, more: u64) -> Result<bool, Error> {
        let old = message.len();
        message.resize(old + usize::try_from(more).map_err(|_| self.corrupt("too long"))?, 0);
        self.fill(&mut message[old..])
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::io("read", &self.path, error)),
        }
    }

    fn parse<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Error> {
        let head = usize::try_from(u32::from_le_bytes([message[4], message[5], message[6], message[7]]))
            .map_err(|_| self.corrupt("too long"))?;
        root_as_message(&message[8..8 + head])
            .map_err(|error| self.corrupt(format!("a bad message ({error})")))
    }

    fn check(&self, bytes: &[u8], kind: MessageHeader) -> Result<(), Error> {
        let message = self.parse(bytes)?;
        let body_length = usize::try_from(message.bodyLength()).map_err(|_| self.corrupt("too long"))?;
        let body = &bytes[bytes.len() - body_length..];
        if kind == MessageHeader::RecordBatch {
            let batch =
                message.header_as_record_batch().ok_or_else(|| self.corrupt("a batch without head"))?;
            // 8 bytes a value at most, and padding.
            let most = batch.length().clamp(0, MOST_ROWS) * 8 + 64;
            self.check_batch(
                batch,
                body,
                Limits {
                    rows: MOST_ROWS,
                    bytes: most,
                    columns: self.columns,
                    buffers: 2 * self.columns,
                    offsets: None,
                },
            )
        } else if kind == MessageHeader::DictionaryBatch {
            let batch = message
                .header_as_dictionary_batch()
                .filter(|dictionary| !dictionary.isDelta())
                .and_then(|dictionary| dictionary.data())
                .ok_or_else(|| self.corrupt("a dictionary without texts"))?;
            self.check_batch(
                batch,
                body,
                Limits { rows: MOST_TEXTS, bytes: MOST_TEXT, columns: 1, buffers: 3, offsets: Some(1) },
            )
        } else if kind == MessageHeader::Schema {
            Ok(())
        } else {
            Err(self.corrupt("a message of a kind that recordings do not have"))
        }
    }

    fn check_batch(&self, batch: RecordBatch<'_>, body: &[u8], limits: Limits) -> Result<(), Error> {
        let rows = batch.length();
        if !(0..=limits.rows).contains(&rows) {
            return Err(self.corrupt(format!("a batch of {rows} rows")));
        }
        let nodes = batch.nodes().ok_or_else(|| self.corrupt("a batch without columns"))?;
        let buffers = batch.buffers().ok_or_else(|| self.corrupt("a batch without data"))?;
        if nodes.len() != limits.columns || buffers.len() != limits.buffers {
            return Err(self.corrupt("a batch with too many or too few columns"));
        }
        if nodes.iter().any(|node| node.length() != rows || !(0..=rows).contains(&node.null_count())) {
            return Err(self.corrupt("columns of different lengths"));
        }
        let compressed = batch.compression().is_some();
        for (number, place) in buffers.iter().enumerate() {
            let length = self.buffer_length(place, body, compressed)?;
            if !(0..=limits.bytes).contains(&length) {
                return Err(self.corrupt("a column of impossible length"));
            }
            if limits.offsets == Some(number) && length % 4 != 0 {
                return Err(self.corrupt("texts whose places are cut"));
            }
        }
        Ok(())
    }

    /// Bytes of a column's buffer once it is decompressed.
    fn buffer_length(&self, place: &BufferPlace, body: &[u8], compressed: bool) -> Result<i64, Error> {
        let bytes = usize::try_from(place.offset())
            .ok()
            .zip(usize::try_from(place.length()).ok())
            .and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?))
            .ok_or_else(|| self.corrupt("a column that lies outside its batch"))?;
        if !compressed || bytes.is_empty() {
            return Ok(place.length());
        }
        // A compressed buffer begins with its length before compression; -1 means not compressed.
        let prefix = bytes.first_chunk().map(|length| i64::from_le_bytes(*length));
        let prefix = prefix.ok_or_else(|| self.corrupt("a column without its length"))?;
        Ok(if prefix == -1 { place.length() - 8 } else { prefix })
    }
}

/// What a batch may hold at most, and how many columns and buffers it must have.
struct Limits {
    rows: i64,
    bytes: i64,
    columns: usize,
    buffers: usize,
    /// The buffer of 4-byte text offsets, which the decoder takes for whole ones without looking.
    offsets: Option<usize>,
}
