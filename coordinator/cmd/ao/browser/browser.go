// Package browser opens an address in the browser of whoever sits at this machine.
package browser

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// openTimeout is how long an opener may take to fail. One that still runs then is taken to be the browser.
const openTimeout = 2 * time.Second

// Open opens an address. The error says why nobody will see it.
func Open(address string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no screen here (DISPLAY, WAYLAND_DISPLAY)")
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("there is no program %s here", name)
	}
	c := exec.Command(name, address)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is ours, not the browser's
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case <-time.After(openTimeout):
	}
	return nil
}
