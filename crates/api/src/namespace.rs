//! Namespaces.

use std::collections::BTreeMap;

use ff_core::name::Namespace;
use ff_core::query::CountKey;

answer! {
    /// A namespace and what is in it.
    pub struct NamespaceDoc {
        pub name: String,
        /// How many executions there are.
        pub executions: u64,
        /// How many there are in each state; none with zero.
        pub states: BTreeMap<String, u64>,
    }
}

answer! {
    /// Namespaces, in the order of their names.
    pub struct NamespacesDoc {
        pub namespaces: Vec<NamespaceDoc>,
    }
}

impl NamespaceDoc {
    pub fn empty(name: &Namespace) -> NamespaceDoc {
        NamespaceDoc { name: name.to_string(), executions: 0, states: BTreeMap::new() }
    }
}

impl NamespacesDoc {
    /// All that something is in.
    pub fn of(counts: &[(CountKey, u64)]) -> NamespacesDoc {
        let mut all = BTreeMap::<&Namespace, NamespaceDoc>::new();
        for (key, count) in counts {
            let it = all.entry(&key.namespace).or_insert_with(|| NamespaceDoc::empty(&key.namespace));
            it.executions += count;
            *it.states.entry(key.state.word().to_owned()).or_default() += count;
        }
        NamespacesDoc { namespaces: all.into_values().collect() }
    }
}
