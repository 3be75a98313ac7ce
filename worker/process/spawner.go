package process

import (
	"runtime"
	"sync"
	"syscall"
)

// pool is the threads that start programs. A program is to die with this process (Pdeathsig), but the kernel means
// the thread that started it; so programs are started only by threads that live as long as the process does:
// goroutines locked to their thread which never return. None of them is the main thread (see the package comment).
type pool struct {
	once sync.Once
	ask  chan *birth
}

type birth struct {
	path string
	argv []string
	attr *syscall.ProcAttr
	most []rlimit // which hold before it begins
	pid  int
	err  error
	done chan struct{}
}

var spawners = pool{ask: make(chan *birth)}

var births = sync.Pool{New: func() any { return &birth{done: make(chan struct{}, 1)} }}

func (p *pool) start(path string, argv []string, attr *syscall.ProcAttr, most []rlimit) (int, error) {
	p.once.Do(func() {
		adopt()
		for range 2 * runtime.GOMAXPROCS(0) { // a start takes its thread until the program's exec
			go p.serve(make(chan struct{}))
		}
	})
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
func (p *pool) serve(locked chan<- struct{}) {
	runtime.LockOSThread()
	if onMainThread() { // another thread serves; it cannot be this one while this one is locked
		other := make(chan struct{})
		go p.serve(other)
		<-other
		runtime.UnlockOSThread()
		close(locked)
		return
	}
	close(locked)
	for b := range p.ask {
		b.pid, _, b.err = syscall.StartProcess(b.path, b.argv, b.attr)
		if b.err == nil && len(b.most) > 0 {
			b.err = impose(b.pid, b.most)
		}
		b.done <- struct{}{}
	}
}
