//! A bounded memory of what has ended.

use std::collections::{HashMap, VecDeque};

/// How many ended tasks and deleted VMs are remembered. More than can be in flight at once.
const REMEMBERED: usize = 4096;

/// A map that forgets its oldest entries.
pub struct Remembered<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self {
            map: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash, V> Remembered<K, V> {
    /// What is remembered of it.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    /// Remembers it.
    pub fn put(&mut self, key: K, value: V) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.map.remove(&oldest);
            }
        }
    }

    /// What is remembered of it, once.
    pub fn take(&mut self, key: &K) -> Option<V> {
        self.map.remove(key)
    }

    /// Forgets it.
    pub fn forget(&mut self, key: &K) {
        self.map.remove(key);
    }
}
