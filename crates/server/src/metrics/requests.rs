//! Requests, by route.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ff_engine::meters::Histogram;

use super::text::Text;

/// Requests that were answered. Routes are those of the router, so their number is bounded.
#[derive(Debug, Default)]
pub struct Requests(Mutex<BTreeMap<String, Route>>);

#[derive(Debug, Default)]
struct Route {
    statuses: BTreeMap<u16, u64>,
    took: Histogram,
}

impl Requests {
    /// `took` is absent for requests that wait as long as they like.
    pub fn add(&self, route: &str, status: u16, took: Option<Duration>) {
        let mut routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.contains_key(route) {
            routes.insert(route.to_owned(), Route::default());
        }
        let Some(it) = routes.get_mut(route) else { return };
        *it.statuses.entry(status).or_default() += 1;
        if let Some(took) = took {
            it.took.add(took);
        }
    }

    pub fn write(&self, text: &mut Text) {
        let routes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (route, it) in routes.iter() {
            for (status, count) in &it.statuses {
                let labels = [("route", route.as_str()), ("status", &status.to_string())];
                text.value("flowfabric_http_requests_total", &labels, *count as f64);
            }
            text.histogram("flowfabric_http_seconds", &[("route", route)], &it.took.read());
        }
    }
}
