package agents

// Put notes what the bucket has under a name.
func (a *Catalog) Put(name string, value []byte, rev uint64) { a.put(name, value, rev) }
