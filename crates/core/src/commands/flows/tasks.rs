//! Members whose news is being passed on, and who is served next.

use rustc_hash::FxHashMap;

use crate::flow::ListKey;
use crate::id::ExecutionId;

/// A member whose news is being passed on: the number of the edge visited last, or nothing where that is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub id: ExecutionId,
    pub down: Option<u64>,
    pub up: Option<u64>,
}

impl Task {
    fn after(&self, news: News) -> Option<u64> {
        match news {
            News::Downstreams => self.up,
            News::Upstreams => self.down,
        }
    }

    fn is_done(&self) -> bool {
        self.down.is_none() && self.up.is_none()
    }
}

/// Whose news is passed along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Upstreams,
    Downstreams,
}

impl News {
    /// The list of those who are told.
    pub fn list(self, id: ExecutionId) -> ListKey {
        match self {
            News::Downstreams => ListKey::Upstream(id),
            News::Upstreams => ListKey::Downstream(id),
        }
    }
}

/// In the order in which they came. Whoever has something left to tell its upstreams, or its downstreams, also stands
/// on a stack, so that the newest is found without looking at all of them.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    list: Vec<Task>,
    places: FxHashMap<ExecutionId, usize>,
    up: Vec<usize>,
    down: Vec<usize>,
}

impl Tasks {
    /// Adds a task, or adds to one that is known.
    pub fn add(&mut self, task: Task) {
        if task.is_done() {
            return;
        }
        let place = *self.places.entry(task.id).or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push(Task { id: task.id, down: None, up: None });
        }
        let known = &mut self.list[place];
        if task.up.is_some() && std::mem::replace(&mut known.up, task.up).is_none() {
            self.up.push(place);
        }
        if task.down.is_some() && std::mem::replace(&mut known.down, task.down).is_none() {
            self.down.push(place);
        }
    }

    /// The newest that has something left to tell in this direction, and after which edge.
    pub fn newest(&mut self, news: News) -> Option<(ExecutionId, u64)> {
        let stack = match news {
            News::Downstreams => &mut self.up,
            News::Upstreams => &mut self.down,
        };
        while let Some(place) = stack.last() {
            let task = &self.list[*place];
            match task.after(news) {
                Some(after) => return Some((task.id, after)),
                None => drop(stack.pop()),
            }
        }
        None
    }

    /// Notes how far a task is: after which edge it goes on, if it does.
    pub fn go_on(&mut self, id: ExecutionId, news: News, after: Option<u64>) {
        let Some(task) = self.places.get(&id).map(|place| &mut self.list[*place]) else { return };
        match news {
            News::Downstreams => task.up = after,
            News::Upstreams => task.down = after,
        }
        // Nobody asks for one that is done on both sides; a stack forgets it when it comes to it.
        let stack = match news {
            News::Downstreams => &mut self.up,
            News::Upstreams => &mut self.down,
        };
        if after.is_none() && stack.last().is_some_and(|place| self.list[*place].id == id) {
            stack.pop();
        }
    }

    /// Those that have something left to tell in this direction, newest first.
    pub fn unfinished(&self, news: News) -> impl Iterator<Item = (ExecutionId, u64)> {
        self.list.iter().rev().filter_map(move |task| Some((task.id, task.after(news)?)))
    }

    /// Takes out everything that is not done, in order.
    pub fn take(&mut self) -> Vec<Task> {
        let list = std::mem::take(self).list;
        list.into_iter().filter(|task| !task.is_done()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Route;

    fn id(n: u64) -> ExecutionId {
        ExecutionId::from_parts(0, Route(0), n)
    }

    fn task(n: u64, down: Option<u64>, up: Option<u64>) -> Task {
        Task { id: id(n), down, up }
    }

    #[test]
    fn the_newest_is_first_and_goes_on_where_it_was() {
        let mut tasks = Tasks::default();
        tasks.add(task(1, Some(0), None));
        tasks.add(task(2, Some(0), Some(0)));
        tasks.add(task(3, None, None));
        assert_eq!(tasks.newest(News::Downstreams), Some((id(2), 0)));
        assert_eq!(tasks.newest(News::Upstreams), Some((id(2), 0)));
        tasks.go_on(id(2), News::Upstreams, Some(7));
        assert_eq!(tasks.newest(News::Upstreams), Some((id(2), 7)));
        tasks.go_on(id(2), News::Upstreams, None);
        assert_eq!(tasks.newest(News::Upstreams), Some((id(1), 0)));
        assert_eq!(tasks.unfinished(News::Upstreams).collect::<Vec<_>>(), [(id(1), 0)]);
        tasks.go_on(id(2), News::Downstreams, None);
        assert_eq!(tasks.newest(News::Downstreams), None);
        assert_eq!(tasks.take().iter().map(|it| it.id).collect::<Vec<_>>(), [id(1)]);
        assert_eq!(tasks.newest(News::Upstreams), None);
    }

    #[test]
    fn one_that_is_told_something_again_begins_again() {
        let mut tasks = Tasks::default();
        tasks.add(task(1, Some(5), None));
        tasks.add(task(1, Some(0), Some(3)));
        assert_eq!(tasks.newest(News::Upstreams), Some((id(1), 0)));
        tasks.go_on(id(1), News::Upstreams, None);
        tasks.add(task(2, Some(1), None));
        tasks.add(task(1, Some(2), None));
        assert_eq!(tasks.newest(News::Upstreams), Some((id(1), 2)));
        let left: Vec<_> = tasks.take().iter().map(|it| (it.id, it.down, it.up)).collect();
        assert_eq!(left, [(id(1), Some(2), Some(3)), (id(2), Some(1), None)]);
    }
}
