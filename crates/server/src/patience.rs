//! A connection whose other end does not read is not kept for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Ends with an error when nothing of what is to be written has been taken for too long.
#[derive(Debug)]
pub struct Patient<IO> {
    io: IO,
    patience: Duration,
    /// Since writing has been stuck. Most connections never are, and then it takes no room.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<IO> Patient<IO> {
    pub fn new(io: IO, patience: Duration) -> Patient<IO> {
        Patient { io, patience, stuck: None }
    }
}

impl<IO: AsyncWrite + Unpin> Patient<IO> {
    fn within_patience<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut IO>, &mut Context<'_>) -> Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        let written = write(Pin::new(&mut self.io), context);
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the other end does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Patient<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Patient<IO> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.within_patience(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.within_patience(context, |io, context| io.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.within_patience(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.within_patience(context, |io, context| io.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn who_does_not_read_is_given_up_and_who_reads_slowly_is_not() {
        let (near, mut far) = tokio::io::duplex(10);
        let mut near = Patient::new(near, Duration::from_secs(3));
        let reading = async {
            let mut bytes = [0; 10];
            for _ in 0..12 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                far.read_exact(&mut bytes).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 130]), reading);
        written.unwrap();
        let started = std::time::Instant::now();
        let error = near.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() >= Duration::from_millis(2_990), "{:?}", started.elapsed());
        drop(far);
    }
}
