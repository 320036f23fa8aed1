//! What needs each other, found by Tarjan's algorithm.

/// Groups of places that all need each other, directly or through others. A group comes after those it needs, and its
/// places are in ascending order. Without recursion: a chain may be as long as it likes.
pub(super) fn components(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        needs,
        met: vec![0; needs.len()],
        lowest: vec![0; needs.len()],
        is_open: vec![false; needs.len()],
        open: Vec::new(),
        count: 0,
        groups: Vec::new(),
    };
    (0..needs.len()).for_each(|place| search.from(place));
    search.groups
}

struct Search<'a> {
    needs: &'a [Vec<usize>],
    /// In which order places were met, from 1; 0 if they were not.
    met: Vec<usize>,
    /// The earliest open place that is known to be reached.
    lowest: Vec<usize>,
    /// Places whose group is not known yet.
    is_open: Vec<bool>,
    open: Vec<usize>,
    count: usize,
    groups: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) {
        if self.met[start] > 0 {
            return;
        }
        self.meet(start);
        let mut path = vec![(start, 0)];
        while let Some((place, next)) = path.pop() {
            match self.needs[place].get(next) {
                Some(needed) => {
                    path.push((place, next + 1));
                    if self.met[*needed] == 0 {
                        self.meet(*needed);
                        path.push((*needed, 0));
                    } else if self.is_open[*needed] {
                        self.lowest[place] = self.lowest[place].min(self.met[*needed]);
                    }
                }
                None => {
                    if let Some((before, _)) = path.last() {
                        self.lowest[*before] = self.lowest[*before].min(self.lowest[place]);
                    }
                    self.close(place);
                }
            }
        }
    }

    fn meet(&mut self, place: usize) {
        self.count += 1;
        (self.met[place], self.lowest[place], self.is_open[place]) = (self.count, self.count, true);
        self.open.push(place);
    }

    /// Nothing before this place is reached from it, so what was met since is one group.
    fn close(&mut self, place: usize) {
        if self.lowest[place] != self.met[place] {
            return;
        }
        let start = self.open.iter().rposition(|it| *it == place).unwrap_or(0);
        let mut group = self.open.split_off(start);
        group.iter().for_each(|it| self.is_open[*it] = false);
        group.sort_unstable();
        self.groups.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_each_other_comes_together_and_after_what_it_needs() {
        type Groups = &'static [&'static [usize]];
        let cases: [(Groups, Groups); 5] = [
            (&[], &[]),
            (&[&[], &[], &[]], &[&[0], &[1], &[2]]),
            (&[&[1], &[2], &[]], &[&[2], &[1], &[0]]),
            // 0 and 1 are spares of 3; 2 lies between; 4 comes after.
            (&[&[3], &[3], &[0], &[0, 1, 2], &[3]], &[&[0, 1, 2, 3], &[4]]),
            (&[&[], &[2, 0], &[1], &[4, 2], &[3]], &[&[0], &[1, 2], &[3, 4]]),
        ];
        for (needs, groups) in cases {
            let needs: Vec<Vec<usize>> = needs.iter().map(|it| it.to_vec()).collect();
            assert_eq!(components(&needs), groups, "{needs:?}");
        }
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let needs: Vec<Vec<usize>> =
            (0..100_000).map(|it| if it < 99_999 { vec![it + 1] } else { vec![] }).collect();
        let groups = components(&needs);
        assert_eq!((groups.len(), groups[0].as_slice()), (100_000, [99_999].as_slice()));
    }
}
