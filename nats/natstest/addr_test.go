package natstest

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// TestAddressesDifferBetweenProcesses: no other process gets the addresses of one, because its share stays locked.
func TestAddressesDifferBetweenProcesses(t *testing.T) {
	if own().lock == nil {
		t.Skip("all shares are taken")
	}
	seen := map[string]bool{}
	for range 100 {
		a := FreeAddr(t)
		_, text, _ := net.SplitHostPort(a)
		port, _ := strconv.Atoi(text)
		if seen[a] || port < own().from || port >= own().from+share {
			t.Fatalf("%s is given twice, or is not from %d on", a, own().from)
		}
		seen[a] = true
	}
	f, err := os.Open(lockOf(own().from))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
		t.Errorf("another one locks the same: %v", err)
	}
}

// TestAddressesAreFreeAtOnce: a program that is started at the same time does not keep an address in use.
func TestAddressesAreFreeAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	defer wg.Wait()
	end := make(chan struct{})
	defer close(end)
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					exec.Command("true").Run()
				}
			}
		})
	}
	for range 100 {
		l, err := net.Listen("tcp", FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}
