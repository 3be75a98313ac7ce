package process

import (
	"runtime"
	"sync"
	"syscall"
)

// defaultPool starts programs that are not restricted: this process's own, sealed ones, and sandboxes.
var defaultPool = &spawnPool{requests: make(chan *spawnRequest)}

func poolFor(s Spec) *spawnPool {
	// Bubblewrap does not work under Landlock, and hides files itself.
	if h := hidden.Load(); h != nil && !s.sandboxed && s.Sealed == nil {
		return h.pool
	}
	return defaultPool
}

var spawnRequests = sync.Pool{New: func() any { return &spawnRequest{done: make(chan struct{}, 1)} }}

// open starts the threads, once.
func (p *spawnPool) open() error {
	p.once.Do(func() {
		becomeSubreaper()
		n := 2 * runtime.GOMAXPROCS(0) // a start blocks its thread until the program's exec
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

func (p *spawnPool) start(path string, argv []string, attr *syscall.ProcAttr, most []rlimit) (int, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	b := spawnRequests.Get().(*spawnRequest)
	b.path, b.argv, b.attr, b.limits = path, argv, attr, most
	p.requests <- b
	<-b.done
	pid, err := b.pid, b.err
	b.argv, b.attr, b.limits, b.err = nil, nil, nil, nil
	spawnRequests.Put(b)
	return pid, err
}

// serve starts programs until this process ends.
func (p *spawnPool) serve(bound chan<- error, locked chan<- struct{}) {
	runtime.LockOSThread()
	if onMainThread() { // another thread serves; it is not this one as long as this one is locked
		other := make(chan struct{})
		go p.serve(bound, other)
		<-other
		runtime.UnlockOSThread()
		close(locked)
		return
	}
	close(locked)
	var err error
	if p.prepare != nil {
		err = p.prepare()
	}
	bound <- err
	for b := range p.requests {
		b.pid, _, b.err = syscall.StartProcess(b.path, b.argv, b.attr)
		if b.err == nil && len(b.limits) > 0 {
			b.err = setLimits(b.pid, b.limits)
		}
		b.done <- struct{}{}
	}
}
