// Package browser opens an address in the user's browser.
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

// openTimeout is how long the opening program may take to fail. If it still runs then, it is the browser itself.
const openTimeout = 2 * time.Second

// Open opens an address in a browser. The error says why it could not.
func Open(address string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("no display (DISPLAY and WAYLAND_DISPLAY are not set)")
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("program %s not found", name)
	}
	c := exec.Command(name, address)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C must not end the browser
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
