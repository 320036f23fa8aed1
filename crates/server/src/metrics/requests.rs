//! Requests, by route.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ff_engine::meters::Histogram;

use super::text::Text;

/// The statuses that are counted each for itself; all others together are `other`.
const STATUSES: [u16; 19] =
    [200, 201, 202, 303, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 500, 503, 504];

/// What requests to no route are counted under.
const NO_ROUTE: &str = "none";

/// Requests that were answered. Which routes there are is known from the start, so counting takes no lock.
#[derive(Debug)]
pub struct Requests(BTreeMap<String, Route>);

#[derive(Debug, Default)]
struct Route {
    /// One more than there are statuses: the last is for the others.
    statuses: [AtomicU64; STATUSES.len() + 1],
    took: Histogram,
}

impl Requests {
    pub fn new(routes: impl IntoIterator<Item = String>) -> Requests {
        let routes = routes.into_iter().chain([NO_ROUTE.to_owned()]);
        Requests(routes.map(|route| (route, Route::default())).collect())
    }

    /// `took` is absent for requests that wait as long as they like.
    pub fn add(&self, route: Option<&str>, status: u16, took: Option<Duration>) {
        let known = route.and_then(|route| self.0.get(route)).or_else(|| self.0.get(NO_ROUTE));
        let Some(it) = known else { return };
        let place = STATUSES.iter().position(|it| *it == status).unwrap_or(STATUSES.len());
        it.statuses[place].fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took {
            it.took.add(took);
        }
    }

    /// Routes that nobody has asked for are left out.
    pub fn write(&self, text: &mut Text) {
        for (route, it) in &self.0 {
            let mut asked = false;
            for (place, count) in it.statuses.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    asked = true;
                    let status = STATUSES.get(place).map_or("other".to_owned(), u16::to_string);
                    let labels = [("route", route.as_str()), ("status", &status)];
                    text.value("flowfabric_http_requests_total", &labels, count as f64);
                }
            }
            if asked {
                text.histogram("flowfabric_http_seconds", &[("route", route)], &it.took.read());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_counts_under_its_route_and_status_and_unknown_ones_together() {
        let requests = Requests::new(["/v1/executions".to_owned(), "/silent".to_owned()]);
        let took = Some(Duration::from_millis(3));
        requests.add(Some("/v1/executions"), 201, took);
        requests.add(Some("/v1/executions"), 201, None);
        requests.add(Some("/v1/executions"), 418, took);
        requests.add(Some("/elsewhere"), 404, took);
        requests.add(None, 404, took);
        let mut text = Text::default();
        requests.write(&mut text);
        let text = text.finish();
        for line in [
            r#"flowfabric_http_requests_total{route="/v1/executions",status="201"} 2"#,
            r#"flowfabric_http_requests_total{route="/v1/executions",status="other"} 1"#,
            r#"flowfabric_http_requests_total{route="none",status="404"} 2"#,
            r#"flowfabric_http_seconds_count{route="/v1/executions"} 2"#,
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
        assert!(!text.contains("/silent") && !text.contains("/elsewhere"));
    }
}
