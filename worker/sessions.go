package worker

import (
	"context"

	"ao/worker/program"
)

// keptSessions returns the processes that an executor keeps for further turns; an empty pool if it keeps none. changed
// is called whenever the set of idle ones changes.
func keptSessions(e Executor, changed func()) *program.Pool {
	pool := program.NewPool(program.PoolConfig{})
	if p, ok := e.(persistentExecutor); ok {
		pool = p.Pool
	}
	pool.Watch(changed)
	return pool
}

// endSessions ends the remaining processes when the worker shuts down.
func endSessions(pool *program.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	pool.Close(ctx)
}
