package process

import (
	"runtime"
	"sync"
	"syscall"
)

// spawners start what is bound to nothing: this process's own, and sandboxes.
var spawners = &pool{ask: make(chan *birth)}

// starter is the pool for a program.
func starter(s Spec) *pool {
	if h := hidden.Load(); h != nil && !s.sandboxed { // a sandbox cannot be made in Landlock, and hides by itself
		return h.pool
	}
	return spawners
}

var births = sync.Pool{New: func() any { return &birth{done: make(chan struct{}, 1)} }}

// open has the threads begin, once.
func (p *pool) open() error {
	p.once.Do(func() {
		adopt()
		n := 2 * runtime.GOMAXPROCS(0) // a start takes its thread until the program's exec
		bound := make(chan error, n)
		for range n {
			go p.serve(bound, make(chan struct{}))
		}
		for range n {
			if err := <-bound; err != nil {
				p.err = err
			}
		}
	})
	return p.err
}

func (p *pool) start(path string, argv []string, attr *syscall.ProcAttr, most []rlimit) (int, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	b := births.Get().(*birth)
	b.path, b.argv, b.attr, b.most = path, argv, attr, most
	p.ask <- b
	<-b.done
	pid, err := b.pid, b.err
	b.argv, b.attr, b.most, b.err = nil, nil, nil, nil
	births.Put(b)
	return pid, err
}

// serve starts programs for as long as this process lives.
func (p *pool) serve(bound chan<- error, locked chan<- struct{}) {
	runtime.LockOSThread()
	if onMainThread() { // another thread serves; it cannot be this one while this one is locked
		other := make(chan struct{})
		go p.serve(bound, other)
		<-other
		runtime.UnlockOSThread()
		close(locked)
		return
	}
	close(locked)
	var err error
	if p.bind != nil {
		err = p.bind()
	}
	bound <- err
	for b := range p.ask {
		b.pid, _, b.err = syscall.StartProcess(b.path, b.argv, b.attr)
		if b.err == nil && len(b.most) > 0 {
			b.err = impose(b.pid, b.most)
		}
		b.done <- struct{}{}
	}
}
