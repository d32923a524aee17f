//! Lines of bounded length from a pipe.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::time::sleep;

/// The pause between two pieces of a line that is too long, which might never end.
const DISCARD_PAUSE: Duration = Duration::from_millis(1);

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line is in the buffer, without its end.
    Whole,
    /// A line was longer than allowed; the buffer holds its beginning.
    TooLong,
    /// Nothing more comes.
    End,
}

/// Reads one line of at most `cap` bytes into `buffer`.
pub async fn read_line<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    buffer: &mut Vec<u8>,
    cap: usize,
) -> io::Result<Line> {
    read(reader, buffer, cap, Rest::ThrownAway).await
}

/// The same, but the rest of a line that is too long is not read: it might never end.
pub async fn read_line_or_stop<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    buffer: &mut Vec<u8>,
    cap: usize,
) -> io::Result<Line> {
    read(reader, buffer, cap, Rest::Left).await
}

/// What becomes of the rest of a line that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    ThrownAway,
    Left,
}

async fn read<R: AsyncBufRead + Unpin>(
    reader: &mut R,
    buffer: &mut Vec<u8>,
    cap: usize,
    rest: Rest,
) -> io::Result<Line> {
    buffer.clear();
    let mut too_long = false;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            let nothing = buffer.is_empty() && !too_long;
            return Ok(if nothing { Line::End } else { finish(too_long) });
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let (piece, _) = available.split_at(end.unwrap_or(available.len()));
        let room = cap.saturating_sub(buffer.len());
        too_long |= piece.len() > room;
        buffer.extend(piece.iter().take(room));
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() || (too_long && rest == Rest::Left) {
            return Ok(finish(too_long));
        }
        if too_long {
            sleep(DISCARD_PAUSE).await;
        }
    }
}

const fn finish(too_long: bool) -> Line {
    if too_long { Line::TooLong } else { Line::Whole }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn lines(text: &str, chunk: usize, cap: usize) -> Vec<(Line, String)> {
        let mut reader = BufReader::with_capacity(chunk, text.as_bytes());
        let (mut buffer, mut all) = (Vec::new(), Vec::new());
        loop {
            let line = read_line(&mut reader, &mut buffer, cap).await.unwrap();
            if line == Line::End {
                return all;
            }
            all.push((line, String::from_utf8(buffer.clone()).unwrap()));
        }
    }

    #[tokio::test]
    async fn lines_are_bounded_whatever_the_chunks() {
        for chunk in [1, 2, 3, 64] {
            let expected = [
                (Line::Whole, "abcd".to_owned()),
                (Line::TooLong, "abcd".to_owned()),
                (Line::Whole, String::new()),
                (Line::Whole, "end".to_owned()),
            ];
            assert_eq!(
                lines("abcd\nabcdefgh\n\nend", chunk, 4).await,
                expected,
                "chunks of {chunk}"
            );
        }
    }

    #[tokio::test]
    async fn the_rest_of_a_line_that_is_too_long_can_be_left() {
        let mut reader = BufReader::with_capacity(8, &b"abcdefghijkl"[..]);
        let mut buffer = Vec::new();
        let line = read_line_or_stop(&mut reader, &mut buffer, 4).await.unwrap();
        assert_eq!((line, buffer.as_slice()), (Line::TooLong, &b"abcd"[..]));
        assert_eq!(reader.buffer(), b"");
        assert_eq!(reader.get_ref(), b"ijkl");
    }
}
