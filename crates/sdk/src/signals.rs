//! Being asked to end.

/// Ends when the process is asked to end: ctrl-c, SIGINT or SIGTERM. [`Worker::run`](crate::Worker::run) stops then;
/// programs that do something else beside can, too.
///
/// It listens from when it is called, not from when it is first waited for: a signal in between is not lost, and does not
/// end the process at once. For that it has to be called within a runtime.
pub fn asked_to_end() -> impl Future<Output = ()> + Send {
    #[cfg(unix)]
    let signals = {
        use tokio::signal::unix::{SignalKind, signal};
        [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok())
    };
    async move {
        #[cfg(unix)]
        {
            let [interrupted, terminated] = signals.map(|signal| async move {
                match signal {
                    Some(mut signal) => drop(signal.recv().await),
                    None => std::future::pending().await,
                }
            });
            tokio::select! {
                () = interrupted => {}
                () = terminated => {}
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
