package embed

import (
	"cmp"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The limits of a connection. nats/server.conf has the same.
const (
	maxSubscriptions = 20_000
	maxPending       = 16 << 20 // bytes that it has not read
	// NATS writes to a client while it reads from who sends to it: one that does not read delays others so long
	writeDeadline  = 2 * time.Second
	maxControlLine = 1 << 10 // bytes of a subject, with its reply subject; a stream keeps each subject in memory
)

// limit keeps a client from taking the memory of all, unless the configuration says otherwise.
func limit(opts *server.Options) {
	if opts.MaxConn <= 0 {
		opts.MaxConn = maxConnections()
	}
	opts.MaxSubs = cmp.Or(opts.MaxSubs, maxSubscriptions)
	opts.MaxPending = cmp.Or(opts.MaxPending, maxPending)
	opts.WriteDeadline = cmp.Or(opts.WriteDeadline, writeDeadline)
	opts.NoFastProducerStall = true // a coordinator's answers to others do not wait for a client that does not read
	opts.MaxControlLine = cmp.Or(opts.MaxControlLine, maxControlLine)
}

// maxConnections returns how many connections the server accepts: a quarter of the process's open-file limit. The
// HTTP API uses half of it, and NATS would use all.
func maxConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0 // the server's own limit
	}
	return int(min(max(files.Cur/4, 64), 64<<10))
}
