package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrLinkOut refuses a link out of a folder.
var ErrLinkOut = errors.New("a link leads out of the folder; put the file itself there")

// ReadFile reads a regular file of a folder of agents, of at most so many bytes. Links are followed within the folder
// alone. So nobody who can write to it makes this process show what only this process may read.
func ReadFile(dir, path string, most int) ([]byte, fs.FileMode, error) {
	at, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // a pipe must not hold it up
	if err != nil {
		if strings.Contains(err.Error(), "path escapes from parent") { // os exports no such error
			err = fmt.Errorf("%s: %w", at, ErrLinkOut)
		}
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err := []byte(nil), error(nil)
	if info.Mode().IsRegular() {
		text, err = io.ReadAll(io.LimitReader(f, int64(most)+1))
	}
	if !info.Mode().IsRegular() || len(text) > most {
		return nil, 0, fmt.Errorf("%s must be a file of at most %d bytes", filepath.Base(path), most)
	}
	return text, info.Mode(), err
}
