package bus

// Clustered reports whether the server is one of several, so that another may know more.
func (b *Conn) Clustered() bool { return b.clustered() }
