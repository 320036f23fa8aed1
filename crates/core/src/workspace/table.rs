//! A cache of records that remembers what a batch and a command have changed.

use std::hash::Hash;

use rustc_hash::FxHashMap;

#[derive(Debug)]
struct Row<V> {
    /// `None`: it is known that there is no such record.
    value: Option<V>,
    /// The batch that changed it last; 0 if it was only read.
    batch: u64,
}

/// What is known of one record.
#[derive(Debug, PartialEq, Eq)]
pub enum Known<V> {
    Unknown,
    Absent,
    Present(V),
}

/// One change of a record: its key, what it was, what it is.
pub type Net<K, V> = (K, Option<V>, Option<V>);

/// Records by key, with an undo log for the command and the net change of the batch.
#[derive(Debug)]
pub struct Table<K, V> {
    rows: FxHashMap<K, Row<V>>,
    /// Records changed in the current batch, with what they were before it.
    touched: Vec<(K, Option<V>)>,
    /// What the current command has overwritten: key, value, batch before.
    undo: Vec<(K, Option<V>, u64)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Table { rows: FxHashMap::default(), touched: Vec::new(), undo: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Table<K, V> {
    pub fn get(&self, key: &K) -> Known<&V> {
        match self.rows.get(key) {
            None => Known::Unknown,
            Some(Row { value: None, .. }) => Known::Absent,
            Some(Row { value: Some(value), .. }) => Known::Present(value),
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.rows.values().filter_map(|row| row.value.as_ref())
    }

    /// Takes in a record that was read, unless it is known: what is known is at least as new.
    pub fn learn(&mut self, key: K, value: Option<V>) {
        self.rows.entry(key).or_insert(Row { value, batch: 0 });
    }

    /// Writes a record in the given batch and returns what it was. The record must be known.
    pub fn put(&mut self, key: K, value: Option<V>, batch: u64) -> Option<V> {
        let row = self.rows.entry(key.clone()).or_insert(Row { value: None, batch: 0 });
        let before = std::mem::replace(&mut row.value, value);
        let batch_before = std::mem::replace(&mut row.batch, batch);
        if batch_before != batch {
            self.touched.push((key.clone(), before.clone()));
        }
        self.undo.push((key, before.clone(), batch_before));
        before
    }

    pub fn begin_command(&mut self) {
        self.undo.clear();
    }

    /// Whether the command has written anything.
    pub fn is_written(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Takes back what the command has done, newest first; `each` sees the key, what it was made and what
    /// it is again.
    pub fn roll_back(&mut self, mut each: impl FnMut(&K, Option<&V>, Option<&V>)) {
        while let Some((key, value, batch)) = self.undo.pop() {
            let Some(row) = self.rows.get_mut(&key) else { continue };
            each(&key, row.value.as_ref(), value.as_ref());
            if row.batch != batch {
                self.touched.pop();
            }
            row.value = value;
            row.batch = batch;
        }
    }

    /// Records changed in the current batch, with what they were before it.
    pub fn touched(&self) -> impl Iterator<Item = &(K, Option<V>)> {
        self.touched.iter()
    }

    /// Ends the batch: every record it changed, with what it was before and what it is now.
    pub fn take_net(&mut self) -> Vec<Net<K, V>> {
        self.undo.clear();
        let touched = std::mem::take(&mut self.touched);
        let now = |key: &K| self.rows.get(key).and_then(|row| row.value.clone());
        touched.into_iter().map(|(key, before)| (key.clone(), before, now(&key))).collect()
    }

    /// Sets a record to what is stored, whatever is known of it, and returns what was known.
    pub fn settle(&mut self, key: K, value: Option<V>) -> Option<V> {
        self.rows.insert(key, Row { value, batch: 0 }).and_then(|row| row.value)
    }

    pub fn forget(&mut self, key: &K) {
        self.rows.remove(key);
    }

    /// Whether no batch after `settled` has changed it.
    pub fn is_settled(&self, key: &K, settled: u64) -> bool {
        self.rows.get(key).is_none_or(|row| row.batch <= settled)
    }

    /// Forgets a record that is known and such.
    pub fn forget_if(&mut self, key: &K, such: impl Fn(&V) -> bool) {
        if self.rows.get(key).and_then(|row| row.value.as_ref()).is_some_and(such) {
            self.rows.remove(key);
        }
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.touched.clear();
        self.undo.clear();
    }

    /// Drops records that no batch after `settled` has changed until about `keep` are left, those `first`
    /// picks before others.
    pub fn evict(&mut self, settled: u64, keep: usize, first: impl Fn(&V) -> bool) {
        if self.rows.len() <= keep {
            return;
        }
        self.rows.retain(|_, row| row.batch > settled || !row.value.as_ref().is_none_or(&first));
        if self.rows.len() <= keep {
            return;
        }
        let mut batches: Vec<u64> = self.rows.values().map(|row| row.batch).collect();
        let excess = self.rows.len() - keep;
        let (_, cut, _) = batches.select_nth_unstable(excess - 1);
        let cut = (*cut).min(settled);
        let mut left = excess;
        self.rows.retain(|_, row| {
            let drop = left > 0 && row.batch <= cut;
            left -= usize::from(drop);
            !drop
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_net_change_of_a_batch_leaves_out_what_happened_in_between() {
        let mut table = Table::<u8, u8>::default();
        table.learn(1, Some(10));
        table.learn(2, None);
        table.put(1, Some(11), 1);
        table.put(1, Some(12), 1);
        table.put(2, Some(20), 1);
        table.put(2, None, 1);
        assert_eq!(table.take_net(), [(1, Some(10), Some(12)), (2, None, None)]);
        table.put(1, Some(13), 2);
        assert_eq!(table.take_net(), [(1, Some(12), Some(13))]);
    }

    #[test]
    fn a_command_rolls_back_to_where_it_began_and_no_further() {
        let mut table = Table::<u8, u8>::default();
        table.learn(1, Some(10));
        table.learn(2, Some(20));
        table.put(1, Some(11), 1);
        table.begin_command();
        table.put(1, Some(12), 1);
        table.put(2, Some(21), 1);
        table.put(1, Some(13), 1);
        table.roll_back(|_, _, _| {});
        assert_eq!(table.get(&1), Known::Present(&11));
        assert_eq!(table.get(&2), Known::Present(&20));
        assert_eq!(table.take_net(), [(1, Some(10), Some(11))]);
    }

    #[test]
    fn what_is_known_is_not_overwritten_by_what_was_read_earlier() {
        let mut table = Table::<u8, u8>::default();
        table.learn(1, Some(10));
        table.put(1, Some(11), 1);
        table.learn(1, Some(10));
        assert_eq!(table.get(&1), Known::Present(&11));
    }

    #[test]
    fn eviction_spares_what_is_not_settled() {
        let mut table = Table::<u8, u8>::default();
        for key in 0..10 {
            table.learn(key, Some(key));
        }
        table.put(3, Some(30), 5);
        table.evict(4, 2, |_| false);
        assert_eq!(table.len(), 2);
        assert_eq!(table.get(&3), Known::Present(&30));
        table.evict(4, 0, |_| true);
        assert_eq!(table.len(), 1);
    }
}
